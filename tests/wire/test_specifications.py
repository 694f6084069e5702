"""The declarations are Apache Kafka's specifications: those inside its jars, read here on their own."""

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from all_messages import message_classes

import kpywire
import oracle
from kpywire.api import API_KEYS
from kpywire.generator.__main__ import main
from kpywire.schema import Field, Shape, fields_of
from kpywire.uuid import ZERO_UUID

pytestmark = pytest.mark.java

PACKAGES = {
    "kafka-clients": ("messages", 203),
    "kafka-metadata": ("metadata_records", 27),
    "kafka-group-coordinator": ("group_records", 44),
    "kafka-transaction-coordinator": ("transaction_records", 2),
    "kafka-share-coordinator": ("share_records", 4),
    "kafka-storage": ("remote_log_records", 4),
    "kafka-raft": ("messages", 1),
}
KINDS = {
    "bool": "bool", "int8": "i8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64",
    "float64": "f64", "string": "string", "uuid": "uuid", "bytes": "bytes", "records": "record_batches",
}  # fmt: skip
ZEROS = {"bool": False, "float64": 0.0, "string": "", "uuid": ZERO_UUID, "bytes": b"", "records": None}
ALL_VERSIONS = range(40)


def specifications_of(artifact: str) -> list[dict[str, Any]]:
    with ZipFile(oracle.jars_directory() / f"{artifact}-{oracle.jars.KAFKA_VERSION}.jar") as jar:
        names = [
            name
            for name in jar.namelist()
            if re.match(r"(common/)?(message|metadata)/(?!ProducerSnapshot).*\.json$", name)
        ]
        found = [json.loads(re.sub(r"(?m)^\s*//.*$", "", jar.read(name).decode())) for name in names]
    return [removed(facts["name"]) if facts["validVersions"] == "none" else facts for facts in found]


@cache
def removed(name: str) -> dict[str, Any]:
    """A message of ZooKeeper mode, which Kafka 4.0 removed, as Kafka 3.9 specifies it."""
    release = oracle.jars.KAFKA_BEFORE_4
    with ZipFile(oracle.jars_directory(release) / f"kafka-clients-{release}.jar") as jar:
        text = jar.read(f"common/message/{name}.json").decode()
    return json.loads(re.sub(r"(?m)^\s*//.*$", "", text))  # type: ignore[no-any-return]


def versions(text: str) -> set[int]:
    if text == "none":
        return set()
    first, _, last = text.removesuffix("+").partition("-")
    end = ALL_VERSIONS.stop if text.endswith("+") else int(last or first) + 1
    return set(range(int(first), end))


def declared_messages() -> Iterator[tuple[Any, dict[str, Any]]]:
    for artifact, (package, _) in PACKAGES.items():
        for facts in specifications_of(artifact):
            yield message_classes()[package, facts["name"]], facts


def declared_fields() -> Iterator[tuple[str, set[int], Field, dict[str, Any]]]:
    """Every field of every message and struct: where it is, the versions its struct is in, ours, Kafka's."""
    for cls, facts in declared_messages():
        common = {struct["name"]: struct for struct in facts.get("commonStructs", [])}
        yield from _fields(cls, facts.get("fields", []), common, versions(facts["validVersions"]))


def _fields(
    cls: type, kafkas: list[dict[str, Any]], common: dict[str, Any], present: set[int]
) -> Iterator[tuple[str, set[int], Field, dict[str, Any]]]:
    for ours, facts in zip(fields_of(cls), kafkas, strict=True):
        yield f"{cls.__module__}.{cls.__name__}.{ours.name}", present, ours, facts
        struct = ours.shape.struct or (ours.shape.element and ours.shape.element.struct)
        if struct:
            name = facts["type"].removeprefix("[]")
            inner = facts.get("fields") or common[name]["fields"]
            where = common[name]["versions"] if name in common else field_versions(facts)
            yield from _fields(struct, inner, common, present & versions(where))


def field_versions(facts: dict[str, Any]) -> str:
    return facts.get("versions") or facts["taggedVersions"]


