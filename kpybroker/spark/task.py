"""A task of Spark: some ranges of offsets, read one after the other on an executor."""

import gc
import sys
from collections.abc import Iterator, Sequence
from functools import cache

import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from kpybroker.machines.scan.options import ScanOptions
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan import reading
from kpybroker.pipeline.scan.connecting import transport_of
from kpybroker.pipeline.scan.ways import NO_WAYS, ScanWays
from kpybroker.spark.one_line import one_line
from kpybroker.spark.zip_directories import keep_zip_directories


@cache
def keep_modules(loaded: int) -> None:  # noqa: ARG001 - once for each number
    """Let the collector of cycles leave out what is there by now, which is modules and lives as long as the process:
    Spark's processes search for garbage after each task, and take 20 ms for it otherwise. ``loaded`` is the number of
    modules: a task may load some while it reads, so the next one does this again."""
    gc.freeze()


class SparkTask(InputPartition):
    """The ranges of one task, and the ways around the brokers that the plan has found for them."""

    def __init__(self, parts: Sequence[OffsetRange], ways: ScanWays = NO_WAYS) -> None:
        super().__init__(tuple(parts))
        self.ways = ways.only(parts)


def read(task: InputPartition | None, options: ScanOptions, wanted: Projection) -> Iterator[pa.RecordBatch]:
    """The rows of a task. Where there is nothing to read, Spark plans one that is, or holds, None."""
    if not isinstance(task, SparkTask):
        return
    keep_zip_directories()
    keep_modules(len(sys.modules))
    with one_line():
        transport = transport_of(options, task.ways)
        try:
            for part in task.value:
                yield from reading.rows(transport, part, wanted)
        finally:
            transport.close()
