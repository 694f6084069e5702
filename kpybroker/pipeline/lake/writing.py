"""The writer of one table: reads the next offsets of the topic, sorts their records, commits dead letters, then rows.

Invariant: the table's own offsets say which records are done. Dead letters are committed first; those that the table
does not cover yet are of a commit that did not follow, and are deleted before anything else is written.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kpybroker.machines.lake import planning
from kpybroker.machines.lake.coverage import Coverage, Covered, LaneStep, advanced, is_within
from kpybroker.pipeline.lake.errors import LakeError, NotCommitted, TableChanged
from kpybroker.pipeline.lake.refusing import without_refused
from kpybroker.pipeline.lake.tables import (
    ATTEMPTS,
    FACTS,
    KEY,
    OFFSET,
    PARTITION,
    REASON,
    UPSERT,
    VALUE,
    LakeTable,
    with_reasons,
)
from kpybroker.pipeline.lake.values import Sorted, Values, raw_of, sort

NO_KEY = "the record has no key"


class SourceTopic(Protocol):
    """The topic, as a writer needs it."""

    name: str
    fails_on_data_loss: bool

    def starts(self) -> dict[int, int]: ...

    def ends(self) -> dict[int, int]: ...

    def log_ends(self) -> dict[int, int]:
        """The ends of the partitions, with records that are not committed yet."""

    def read(self, steps: Iterable[LaneStep], most_bytes: int) -> tuple[pa.Table, list[LaneStep]]:
        """The records of these steps up to about ``most_bytes``, and the steps as far as they were read."""


class Taken(NamedTuple):
    """The records of some steps, sorted: dead letters, and the change of the table that the others make."""

    steps: list[LaneStep]
    """The steps as far as their records were taken."""
    rows: int
    dead: pa.Table
    bytes: int
    """The size of keys and values."""
    change: Callable[[Covered], None]
    without: "Callable[[], Taken | None]"
    """The same without the rows that the table refuses, which are the dead letters then; None if it refuses none."""


class CommitOutcome(NamedTuple):
    """The outcome of one commit."""

    steps: list[LaneStep]
    rows: int
    dead: int
    bytes: int
    reason: str = ""
    """Why the first of the dead letters is one."""


class GenerationWriter:
    """Writes one generation of a topic into one table and its dead letters."""

    def __init__(
        self,
        source: SourceTopic,
        topic_id: str,
        table: LakeTable,
        dead_letters: Callable[[], LakeTable],
        values: Values,
        limits: planning.CommitLimits,
        number: int,
    ) -> None:
        """``dead_letters`` opens their table, and makes it when it is first needed. ``number`` is a random one of this
        writer."""
        self._source = source
        self._topic_id = topic_id
        self._table = table
        self._open_dead_letters = dead_letters
        self._dead_letters: LakeTable | None = None
        self._values = values
        origin = table.origin()
        self._mode = "" if origin is None else origin.mode
        self._limits = limits
        self._bytes_per_offset: float = planning.FIRST_GUESS_BYTES
        self._number = number
        self.coverage: Coverage = table.covered(topic_id).coverage

    def take_over(self, dead_letters: LakeTable | None) -> int:
        """Become the table's writer: a commit of another one that is under way fails from now on. Then delete the dead
        letters of a commit that did not follow, and return how many there were."""
        self.coverage = self._take(self._table)
        return 0 if dead_letters is None else self._take_dead_letters(dead_letters)

    def _take(self, table: LakeTable) -> Coverage:
        for attempt in range(ATTEMPTS):
            coverage = table.covered(self._topic_id).coverage
            try:
                table.append(table.schema().empty_table(), self._covered(coverage))
                break
            except NotCommitted:
                if attempt == ATTEMPTS - 1:
                    raise
                table.refresh()
        return coverage

    def _take_dead_letters(self, dead_letters: LakeTable) -> int:
        self._dead_letters = dead_letters
        if is_within(self._take(dead_letters), self.coverage):
            return 0
        before = dead_letters.count()
        dead_letters.delete_uncovered(self._covered(self.coverage))
        dead_letters.refresh()
        return before - dead_letters.count()

    def _covered(self, coverage: Coverage) -> Covered:
        return Covered(self._topic_id, coverage, self._number)

    def begin(self, *, backfill: bool) -> None:
        """Give lanes to the partitions that have none."""
        if backfill and self._mode == UPSERT:
            raise LakeError("a backfill beside the tail would mix up the order of keys; upsert without --backfill")
        is_new = not self.coverage
        starts, ends = self._source.starts(), self._source.ends()
        self.coverage = planning.begin(self.coverage, starts, ends, backfill=backfill and is_new)

    def pending(self, ends: dict[int, int]) -> list[LaneStep]:
        """The offsets below ``ends`` that are not covered."""
        return planning.pending(self.coverage, ends)

    def require_log(self, ends: dict[int, int]) -> list[str]:
        """Compare the ends of the logs with the table. If a log ends below what the table covers, records were lost:
        LakeError, or the rows behind its end are deleted if lost records are to be skipped. Return lines about that."""
        if not planning.lost(self.coverage, ends):
            return []
        log_ends = self._source.log_ends()  # an open transaction may hold committed records back
        lines = [
            f"{self._source.name}-{partition}: the table has offsets up to {covered}, and the log ends at {end}"
            for partition, (covered, end) in planning.lost(self.coverage, log_ends).items()
        ]
        if not lines:
            return []
        if self._source.fails_on_data_loss:
            raise LakeError(
                f"{'; '.join(lines)}: the topic has lost records; --skip-lost deletes their rows and goes on"
            )
        target = planning.cut(self.coverage, log_ends)
        self._commit(self._table, self.coverage, target, self._table.delete_uncovered)
        self.coverage = target
        self._commit(self._table, target, target, lambda covered: self._table.append(self._nothing(), covered))
        if self._dead_letters is not None:
            self._take_dead_letters(self._dead_letters)
        return [f"{line}; rows behind it were deleted." for line in lines]

    def _nothing(self) -> pa.Table:
        return self._table.schema().empty_table()

    def is_due(self, waiting: list[LaneStep], waited_ms: int) -> bool:
        """Whether these are worth a commit now."""
        return planning.is_due(waiting, self._limits, self._bytes_per_offset, waited_ms)

    def write(self, ends: dict[int, int]) -> CommitOutcome | None:
        """One commit of records below ``ends``; None if none waits."""
        steps = planning.plan(self.coverage, ends, self._limits, self._bytes_per_offset)
        if not steps:
            return None
        taken = self._taken(steps)
        target = advanced(self.coverage, taken.steps)
        self._commit_dead(taken.dead, target)
        try:
            self._commit(self._table, self.coverage, target, taken.change)
        except NotCommitted:
            left = taken.without()
            if left is None:
                raise
            known = _among(left.dead, _spots(taken.dead))
            self._commit_dead(left.dead.filter(pc.invert(known)), target)
            self._commit(self._table, self.coverage, target, left.change)
            taken = left
        self.coverage = target
        offsets = sum(step.offsets for step in taken.steps)
        if offsets:
            self._bytes_per_offset = max(taken.bytes / offsets, 1.0)
        reason = taken.dead[REASON][0].as_py() if taken.dead.num_rows else ""
        return CommitOutcome(taken.steps, taken.rows, taken.dead.num_rows, taken.bytes, reason)

    def _taken(self, steps: list[LaneStep]) -> Taken:
        """Read and sort the records of these steps."""
        records, done = self._source.read(steps, self._limits.bytes)
        raw = raw_of(records, self._topic_id)
        return self._sorted(done, sorted_for(self._mode, self._values, raw, self._table.schema()), raw)

    def _sorted(self, steps: list[LaneStep], found: Sorted, raw: pa.Table) -> Taken:
        def without() -> Taken | None:
            left = without_refused(found, raw, self._table)
            return None if left is None else self._sorted(steps, left, raw)

        return Taken(steps, found.rows.num_rows, found.dead, size_of(raw), self._move(found, raw), without)

    def _move(self, found: Sorted, raw: pa.Table) -> "Callable[[Covered], None]":
        """The change of the table: rows to append, or the last record of each key."""
        if self._mode != UPSERT:
            return lambda covered: self._table.append(found.rows, covered)
        rows, gone = latest(found, raw)
        return lambda covered: self._table.upsert(rows, gone, covered)

    def _commit_dead(self, dead: pa.Table, target: Coverage) -> None:
        if not dead.num_rows:
            return
        if self._dead_letters is None:
            self._take_dead_letters(self._open_dead_letters())
        assert self._dead_letters is not None
        dead_letters = self._dead_letters
        before = dead_letters.covered(self._topic_id).coverage
        self._commit(dead_letters, before, target, lambda covered: dead_letters.append(dead, covered))

    def _commit(self, table: LakeTable, before: Coverage, target: Coverage, change: Callable[[Covered], None]) -> None:
        commit(table, self._covered(target), self._covered(before), change)


def size_of(raw: pa.Table) -> int:
    """The bytes of keys and values."""
    return int(raw[KEY].nbytes + raw[VALUE].nbytes)


def sorted_for(mode: str, values: Values, raw: pa.Table, table: pa.Schema) -> Sorted:
    """Sort records for a table of this mode: with upsert, one without a key is a dead letter."""
    if mode != UPSERT or not raw[KEY].null_count:
        return sort(values, raw, table)
    without = pc.is_null(raw[KEY])
    found = sort(values, raw.filter(pc.invert(without)), table)
    keyless = raw.filter(without)
    reasons = pa.repeat(pa.scalar(NO_KEY), keyless.num_rows)
    return Sorted(found.rows, pa.concat_tables([found.dead, with_reasons(keyless, reasons)]))


def commit(table: LakeTable, covered: Covered, before: Covered, change: Callable[[Covered], None]) -> None:
    """Commit a change once, also where an answer is lost: the table itself says whether it took place.

    TableChanged if another writer has committed since; NotCommitted after a number of attempts.
    """
    for attempt in range(ATTEMPTS):
        try:
            change(covered)
            return
        except NotCommitted:
            table.refresh()
            now = table.covered(covered.topic_id)
            if now == covered:
                return
            if now.writer != before.writer or not same(now.coverage, before.coverage):
                raise TableChanged(f"table {table.name}: another writer has taken over; there must be one") from None
            if attempt == ATTEMPTS - 1:
                raise


def same(now: Coverage, before: Coverage) -> bool:
    """Whether two coverages cover the same; lanes that are empty count for nothing."""
    return is_within(now, before) and is_within(before, now)


def latest(found: Sorted, raw: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The rows that are the last of their key, and the facts of last records that are no rows: of tombstones and of
    dead letters, whose keys are deleted."""
    keyed = raw.filter(pc.is_valid(raw[KEY]))
    last = keyed.group_by([PARTITION, KEY]).aggregate([(OFFSET, "max")])
    spots = set(zip(last[PARTITION].to_pylist(), last[f"{OFFSET}_max"].to_pylist(), strict=True))
    tombstones = keyed.filter(pc.is_null(keyed[VALUE]))
    dead = found.dead.filter(pc.is_valid(found.dead[KEY]))
    gone = pa.concat_tables([tombstones.select(FACTS.names), dead.select(FACTS.names)])
    gone = gone.filter(_among(gone, spots))
    rows = found.rows.filter(_among(found.rows, spots))
    return rows.filter(pc.invert(_among(rows, _spots(gone)))), gone


def newest(rows: pa.Table, gone: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The results of `latest` for parts of a log, put together: again the last of each key."""
    facts = pa.concat_tables([rows.select(FACTS.names), gone])
    last = facts.group_by([PARTITION, KEY]).aggregate([(OFFSET, "max")])
    spots = set(zip(last[PARTITION].to_pylist(), last[f"{OFFSET}_max"].to_pylist(), strict=True))
    return rows.filter(_among(rows, spots)), gone.filter(_among(gone, spots))


def _spots(table: pa.Table) -> set[tuple[int, int]]:
    return set(zip(table[PARTITION].to_pylist(), table[OFFSET].to_pylist(), strict=True))


def _among(table: pa.Table, spots: set[tuple[int, int]]) -> pa.Array:
    partitions, offsets = table[PARTITION].to_pylist(), table[OFFSET].to_pylist()
    return pa.array(np.fromiter((spot in spots for spot in zip(partitions, offsets, strict=True)), bool, len(offsets)))
