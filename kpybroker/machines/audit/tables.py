"""Table = topic: whether a table has as many rows for a range of offsets as the log has committed records. Pure.

A table of a lake keeps with its commits which offsets of which partition it covers. For each of these ranges it says
how many rows it has, with those in its dead-letter table; the log says how many records it has. Offsets without a
record (compaction, aborted transactions, control batches) count nowhere.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from kpybroker.machines.audit.findings import DAMAGE, TABLES, AuditFinding
from kpybroker.machines.audit.records import committed_batches
from kpybroker.machines.audit.sources import Spot
from kpystorage.reading import StoredBatch
from kpywire.errors import Malformed
from kpywire.record import read_batch


class TableRange(NamedTuple):
    """The rows that a table has for the offsets ``start .. end`` of a partition."""

    table: str
    topic: str
    partition: int
    start: int
    end: int
    rows: int


def counted(batches: Iterable[StoredBatch], ranges: Sequence[TableRange]) -> list[int]:
    """The committed records in each range, from the batches of its partition. The ranges ascend.

    The batches begin at the first range or before it, and end where every transaction in the ranges has ended.
    """
    counts = [0] * len(ranges)
    starts = [each.start for each in ranges]
    for batch in committed_batches(batches, max((each.end for each in ranges), default=0)):
        header = batch.header
        index = max(bisect_right(starts, header.base_offset) - 1, 0)
        offsets: list[int] | None = None
        while index < len(ranges) and ranges[index].start < header.next_offset:
            each = ranges[index]
            if each.start <= header.base_offset and header.next_offset <= each.end:
                counts[index] += header.record_count
            elif header.base_offset < each.end:
                offsets = _offsets(batch) if offsets is None else offsets
                counts[index] += sum(each.start <= offset < each.end for offset in offsets)
            index += 1
    return counts


def _offsets(batch: StoredBatch) -> list[int]:
    try:
        return [record.offset for record in read_batch(batch.data, batch.header)]
    except Malformed:
        return []


def judge(ranges: Sequence[TableRange], counts: Sequence[int], log_start: int, log_end: int) -> Iterator[AuditFinding]:
    """The ranges of one partition whose rows are not as many as the records of the log."""
    previous: TableRange | None = None
    for each, count in sorted(zip(ranges, counts, strict=True)):
        text = ""
        if each.end > log_end:
            text = f"covers offsets up to {each.end}, and the log ends at {log_end}"
        elif previous is not None and previous.table == each.table and each.start < previous.end:
            text = f"covers the offsets {each.start} to {min(previous.end, each.end) - 1} twice"
        elif each.start >= log_start and each.rows != count:
            more = f"{abs(each.rows - count)} {'more' if each.rows > count else 'fewer'}"
            text = f"has {each.rows} rows for the offsets {each.start} to {each.end - 1}, {more} than the log"
        previous = each
        if text:
            reported = f"table {each.table} {text}"
            yield AuditFinding(DAMAGE, TABLES, each.topic, each.partition, "", "", -1, each.start, reported)


def by_partition(ranges: Iterable[TableRange]) -> dict[Spot, list[TableRange]]:
    """The ranges of each partition, in the order of their offsets."""
    found: dict[Spot, list[TableRange]] = {}
    for each in sorted(ranges):
        found.setdefault((each.topic, each.partition), []).append(each)
    return found
