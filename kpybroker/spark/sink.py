"""The writers of the data source: ``write`` and ``writeStream`` with ``format("kpybroker")``."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import datasource
from pyspark.sql.datasource import DataSourceArrowWriter
from pyspark.sql.types import StructType

from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.pipeline.sink.connecting import client_of, codec_of, warnings_of
from kpybroker.pipeline.sink.options import PREFIX, Mark, SinkOptions, for_stream, sink_options
from kpybroker.spark.one_line import one_line, warn
from kpybroker.spark.sink_columns import SinkColumns, columns_of, is_by_partition
from kpybroker.spark.sink_ways import (
    QUERY_ID,
    AtLeastOnce,
    ByTasks,
    ThroughDriver,
    Way,
    mark_of_task,
    new_transactional_id,
)
from kpybroker.spark.worker_socket import ArrivesInTask

_StreamWriter: Any = getattr(datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter)
"""Spark sends Arrow's batches to streaming writers since 4.1."""


class BatchWriter(ArrivesInTask, DataSourceArrowWriter):
    """Writes a frame."""

    def __init__(self, way: Way, columns: SinkColumns, mark: Mark | None) -> None:
        self._way = way
        self._columns = columns
        self._mark = mark

    def write(self, iterator: Iterator[Any]) -> Any:
        with one_line():
            return self._way.write(self._columns.rows(iterator), self._mark)

    def commit(self, messages: Sequence[Any]) -> None:
        with one_line():
            self._way.commit(messages)

    def abort(self, messages: Sequence[Any]) -> None:
        with one_line():
            self._way.abort(messages)


class StreamWriter(ArrivesInTask, _StreamWriter):  # type: ignore[misc]
    """Writes the micro-batches of a query."""

    def __init__(self, way: Way, columns: SinkColumns) -> None:
        self._way = way
        self._columns = columns

    def write(self, iterator: Iterator[Any]) -> Any:
        with one_line():
            return self._way.write(self._columns.rows(iterator), mark_of_task())

    def commit(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        with one_line():
            _check_marks(self._way, messages, batchId)
            self._way.commit(messages)

    def abort(self, messages: Sequence[Any], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's name
        with one_line():
            self._way.abort(messages)


def batch_writer(given: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """The writer of a frame. Raises BadOption."""
    if overwrite:
        raise BadOption("Save mode overwrite not allowed for Kafka. Use the save mode append.")
    options = _checked(sink_options(given))
    return BatchWriter(_way(options, schema), columns_of(schema, options.topic), options.mark)


def stream_writer(given: Mapping[str, str], schema: StructType) -> StreamWriter:
    """The writer of a query. Raises BadOption."""
    options = _checked(for_stream(sink_options(given)))
    return StreamWriter(_way(options, schema), columns_of(schema, options.topic))


def _checked(options: SinkOptions) -> SinkOptions:
    client_of(options)
    codec_of(options)
    warn(warnings_of(options))
    return options


def _way(options: SinkOptions, schema: StructType) -> Way:
    if not options.is_exactly_once:
        return AtLeastOnce(options)
    transactional_id = options.transactional_id or new_transactional_id(PREFIX)
    return (ByTasks if is_by_partition(schema) else ThroughDriver)(options, transactional_id)


def _check_marks(way: Way, messages: Sequence[Any], batch_id: int) -> None:
    """Raise ScanError if tasks did not know their micro-batch: a restart could write it twice."""
    if isinstance(way, AtLeastOnce):
        return
    for message in messages:
        if message.mark is None or message.mark.version != batch_id:
            raise ScanError(f"Spark has not told the tasks the property {QUERY_ID}: nothing was written")
