"""The identity table = topic, partition by partition: rows and dead letters = offsets - gaps of the log.

For upsert: rows and dead letters hold the last record of each key, and nothing else. Offsets before the start of the
log are counted apart: the topic does not have them any more. Whether the rows of these offsets have the contents of
their records, `kpybroker.pipeline.lake.comparing` finds out.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from kpybroker.machines.lake.coverage import Lane, LaneStep, ranges
from kpybroker.pipeline.lake.comparing import Comparison
from kpybroker.pipeline.lake.tables import UPSERT, LakeTable
from kpybroker.pipeline.lake.values import Bytes, Values

NO_END: Final = (1 << 63) - 1
MOST_NAMED: Final = 10
NOT_COMPARED: Final = (
    "Keys and timestamps were compared, but no values: --schema-registry or --schema lets the check read them."
)

Offsets = NDArray[np.int64]


class CheckedTopic(Protocol):
    """The topic, as a check needs it."""

    name: str

    def starts(self) -> dict[int, int]: ...

    def batches(self, step: LaneStep, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]: ...

    def is_compacted(self) -> bool: ...


class RowFinding(NamedTuple):
    """A row too many or too few."""

    partition: int
    offset: int
    what: str


class Count(NamedTuple):
    """The numbers of one partition."""

    partition: int
    start: int
    """The first offset that was compared."""
    end: int
    offsets: int
    gaps: int
    """Offsets without a committed record; for upsert also records that are not the last of their key."""
    rows: int
    dead: int
    gone: int
    """Rows and dead letters of offsets before the start of the log."""
    compacted: int
    """Rows of records that the log has compacted away since."""
    missing: int
    extra: int
    twice: int
    different: int
    """Rows and dead letters that have other contents than their records."""

    @property
    def holds(self) -> bool:
        return not (self.missing or self.extra or self.twice or self.different)


class TableCheck:
    """Compares a table with its topic."""

    def __init__(
        self,
        log: CheckedTopic,
        topic_id: str,
        table: LakeTable,
        dead_letters: LakeTable | None,
        mode: str,
        values: Values | None = None,
    ) -> None:
        """``values`` is the format of values, without which the columns of the table that hold them are not compared;
        keys, timestamps and values of dead letters are in any case."""
        self._log = log
        self._topic_id = topic_id
        self._table = table
        self._dead_letters = dead_letters
        self._mode = mode
        self._values = values
        self.findings: list[RowFinding] = []
        """Rows that are wrong: the first ones of each partition and kind."""

    def counts(self) -> Iterator[Count]:
        """Compare partition after partition."""
        coverage = self._table.covered(self._topic_id).coverage
        starts = self._log.starts()
        may_be_compacted = self._mode != UPSERT and self._log.is_compacted()
        for partition, lanes in sorted(coverage.items()):
            yield self._count(partition, ranges(lanes), starts.get(partition, 0), may_be_compacted)

    def _count(self, partition: int, covered: list[Lane], start: int, may_be_compacted: bool) -> Count:  # noqa: FBT001
        there = [Lane(max(lane.start, start), lane.end) for lane in covered if lane.end > start]
        rows, dead = self._of(self._table, partition), self._of(self._dead_letters, partition)
        dead = dead[_within(dead, covered)]  # those of a commit that is under way are ahead of the rows
        gone = int((rows < start).sum() + (dead < start).sum())
        offsets = sum(lane.end - lane.start for lane in there)
        expected = last_of_keys(self._log, partition, there) if self._mode == UPSERT else self._logged(partition, there)
        if self._mode == UPSERT:
            dead = np.intersect1d(dead, expected)
        found = np.concatenate([rows, dead])
        unique, times = np.unique(found, return_counts=True)
        twice = unique[times > 1]
        in_reach = unique[unique >= start]
        missing = np.setdiff1d(expected, in_reach, assume_unique=True)
        extra = np.setdiff1d(in_reach, expected, assume_unique=True)
        compacted = 0
        if may_be_compacted:
            is_covered = _within(extra, there)
            compacted, extra = int(is_covered.sum()), extra[~is_covered]
        different = self._different(partition, there, np.setdiff1d(rows, twice), np.setdiff1d(dead, twice))
        self._name(partition, missing, "is in the topic, and neither a row nor a dead letter")
        self._name(partition, twice, "is there more than once")
        self._name(partition, extra, self._why_extra(there))
        return Count(
            partition,
            there[0].start if there else start,
            there[-1].end if there else start,
            offsets,
            offsets - len(expected),
            int((rows >= start).sum()),
            int((dead >= start).sum()),
            gone,
            compacted,
            len(missing),
            len(extra),
            int((times - 1).sum()),
            different,
        )

    def _different(self, partition: int, there: list[Lane], rows: Offsets, dead: Offsets) -> int:
        """Compare the contents of rows and dead letters with their records; return how many differ."""
        number = 0
        for table, offsets in ((self._table, rows), (self._dead_letters, dead)):
            if table is None or not len(offsets):
                continue
            values = self._values if table is self._table else Bytes()
            for offset, names in Comparison(self._log, self._topic_id, table, values).different(
                partition, there, offsets
            ):
                number += 1
                if number <= MOST_NAMED:
                    self.findings.append(
                        RowFinding(partition, offset, f"has another {' and '.join(names)} in the topic")
                    )
        return number

    def _why_extra(self, there: list[Lane]) -> str:
        last = "the last record of its key" if self._mode == UPSERT else "a committed record of the topic"
        return f"is a row, and not {last} in {' and '.join(f'[{lane.start}, {lane.end})' for lane in there) or 'reach'}"

    def _name(self, partition: int, offsets: Offsets, what: str) -> None:
        self.findings += [RowFinding(partition, int(offset), what) for offset in offsets[:MOST_NAMED]]

    def _of(self, table: LakeTable | None, partition: int) -> Offsets:
        if table is None:
            return np.empty(0, np.int64)
        return np.asarray(table.places(self._topic_id, partition, 0, NO_END), np.int64)

    def _logged(self, partition: int, lanes: list[Lane]) -> Offsets:
        found = [
            np.asarray(batch["offset"], np.int64)
            for lane in lanes
            for batch in self._log.batches(LaneStep(partition, 0, *lane), ("offset",))
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)


def last_of_keys(log: CheckedTopic, partition: int, lanes: list[Lane]) -> Offsets:
    """The offsets of the records that are the last of their key and no tombstones, and of those without a key."""
    last: dict[bytes, int] = {}
    keyless: list[int] = []
    for lane in lanes:
        for batch in log.batches(LaneStep(partition, 0, *lane), ("key", "value", "offset")):
            has_value = batch["value"].is_valid().to_pylist()
            offsets = batch["offset"].to_pylist()
            for key, is_row, offset in zip(batch["key"].to_pylist(), has_value, offsets, strict=True):
                if key is None:
                    keyless.append(offset)
                elif is_row:
                    last[key] = offset
                else:
                    last.pop(key, None)
    return np.array(sorted([*last.values(), *keyless]), np.int64)


def _within(offsets: Offsets, lanes: list[Lane]) -> NDArray[np.bool_]:
    inside = np.zeros(len(offsets), bool)
    for lane in lanes:
        inside |= (lane.start <= offsets) & (offsets < lane.end)
    return inside


def as_text(mode: str, count: Count) -> str:
    """``partition 0 [0, 1000): 1000 offsets - 3 gaps = 990 rows + 7 dead letters``, or ``!=`` and the difference."""
    gaps = "gaps and older records" if mode == UPSERT else "gaps"
    sign = "=" if count.holds else "!="
    text = (
        f"partition {count.partition} [{count.start}, {count.end}): {count.offsets} offsets - {count.gaps} {gaps} "
        f"{sign} {count.rows} rows + {count.dead} dead letters"
    )
    if count.compacted:
        text += f" - {count.compacted} compacted since"
    if count.gone:
        text += f"; {count.gone} more from before the start of the log"
    parts = [
        (count.missing, "missing"),
        (count.extra, "too many"),
        (count.twice, "there more than once"),
        (count.different, "different"),
    ]
    wrong = ", ".join(f"{number} {what}" for number, what in parts if number)
    return f"{text}: {wrong}" if wrong else text