def test_every_specification_is_declared_and_nothing_else() -> None:
    expected = set()
    for artifact, (package, count) in PACKAGES.items():
        found = specifications_of(artifact)
        assert len(found) == count
        expected |= {(package, facts["name"]) for facts in found}
    assert set(message_classes()) == expected


def test_messages_have_kafkas_keys_and_versions() -> None:
    for cls, facts in declared_messages():
        assert facts.get("apiKey") == cls.KEY, cls
        assert versions(facts["validVersions"]) == set(cls.VERSIONS), cls
        flexible = versions(facts.get("flexibleVersions", "none"))
        assert {version for version in ALL_VERSIONS if version in cls.FLEXIBLE} == flexible, cls
        unstable = max(cls.VERSIONS) if facts.get("latestVersionUnstable") else None
        assert unstable == cls.UNSTABLE, cls


def test_fields_have_kafkas_names_in_kafkas_order() -> None:
    seen = 0
    for where, _, ours, facts in declared_fields():
        assert ours.name.replace("_", "") == facts["name"].lower(), where
        seen += 1
    assert seen > 1965


def test_fields_have_kafkas_types() -> None:
    for where, _, ours, facts in declared_fields():
        expected = facts["type"]
        shape = ours.shape
        if expected.startswith("[]"):
            assert shape.kind == "array", where
            assert shape.element is not None
            shape, expected = shape.element, expected[2:]
        assert _is_type(shape, expected), where


def _is_type(shape: Shape, expected: str) -> bool:
    if shape.struct is None:
        return shape.kind == KINDS[expected]
    return shape.kind == "struct" and shape.struct.__name__.endswith(expected)


def test_fields_have_kafkas_versions_tags_and_nulls() -> None:
    for where, present, ours, facts in declared_fields():
        expected = present & versions(field_versions(facts))
        assert {version for version in present if version in ours.versions} == expected, where
        nullable = expected & versions(facts.get("nullableVersions", "none"))
        assert {version for version in expected if version in ours.nullable} == nullable, where
        assert ours.tag == facts.get("tag"), where
        if ours.tag is not None:
            assert versions(facts["taggedVersions"]) == versions(field_versions(facts)), where
        assert ours.never_flexible == (facts.get("flexibleVersions") == "none"), where


def test_fields_have_kafkas_defaults() -> None:
    for where, _, ours, facts in declared_fields():
        assert _default(ours, facts) == ours.default, where


def _default(ours: Field, facts: dict[str, Any]) -> Any:
    text, kind = facts.get("default"), facts["type"]
    if text == "null":
        return None
    if kind.startswith("[]"):
        return []
    if kind not in KINDS:
        return ours.shape.struct
    if text in (None, ""):
        return ZEROS.get(kind, 0)
    if kind == "bool":
        return str(text).lower() == "true"
    return int(str(text), 0)


def test_fields_are_ignorable_where_kafka_says_so() -> None:
    for where, present, ours, facts in declared_fields():
        if present - versions(field_versions(facts)):
            assert ours.ignorable == facts.get("ignorable", False), where


def test_apis_listen_where_kafka_says_so() -> None:
    listeners = {
        facts["apiKey"]: set(facts["listeners"]) for facts in specifications_of("kafka-clients") if "listeners" in facts
    }
    assert {key: set(api.listeners) for key, api in API_KEYS.items() if "zkBroker" not in api.listeners} == {
        key: names for key, names in listeners.items() if "zkBroker" not in names
    }
    assert {key for key, api in API_KEYS.items() if api.listeners == ("zkBroker",)} == {4, 5, 6, 7}


def test_the_generator_writes_the_files_that_are_here(tmp_path: Path) -> None:
    package = Path(kpywire.__file__).parent
    jars = oracle.jars_directory(), oracle.jars_directory(oracle.jars.KAFKA_BEFORE_4)
    assert main([*map(str, jars), str(tmp_path)]) == 0
    written = {path.relative_to(tmp_path) for path in tmp_path.rglob("*.py")}
    assert len(written) > 160
    for path in written:
        assert (package / path).read_bytes() == (tmp_path / path).read_bytes(), path
    for directory in {path.parent for path in written} - {Path()}:
        here = {path.name for path in (package / directory).glob("*.py")} - {"__init__.py"}
        assert here == {path.name for path in written if path.parent == directory}
