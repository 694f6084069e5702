"""The formats of values by name."""

from collections.abc import Callable
from typing import Final, NamedTuple

from kpybroker.client.schemas.registry import Registry
from kpybroker.machines.lake.naming import DELTA, NamingRule
from kpybroker.pipeline.lake.errors import LakeError
from kpybroker.pipeline.lake.json_values import JsonValues
from kpybroker.pipeline.lake.values import Bytes, Values

AVRO: Final = "avro"
JSON_SCHEMA: Final = "json-schema"
PROTOBUF: Final = "protobuf"
WITH_SCHEMAS: Final = (AVRO, JSON_SCHEMA, PROTOBUF)
WITHOUT_FORMS: Final = ("json", JSON_SCHEMA)
"""The formats of documents, which may have any field."""
KINDS: Final = ("bytes", "json", *WITH_SCHEMAS)


class SchemaFile(NamedTuple):
    """A schema that stands in a file instead of a registry."""

    content: bytes
    message: str | None = None
    """For Protobuf, the full name of the message."""


def values_of(kind: str, registry: Registry | None, file: SchemaFile | None = None, rule: NamingRule = DELTA) -> Values:
    """The format of this name, with schemas of a registry or of a file, and columns named by a rule. LakeError."""
    if kind not in KINDS:
        raise LakeError(f"no format {kind!r}; there are {', '.join(KINDS)}")
    if kind not in WITH_SCHEMAS:
        if file is not None:
            raise LakeError(f"--schema is for --values {', '.join(WITH_SCHEMAS)}, not for {kind}")
        return Bytes() if kind == "bytes" else JsonValues(None, rule)
    if file is not None and file.message is not None and kind != PROTOBUF:
        raise LakeError(f"--message is for --values {PROTOBUF}")
    if file is not None and registry is not None:
        raise LakeError("--schema and --schema-registry exclude each other")
    if file is None and registry is None:
        raise LakeError(f"--values {kind} needs --schema-registry or --schema")
    if kind == JSON_SCHEMA:
        return _json_schema(rule, registry, file)
    return _by_schema(kind, rule, registry, file)


def comparable(kind: str, values: Callable[[], Values]) -> Values | None:
    """The format of values with which a check reads them again; None if it needs schemas and none are given."""
    try:
        return values()
    except LakeError:
        if kind in WITH_SCHEMAS:
            return None
        raise


def _json_schema(rule: NamingRule, registry: Registry | None, file: SchemaFile | None) -> Values:
    from kpybroker.pipeline.lake.json_validation import LocalJson, RegisteredJson

    if file is not None:
        return JsonValues(LocalJson(file.content), rule)
    assert registry is not None
    return JsonValues(RegisteredJson(registry), rule)


def _by_schema(kind: str, rule: NamingRule, registry: Registry | None, file: SchemaFile | None) -> Values:
    from kpybroker.pipeline.lake.by_schema import BySchema

    if kind == AVRO:
        from kpybroker.pipeline.lake.avro_values import LocalAvro, RegisteredAvro

        if file is not None:
            return BySchema(LocalAvro(file.content, rule), rule)
        assert registry is not None
        return BySchema(RegisteredAvro(registry, rule), rule)
    from kpybroker.pipeline.lake.protobuf_values import LocalProtobuf, RegisteredProtobuf

    if file is not None:
        return BySchema(LocalProtobuf(file.content, file.message, rule), rule)
    assert registry is not None
    return BySchema(RegisteredProtobuf(registry, rule), rule)
