"""Kafka's message specifications: JSON with comments, inside its jars."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zipfile import ZipFile

PLACES = {
    "messages": ("kafka-clients", "common/message/"),
    "metadata_records": ("kafka-metadata", "common/metadata/"),
    "group_records": ("kafka-group-coordinator", "common/message/"),
    "transaction_records": ("kafka-transaction-coordinator", "common/message/"),
    "share_records": ("kafka-share-coordinator", "common/message/"),
    "remote_log_records": ("kafka-storage", "message/"),
}
RAFT = ("kafka-raft", "common/message/")  # QuorumStateData, which joins the messages

_COMMENT = re.compile(r"\s+//(.*)")
_LICENCE = re.compile(r"^//.*$", re.MULTILINE)
_FIELD = re.compile(r"(\s*\{) \"name\"")


@dataclass
class FieldSpecification:
    """A field as Kafka specifies it, in Kafka's notation. ``default`` is None where none is given."""

    name: str
    type: str
    versions: str
    nullable: str
    tag: int | None
    default: str | None
    ignorable: bool
    flexible: str
    about: str
    notes: str


@dataclass
class StructSpecification:
    """A struct, or a whole message: its name and fields."""

    name: str
    versions: str
    fields: list[FieldSpecification]


@dataclass
class Specification:
    """The specification of a message: its kind, versions, and structs, each before the one that uses it, the message
    itself last."""

    name: str
    kind: str
    key: int | None
    versions: str
    flexible: str
    unstable: bool
    listeners: list[str]
    notes: str
    structs: list[StructSpecification] = field(default_factory=list)


def read_package(jars: Path, package: str) -> list[Specification]:
    """The specifications that one of this project's packages declares, by name. FileNotFoundError if a jar is
    missing."""
    places = [PLACES[package], RAFT] if package == "messages" else [PLACES[package]]
    found = [specification for jar, folder in places for specification in _read_jar(jars, jar, folder)]
    if package != "messages":
        found = [each for each in found if each.kind != "data"]  # kafka-storage has that of a file beside its records
    return sorted(found, key=lambda specification: specification.name)


def with_removed(specifications: list[Specification], earlier: list[Specification]) -> list[Specification]:
    """The specifications, where messages without any version are replaced by those of an earlier Kafka."""
    before = {each.name: each for each in earlier}
    return [before.get(each.name, each) if each.versions == "none" else each for each in specifications]


def jar_path(jars: Path, artifact: str) -> Path:
    """The jar of an artifact, whatever its version."""
    matching = sorted(path for path in jars.glob(f"{artifact}-*.jar") if path.name[len(artifact) + 1].isdigit())
    if len(matching) != 1:
        raise FileNotFoundError(f"{jars} holds {len(matching)} jars of {artifact}, not one")
    return matching[0]


def _read_jar(jars: Path, artifact: str, folder: str) -> Iterator[Specification]:
    with ZipFile(jar_path(jars, artifact)) as jar:
        for name in sorted(jar.namelist()):
            if name.startswith(folder) and name.endswith(".json"):
                yield parse(jar.read(name).decode())


def parse(text: str) -> Specification:
    """Parse one specification."""
    text, notes = _without_comments(_LICENCE.sub("", text))
    facts = json.loads(text)
    found = Specification(
        name=facts["name"],
        kind=facts["type"],
        key=facts.get("apiKey"),
        versions=facts["validVersions"],
        flexible=facts.get("flexibleVersions", "none"),
        unstable=facts.get("latestVersionUnstable", False),
        listeners=facts.get("listeners", []),
        notes=notes,
    )
    common = {struct["name"]: struct for struct in facts.get("commonStructs", [])}
    _structs(found.structs, found.name, "0+", facts.get("fields", []), common)
    return found


def _without_comments(text: str) -> tuple[str, str]:
    """The text as plain JSON, in which comments before a field are its "notes"; and the comments before the first
    field."""
    lines: list[str] = []
    comments: list[str] = []
    notes: str | None = None
    for line in text.splitlines():
        comment, field_start = _COMMENT.match(line), _FIELD.match(line)
        if comment:
            comments.append(comment[1].strip())
            continue
        if field_start and notes is None:
            notes = "\n".join(comments)
            comments.clear()
        if field_start and comments:
            field_notes = json.dumps("\n".join(comments))
            line = f'{field_start[1]} "notes": {field_notes},{line[field_start.end(1) :]}'
            comments.clear()
        lines.append(line)
    return "\n".join(lines), "\n".join(comments) if notes is None else notes


def _structs(
    known: list[StructSpecification], name: str, versions: str, fields: list[dict[str, Any]], common: dict[str, Any]
) -> None:
    for facts in fields:
        used = facts["type"].removeprefix("[]")
        if any(struct.name == used for struct in known):
            continue
        if "fields" in facts:
            _structs(known, used, _versions(facts), facts["fields"], common)
        elif used in common:
            _structs(known, used, common[used]["versions"], common[used]["fields"], common)
    known.append(StructSpecification(name, versions, [_field(facts) for facts in fields]))


def _versions(facts: dict[str, Any]) -> str:
    versions: str = facts.get("versions") or facts["taggedVersions"]
    return versions


def _field(facts: dict[str, Any]) -> FieldSpecification:
    default = facts.get("default")
    if isinstance(default, bool):
        default = str(default).lower()
    return FieldSpecification(
        name=facts["name"],
        type=facts["type"],
        versions=_versions(facts),
        nullable=facts.get("nullableVersions", "none"),
        tag=facts.get("tag"),
        default=None if default is None else str(default),
        ignorable=facts.get("ignorable", False),
        flexible=facts.get("flexibleVersions", ""),
        about=" ".join(facts.get("about", "").split()),
        notes=facts.get("notes", ""),
    )
