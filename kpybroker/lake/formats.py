"""The formats of values by name."""

from typing import Final

from kpybroker.lake.errors import LakeError
from kpybroker.lake.json_values import JsonValues
from kpybroker.lake.registry import Registry
from kpybroker.lake.values import Bytes, Values

KINDS: Final = ("bytes", "json", "avro", "json-schema")


def values_of(kind: str, registry: Registry | None) -> Values:
    """The format of this name. LakeError."""
    if kind == "bytes":
        return Bytes()
    if kind == "json":
        return JsonValues()
    if kind == "protobuf":
        raise LakeError("values in Protobuf are not decoded yet; --values bytes keeps them as they are")
    if kind not in KINDS:
        raise LakeError(f"no format {kind!r}; there are {', '.join(KINDS)}")
    if registry is None:
        raise LakeError(f"--values {kind} needs --schema-registry")
    if kind == "json-schema":
        return JsonValues(registry)
    from kpybroker.lake.avro_values import AvroValues

    return AvroValues(registry)
