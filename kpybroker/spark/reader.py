"""The batch reader: plans once what is read, and hands the reading to tasks."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from kpybroker.machines.scan.bounds import LogRange
from kpybroker.machines.scan.errors import BadOption, OffsetsLost
from kpybroker.machines.scan.filters import all_of
from kpybroker.machines.scan.options import ScanOptions
from kpybroker.machines.scan.planning import tasks
from kpybroker.machines.scan.pruning import earliest_times_ms, from_times, pruned
from kpybroker.machines.scan.ranges import OffsetRange, Spot, shown
from kpybroker.pipeline.scan.cluster import ScannedCluster
from kpybroker.pipeline.scan.connecting import cluster_of
from kpybroker.pipeline.scan.ways import WayPlanner
from kpybroker.spark.one_line import one_line
from kpybroker.spark.pushdown import filter_of
from kpybroker.spark.task import SparkTask, read
from kpybroker.spark.worker_socket import ArrivesInTask

PUSHDOWN_WORKER: Final = "pyspark.sql.worker.data_source_pushdown_filters"
"""The process in which Spark (4.1 and newer) pushes filters. Elsewhere it refuses a reader that takes them, unless
``spark.sql.python.filterPushdown.enabled`` is set."""


class BatchReader(ArrivesInTask, DataSourceReader):
    """Reads the records that are there when the query is planned."""

    def __init__(self, options: ScanOptions) -> None:
        self._options = options
        self._wanted = options.wanted

    def partitions(self) -> Sequence[InputPartition]:
        with one_line():
            cluster = cluster_of(self._options)
            try:
                return self._planned(cluster)
            finally:
                cluster.client.close()

    def _planned(self, cluster: ScannedCluster) -> list[InputPartition]:
        options, condition = self._options, self._wanted.filter
        assert options.starting is not None
        assert options.ending is not None
        ids = cluster.partitions()
        logs = cluster.logs(ids)
        starts, ends = cluster.resolved(options.starting, logs), cluster.resolved(options.ending, logs)
        if not options.sizes.cuts(len(logs)):  # otherwise Spark's source leaves out what has no offsets
            check_order(starts, ends)
        if self._wanted.fails_on_data_loss:
            check_there(logs, starts, ends)
        parts = [
            OffsetRange(spot[0], ids[spot], spot[1], max(starts[spot], log.start), min(ends[spot], log.end))
            for spot, log in sorted(logs.items())
        ]
        parts = pruned(parts, condition)
        parts = from_times(parts, cluster.at_times(earliest_times_ms(parts, condition)))
        read_logs = {part.spot: logs[part.spot] for part in parts}
        offset_bytes = cluster.offset_bytes(ids, read_logs)
        ways = WayPlanner(options).ways(cluster.client, parts, offset_bytes)
        return [SparkTask(each, ways) for each in tasks(parts, ways.sizes(offset_bytes), options.sizes)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read(partition, self._options, self._wanted)


class PushedReader(BatchReader):
    """A reader to which Spark pushes the filters of a query."""

    def pushFilters(self, filters: list[Any]) -> list[Any]:  # noqa: N802 - Spark's name
        """Take what can be judged here. All filters are handed back: Spark applies them again to the few rows left."""
        self._wanted = self._options.wanted._replace(
            filter=all_of([self._options.wanted.filter, *map(filter_of, filters)])
        )
        return filters


def reader_of(options: ScanOptions) -> BatchReader:
    """The reader for the process of Spark that asks for it.

    It takes filters only with the option ``pushFilters``: Spark up to 4.3 keeps the filtered plan with the DataFrame,
    so a later query of the same one that filters nothing would miss rows.
    """
    return PushedReader(options) if options.takes_filters and PUSHDOWN_WORKER in sys.modules else BatchReader(options)


def check_order(starts: Mapping[Spot, int], ends: Mapping[Spot, int]) -> None:
    """Raise BadOption if a partition would begin behind its end. The words are those of Spark's source."""
    for (topic, partition), start in sorted(starts.items()):
        if start > ends[topic, partition]:
            raise BadOption(
                f"Beginning offset {start} is after the ending offset {ends[topic, partition]} for topic {topic} "
                f"partition {partition}. You either provided an invalid fromOffset, or the Kafka topic has been damaged"
            )


def check_there(logs: Mapping[Spot, LogRange], starts: Mapping[Spot, int], ends: Mapping[Spot, int]) -> None:
    """Raise OffsetsLost if offsets that are asked for are not in the logs."""
    for spot, log in sorted(logs.items()):
        name = shown([spot])
        if starts[spot] < min(log.start, ends[spot]):
            text = f"{name}: offset {starts[spot]} is gone, the log begins at {log.start}."
            raise OffsetsLost(text, "START_OFFSET_RESET")
        if ends[spot] > max(log.end, starts[spot]):
            text = f"{name}: offset {ends[spot] - 1} is not there, the log ends at {log.end}."
            raise OffsetsLost(text)
