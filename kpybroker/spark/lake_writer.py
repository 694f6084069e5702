"""The writer of a lake table whose records are read by a Spark job.

New columns are agreed on before any file has them: a task that finds some writes nothing, the table gets them, and the
task runs again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kpybroker.client.connection import Unreachable
from kpybroker.machines.lake.coverage import Covered, LaneStep
from kpybroker.machines.lake.json_schema import MOST_COLUMNS
from kpybroker.machines.lake.planning import CommitLimits, budget_offsets, reached, tasks
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted, errors_as
from kpybroker.pipeline.lake.formats import WITHOUT_FORMS
from kpybroker.pipeline.lake.tables import ATTEMPTS, FACTS, UPSERT, LakeTable
from kpybroker.pipeline.lake.writing import GenerationWriter, SourceTopic, Taken, newest
from kpybroker.pipeline.scan.connecting import client_of
from kpybroker.pipeline.scan.ways import WayPlanner
from kpybroker.spark.lake_reading import LakeReadSettings, RangeFailed, SortedRecords, further
from kpywire.uuid import from_string

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_OFFSETS: Final = 250_000
TASK_BYTES: Final = 64 * 1024 * 1024
"""The most offsets and about the most bytes of a task: its documents are in memory, several times as large."""
LEAST_OFFSETS: Final = 5_000
"""Tasks are not cut smaller than this to keep all cores busy."""
MOST_ROUNDS: Final = 50


class SparkWriter(GenerationWriter):
    """Writes with the executors of a session."""

    def __init__(
        self,
        spark: "SparkSession",
        reading: LakeReadSettings,
        source: SourceTopic,
        table: LakeTable,
        dead_letters: Callable[[], LakeTable],
        limits: CommitLimits,
        number: int,
    ) -> None:
        super().__init__(source, reading.topic_id, table, dead_letters, reading.values(), limits, number)
        self._spark = spark
        self._reading = reading
        self._planner = WayPlanner(reading.options)

    def _taken(self, steps: list[LaneStep], *, is_careful: bool = False) -> Taken:
        """Read and sort the records of these steps; carefully, without rows of an upsert that the table refuses."""
        ranges = self._ranges(steps)
        most_bytes = 2 * self._limits.bytes / max(sum(step.offsets for step in steps), 1)
        waiting = list(ranges.values())
        done: dict[OffsetRange, SortedRecords] = {}
        for _ in range(MOST_ROUNDS):
            schema = self._table.schema()
            outcomes = self._run(waiting, schema, most_bytes, is_careful=is_careful)
            lacking = [each for each in outcomes if further(each.schema, schema)]
            done |= {each.part: each for each in outcomes if not further(each.schema, schema)}
            if not lacking:
                return self._put_together(steps, {piece: done[part] for piece, part in ranges.items()})
            self._add_columns(lacking, schema)
            waiting = [each.part for each in lacking]
        raise LakeError(f"table {self._table.name}: records have new columns again and again")

    def _ranges(self, steps: Sequence[LaneStep]) -> dict[LaneStep, OffsetRange]:
        """The range of each piece of the steps."""
        cores = self._spark.sparkContext.defaultParallelism
        each = -(-sum(step.offsets for step in steps) // cores)
        most = budget_offsets(CommitLimits(TASK_OFFSETS, TASK_BYTES), self._bytes_per_offset)
        topic_id = from_string(self._topic_id)
        return {
            step: OffsetRange(self._source.name, topic_id, step.partition, step.start, step.end)
            for step in tasks(steps, min(max(each, LEAST_OFFSETS), most))
        }

    def _run(
        self, parts: list[OffsetRange], schema: pa.Schema, most_bytes: float, *, is_careful: bool
    ) -> list[SortedRecords]:
        """Run a task for each range; it reads up to ``most_bytes`` for each offset."""
        options = self._reading.options
        files = None if self._mode == UPSERT and not is_careful else self._table.files()
        client = client_of(options)
        try:
            sizes = {part.spot: self._bytes_per_offset for part in parts}
            ways = self._planner.ways(client, parts, sizes)
        finally:
            client.close()
        task = self._reading.task(schema, files, ways, most_bytes)
        try:
            with errors_as(LakeError, "the job of Spark failed"):
                found = self._spark.sparkContext.parallelize(parts, len(parts)).map(task).collect()
        finally:
            ways.end()
        outcomes: list[SortedRecords] = []
        for each in found:
            if isinstance(each, RangeFailed):
                raise Unreachable(each.text) if each.may_pass else LakeError(each.text)
            outcomes.append(each)
        return outcomes

    def _add_columns(self, outcomes: Sequence[SortedRecords], schema: pa.Schema) -> None:
        """Give the table the columns that these have; the first of a name decides on its type."""
        rule = self._reading.rule
        wanted: dict[str, pa.Field] = {}
        for outcome in outcomes:
            for field in further(outcome.schema, schema):
                wanted.setdefault(rule.key(field.name), field)
        for attempt in range(ATTEMPTS):
            known = self._table.schema().names
            missing = [field for field in wanted.values() if field.name not in known]
            if self._reading.origin.values in WITHOUT_FORMS:
                missing = missing[: max(MOST_COLUMNS + len(FACTS) - len(known), 1)]
            try:
                if missing:
                    self._table.add_columns(pa.schema(missing))
                return
            except NotCommitted:
                if attempt == ATTEMPTS - 1:
                    raise
                self._table.refresh()

    def _put_together(self, steps: list[LaneStep], found: dict[LaneStep, SortedRecords]) -> Taken:
        reached_steps = reached(steps, {piece: outcome.end for piece, outcome in found.items()})
        ends = {(step.partition, step.lane): step.end for step in reached_steps}
        done = [
            outcome
            for piece, outcome in sorted(found.items(), key=lambda item: item[0])
            if piece.start < ends.get((piece.partition, piece.lane), 0)
        ]
        dead = pa.concat_tables([each.dead for each in done])
        rows, size = sum(each.rows for each in done), sum(each.bytes for each in done)
        careful = partial(self._taken, steps, is_careful=True) if self._mode == UPSERT else lambda: None
        return Taken(reached_steps, rows, dead, size, self._change(done), careful)

    def _change(self, done: Sequence[SortedRecords]) -> Callable[[Covered], None]:
        if self._mode != UPSERT:
            files = [file for each in done for file in each.files]
            return lambda covered: self._table.append_files(files, covered)
        found = [each.latest for each in done if each.latest is not None]
        rows, gone = newest(
            pa.concat_tables([rows for rows, _ in found], promote_options="default"),
            pa.concat_tables([gone for _, gone in found]),
        )
        return lambda covered: self._table.upsert(rows, gone, covered)
