"""The columns of rows that Spark writes: key, value, headers, topic, partition, with the checks of its Kafka sink."""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import pyarrow as pa
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, StringType, StructType

from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.pipeline.sink.packing import SinkRow
from kpywire.record import Header

BY_PARTITION: Final = "kpybroker.by_partition"
"""The metadata of the column ``partition`` of a frame whose partitions have one task each."""
_TEXT: Final = (StringType, BinaryType)


class SinkColumns(NamedTuple):
    """The places of the columns in a row; None where there is none. ``topic`` is that of the option."""

    key: int | None
    value: int
    headers: int | None
    partition: int | None
    topic_column: int | None
    topic: str | None

    def rows(self, frames: Iterable[Any]) -> Iterator[SinkRow]:
        """The rows of Spark: of Arrow's batches, or one after the other."""
        for frame in frames:
            if isinstance(frame, pa.RecordBatch):
                for values in zip(*(column.to_pylist() for column in frame.columns), strict=True):
                    yield self._row(values)
            else:
                yield self._row(frame)

    def _row(self, values: Any) -> SinkRow:
        topic = self.topic
        if topic is None and self.topic_column is not None:
            topic = values[self.topic_column]
        headers = None if self.headers is None else values[self.headers]
        return SinkRow(
            topic,
            None if self.partition is None else values[self.partition],
            None if self.key is None else _bytes(values[self.key]),
            _bytes(values[self.value]),
            tuple(map(_header, headers)) if headers else (),
        )


def columns_of(schema: StructType, topic: str | None) -> SinkColumns:
    """The columns of a schema. Raises BadOption."""
    places = {name.lower(): place for place, name in enumerate(schema.fieldNames())}
    types = {field.name.lower(): field.dataType for field in schema.fields}
    if "value" not in places:
        raise BadOption("Required attribute 'value' not found")
    if topic is None and "topic" not in places:
        raise BadOption(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    for name, wanted in (("key", _TEXT), ("value", _TEXT), ("topic", (StringType,)), ("partition", (IntegerType,))):
        if name in types and not isinstance(types[name], wanted):
            raise BadOption(_unsupported(name, types[name], " or a ".join(each.typeName() for each in wanted)))
    if "headers" in types and not _are_headers(types["headers"]):
        raise BadOption(_unsupported("headers", types["headers"], "array<struct<key:string,value:binary>>"))
    return SinkColumns(
        key=places.get("key"),
        value=places["value"],
        headers=places.get("headers"),
        partition=places.get("partition"),
        topic_column=places.get("topic"),
        topic=topic,
    )


def is_by_partition(schema: StructType) -> bool:
    """Whether `by_partition` has made the frame."""
    return any(
        field.name.lower() == "partition" and (field.metadata or {}).get(BY_PARTITION) for field in schema.fields
    )


def _unsupported(name: str, found: DataType, wanted: str) -> str:
    return f"{name} attribute unsupported type {found.simpleString()}. {name} must be a {wanted}"


def _are_headers(found: DataType) -> bool:
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StructType):
        return False
    types = [(field.name.lower(), type(field.dataType)) for field in found.elementType.fields]
    return types == [("key", StringType), ("value", BinaryType)]


def _header(found: Any) -> Header:
    if found is None or found["key"] is None:
        raise ScanError("Null header keys are not permitted")
    return found["key"], _bytes(found["value"])


def _bytes(value: Any) -> bytes | None:
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else bytes(value)
