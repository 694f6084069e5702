"""Writes one module of declarations: the messages of a file, each after its structs."""

import re
import textwrap
from collections import Counter

from kpywire.generator.names import snake_case
from kpywire.generator.specifications import FieldSpecification, Specification, StructSpecification
from kpywire.schema import parse_versions

WIDTH = 120
TYPES = {
    "bool": "bool", "int8": "i8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64",
    "float64": "f64", "string": "string", "uuid": "uuid", "bytes": "bytes", "records": "record_batches",
}  # fmt: skip
ZEROS = {"bool": "False", "float64": "0.0", "string": '""', "uuid": "ZERO_UUID", "bytes": 'b""', "records": "None"}
LOGS = {"metadata_records": "the metadata log", "remote_log_records": "``__remote_log_metadata``"}
LIMITS = {2**31 - 1: "0x7FFF_FFFF", -(2**31): "-0x8000_0000", 2**63 - 1: "0x7FFF_FFFF_FFFF_FFFF"}

_NEW_PARAGRAPH = re.compile(r"Versions? \d|Starting (in|from)|Supported errors|- |\d+ +- |Added in|N\.B\.")
_NOTHING_NEW = re.compile(
    r"^(?!.*(\bbut\b|\bexcept\b|KIP-))"
    r".*((is|are) the same\b|no changes?\b|(was|were) removed in Apache Kafka|was not impl\w+)"
)


def module_text(package: str, specifications: list[Specification]) -> str:
    """The module that declares these messages in a package."""
    counted = Counter(struct.name for each in specifications for struct in each.structs)
    clashing = {name for name, times in counted.items() if times > 1}
    body = "".join(_message_text(each, clashing) for each in specifications)
    return f'"""{_title(package, specifications)}"""\n\n{_imports(body)}{body}'


def _title(package: str, specifications: list[Specification]) -> str:
    first = specifications[0]
    subject = re.sub("(Key|Value|Request|Response)$", "", first.name) if first.key is not None else first.name
    match first.kind:
        case "request" | "response":
            return f"{subject}: API key {first.key}."
        case "metadata":
            return f"{first.name}: type {first.key} in {LOGS[package]}."
        case "coordinator-key" | "coordinator-value":
            return f"{subject}: a record of type {first.key}, key and value."
    return f"{subject}."


def _imports(body: str) -> str:
    aliases = [*(name for kind, name in TYPES.items() if kind not in ("bool", "bytes")), "field", "struct", "message"]
    used = [name for name in aliases if re.search(rf"(: |\[|@|= ){name}\b", body)]
    used.sort(key=lambda name: [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", name)])
    lines = f"from kpywire.schema import {', '.join(used)}\n"
    if "ZERO_UUID" in body:
        lines += "from kpywire.uuid import ZERO_UUID\n"
    return f"from __future__ import annotations\n\n{lines}"


def _message_text(specification: Specification, clashing: set[str]) -> str:
    names = {
        struct.name: specification.name + struct.name if struct.name in clashing else struct.name
        for struct in specification.structs
    }
    valid = parse_versions(specification.versions)
    text = ""
    for struct in specification.structs[:-1]:
        text += f"\n\n@struct\nclass {names[struct.name]}:\n" + _fields_text(struct, valid, names)
    facts = [f'versions="{specification.versions}"']
    if specification.key is not None:
        facts.insert(0, f"key={specification.key}")
    if specification.flexible != "none":
        facts.append(f'flexible="{specification.flexible}"')
    if specification.unstable:
        facts.append(f"unstable={valid[-1]}")
    text += f"\n\n@message({', '.join(facts)})\nclass {specification.name}:\n"
    notes = _notes(specification.notes)
    fields = _fields_text(specification.structs[-1], valid, names)
    if not valid:
        return text + '    """Removed in Apache Kafka 4.0."""\n'
    if notes and fields.strip() == "pass":
        return text + notes
    return text + (notes + "\n" if notes else "") + fields


def _notes(notes: str) -> str:
    """The notes on the versions as a docstring, without those that say that nothing changed."""
    kept = []
    for paragraph in _paragraphs(notes):
        sentences = re.split(r"(?<=[.)])\s+(?=[A-Z])", paragraph)
        if "these versions" not in paragraph:
            sentences = [sentence for sentence in sentences if not _NOTHING_NEW.search(sentence)]
        kept.append(" ".join(sentences))
    wrapped = "\n".join(_wrap(paragraph, "    ", WIDTH - 6) for paragraph in kept if paragraph)
    if not wrapped:
        return ""
    wrapped = wrapped.replace("\\", "\\\\")
    return f'    """{wrapped.strip()}{chr(10) + "    " if chr(10) in wrapped else ""}"""\n'


def _paragraphs(notes: str) -> list[str]:
    paragraphs = [""]
    for line in notes.splitlines():
        if not line or _NEW_PARAGRAPH.match(line):
            paragraphs.append("")
        paragraphs[-1] += f" {line}"
    joined = [" ".join(paragraph.split()) for paragraph in paragraphs]
    return [paragraph for paragraph in joined if paragraph]


def _wrap(text: str, indentation: str, width: int = WIDTH) -> str:
    return textwrap.fill(text, width, initial_indent=indentation, subsequent_indent=indentation, break_on_hyphens=False)


def _fields_text(struct: StructSpecification, valid: range, names: dict[str, str]) -> str:
    versions = parse_versions(struct.versions)
    present = [version for version in valid if version in versions]
    return "".join(_field_text(each, present, names) for each in struct.fields) or "    pass\n"


def _field_text(each: FieldSpecification, present: list[int], names: dict[str, str]) -> str:
    declared = [version for version in present if version in parse_versions(each.versions)]
    nullable = [version for version in declared if version in parse_versions(each.nullable)]
    everywhere = declared == present
    arguments = []
    if not everywhere:
        arguments.append(f'"{each.versions}"')
    if each.tag is not None:
        arguments.append(f"tag={each.tag}")
    if nullable and nullable != declared:
        arguments.append(f'nullable="{each.nullable}"')
    default = _default(each, names)
    if each.default is not None or each.tag is not None or not everywhere:
        arguments.append(f"default={default}")
    if each.ignorable and not everywhere:
        arguments.append("ignorable=True")
    if each.flexible:
        arguments.append(f'flexible="{each.flexible}"')
    line = f"    {snake_case(each.name)}: {_annotation(each.type, names)}{' | None' if nullable else ''}"
    if arguments:
        line += f" = field({', '.join(arguments)})"
    commented = f"{line}  # {each.about}"
    if each.about and not each.notes and len(commented) <= WIDTH:
        return commented + "\n"
    paragraphs = [each.about, *_paragraphs(each.notes)]
    return "".join(_wrap(paragraph, "    # ") + "\n" for paragraph in paragraphs if paragraph) + line + "\n"


def _annotation(kind: str, names: dict[str, str]) -> str:
    if kind.startswith("[]"):
        return f"list[{_annotation(kind[2:], names)}]"
    return TYPES.get(kind) or names[kind]


def _default(each: FieldSpecification, names: dict[str, str]) -> str:
    text, kind = each.default, each.type
    if text == "null":
        return "None"
    if kind.startswith("[]"):
        return "[]"
    if kind not in TYPES:
        return names[kind]
    if not text:
        return ZEROS.get(kind, "0")
    if kind == "bool":
        return text.capitalize()
    if kind.startswith(("int", "uint")):
        number = int(text, 0)
        return LIMITS.get(number, str(number))
    return repr(text).replace("'", '"')
