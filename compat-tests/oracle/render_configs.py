"""Writes kpybroker's config declarations from what Apache Kafka defines: ``python -m oracle.render_configs``.

Run it (with ``compat-tests`` on the path) when the oracle moves to another Kafka version, and review the difference.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from oracle.configs import dump

PACKAGE = Path(__file__).resolve().parent.parent.parent / "kpybroker" / "config"
Key = dict[str, Any]

_BROKER_DOC = '''"""Every config of a broker or controller: its type, default, importance, valid values and update mode.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""
'''
_QUOTA_DOC = '''"""Broker configs that Kafka takes from dynamic updates only, never from a file.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""
'''
_TOPIC_DOC = '''"""Every config of a topic, and the broker configs its default comes from, the first one set winning.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""
'''
_GROUP_DOC = '''"""Every config of a group and of a client metrics subscription, and where a group's defaults come from.

Generated from Apache Kafka's definitions by oracle.render_configs; do not edit. Texts are in documentation.json.
"""
'''


def render() -> dict[str, str]:
    """The content of each generated file, by its name."""
    definitions = dump()
    broker = _annotate(definitions["broker"], definitions["dynamic"])
    quota = _annotate(definitions["quota"], definitions["dynamic"])
    topic_synonyms = {
        name: tuple((synonym["name"], _factor(synonym["unit"])) for synonym in synonyms)
        for name, synonyms in definitions["topicSynonyms"].items()
    }
    group_synonyms = {name: synonym for name, synonym in definitions["groupSynonyms"].items() if synonym}
    files = {
        "broker_configs.py": _module(_BROKER_DOC, {"BROKER_CONFIGS": broker}, {}),
        "quota_configs.py": _module(_QUOTA_DOC, {"QUOTA_CONFIGS": quota}, {}),
        "topic_configs.py": _module(
            _TOPIC_DOC, {"TOPIC_CONFIGS": definitions["topic"]}, {"TOPIC_SYNONYMS": topic_synonyms}
        ),
        "group_configs.py": _module(
            _GROUP_DOC,
            {"GROUP_CONFIGS": definitions["group"], "CLIENT_METRICS_CONFIGS": definitions["client-metrics"]},
            {"GROUP_SYNONYMS": group_synonyms},
        ),
    }
    rendered = {name: _format(source) for name, source in files.items()}
    rendered["documentation.json"] = _documentation(definitions)
    return rendered


def _annotate(keys: list[Key], modes: dict[str, str]) -> list[Key]:
    return [{**key, "update": modes.get(key["name"])} for key in keys]


def _factor(unit: str) -> int:
    return {"": 1, "minutes": 60_000, "hours": 3_600_000}[unit]


def _module(docstring: str, tables: dict[str, list[Key]], constants: dict[str, dict[str, Any]]) -> str:
    body = []
    for table, keys in tables.items():
        lines = "".join(f"    {_declaration(key)},\n" for key in keys)
        body.append(f"{table}: Definitions = define((\n{lines}))\n")
    for name, value in constants.items():
        kind = "tuple[tuple[str, int], ...]" if name == "TOPIC_SYNONYMS" else "str"
        entries = "".join(f"    {key!r}: {_literal(entry)},\n" for key, entry in value.items())
        body.append(f"{name}: Mapping[str, {kind}] = {{\n{entries}}}\n")
    text = "\n".join(body)
    return f"{docstring}\n{_imports(text)}\n{text}"


def _imports(text: str) -> str:
    names = ["CLUSTER_WIDE", "HIGH", "LOW", "MEDIUM", "PER_BROKER", "BOOLEAN", "CLASS", "DOUBLE", "INT", "INT_MAX"]
    names += ["LIST", "LONG", "LONG_MAX", "PASSWORD", "SHORT", "STRING"]
    validators = ["BootstrapServers", "GzipLevel", "NonEmpty", "Present", "QuorumVoters", "ShareOffsetReset"]
    validators += ["ThrottledReplicas", "at_least", "between", "list_of", "one_of", "one_of_any_case"]
    words = set(text.replace("(", " ").replace(",", " ").replace(")", " ").replace("=", " ").split())
    lines = ["from collections.abc import Mapping\n\n"] if "Mapping[" in text else []
    used = [*sorted(name for name in names if name in words), "ConfigKey", "Definitions", "define"]
    lines.append(f"from kpybroker.machines.config_def import {', '.join(used)}\n")
    lines.append(f"from kpybroker.config.validators import {', '.join(name for name in validators if name in words)}\n")
    return "".join(lines)


def _declaration(key: Key) -> str:
    arguments = [repr(key["name"]), key["type"].upper(), _default(key), key["importance"].upper()]
    if "validator" in key:
        arguments.append(_validator(key["validator"]))
    if key.get("update"):
        arguments.append(f"update={key['update'].upper().replace('-', '_')}")
    if key["internal"]:
        arguments.append("internal=True")
    if not key["hasDefault"]:
        arguments.append("required=True")
    return f"ConfigKey({', '.join(arguments)})"


def _default(key: Key) -> str:
    text = key.get("default")
    if text is None:
        return "None"
    match key["type"]:
        case "int" | "long" | "short":
            return _literal(int(text))
        case "double":
            return repr(float(text))
        case "boolean":
            return str(text == "true")
        case "list":
            return repr(tuple(text.split(",")) if text else ())
    return repr(text)


def _literal(value: object) -> str:
    if isinstance(value, int):
        if value == 2**63 - 1:
            return "LONG_MAX"
        return "INT_MAX" if value == 2**31 - 1 else f"{value:_}"
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' * (len(value) == 1)})"
    return repr(value)


def _validator(validator: Key) -> str:
    match validator["kind"]:
        case "Range" if "max" in validator:
            return f"between({_literal_number(validator['min'])}, {_literal_number(validator['max'])})"
        case "Range":
            return f"at_least({_literal_number(validator['min'])})"
        case "ValidString":
            return f"one_of({_words(validator['validStrings'])})"
        case "CaseInsensitiveValidString":
            return f"one_of_any_case({_words(validator['validStrings'])})"
        case "ValidList":
            arguments = [repr(word) for word in validator["validString"]["validStrings"]]
            arguments += [] if validator["isEmptyAllowed"] else ["empty=False"]
            arguments += ["null=True"] if validator["isNullAllowed"] else []
            return f"list_of({', '.join(arguments)})"
    return {
        "NonEmptyString": "NonEmpty()",
        "NonNullValidator": "Present()",
        "LambdaValidator": "GzipLevel()",
        "ControllerQuorumVotersValidator": "QuorumVoters()",
        "ControllerQuorumBootstrapServersValidator": "BootstrapServers()",
        "ThrottledReplicaListValidator": "ThrottledReplicas()",
        "Validator": "ShareOffsetReset()",
    }[validator["kind"]]


def _literal_number(number: float) -> str:
    return repr(number) if isinstance(number, float) else _literal(int(number))


def _words(words: list[str]) -> str:
    return ", ".join(map(repr, words))


def _documentation(definitions: dict[str, Any]) -> str:
    tables = {"broker": definitions["broker"] + definitions["quota"]}
    tables |= {table: definitions[table] for table in ("topic", "group", "client-metrics")}
    documentation = {table: {key["name"]: key["documentation"] for key in keys} for table, keys in tables.items()}
    return json.dumps(documentation, indent=1, ensure_ascii=False) + "\n"


def _format(source: str) -> str:
    target = ["--stdin-filename", str(PACKAGE / "generated.py"), "-"]
    for step in (["check", "--quiet", "--fix", "--select", "I"], ["format", "--quiet"]):
        command = [sys.executable, "-m", "ruff", *step, *target]
        source = subprocess.run(command, input=source, capture_output=True, text=True, check=True).stdout
    return source


def main() -> None:
    """Write every generated file."""
    for name, content in render().items():
        (PACKAGE / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
