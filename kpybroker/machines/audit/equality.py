"""A mirror with equal offsets against its source: every batch is equal, byte for byte, its leader epoch included. Pure.

A mirror has each batch as the source had it when it was fetched. What the source's cleaner has removed since then may
still be in the mirror; nothing that the source has may be missing there.
"""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.replicas import Placed, in_batch
from kpystorage.reading import StoredBatch
from kpywire.errors import Malformed
from kpywire.record import read_batch

MOST_RANGES: Final = 10
"""The most ranges of one partition that are reported one by one."""


class DifferingRange(NamedTuple):
    """Batches in a row that differ. ``text`` and ``place`` are those of the first one."""

    start: int
    end: int
    batches: int
    text: str
    place: BytePlace

    def joined(self, behind: "DifferingRange") -> "DifferingRange":
        """This range and one that follows it without an equal batch between them."""
        return self._replace(end=max(self.end, behind.end), batches=self.batches + behind.batches)


class ComparedBatches(NamedTuple):
    """The comparison of a range of offsets."""

    equal: int
    """The batches that are equal."""
    ranges: tuple[DifferingRange, ...]
    begins_differing: bool
    """Whether no equal batch comes before the first range."""
    ends_differing: bool


def compare(source: Iterator[Placed], mirror: Iterator[Placed], cleaned_to: int = 0) -> ComparedBatches:
    """Compare batches from the same offset on. The source may have compacted itself below ``cleaned_to``."""
    ranges: list[DifferingRange] = []
    equal = 0
    begins = in_range = False
    for found in _steps(source, mirror, cleaned_to):
        if found is None:
            equal += 1
            in_range = False
        elif in_range:
            ranges[-1] = ranges[-1].joined(found)
        else:
            begins |= not equal and not ranges
            ranges.append(found)
            in_range = True
    return ComparedBatches(equal, tuple(ranges), begins, in_range)


def _steps(source: Iterator[Placed], mirror: Iterator[Placed], cleaned_to: int) -> Iterator[DifferingRange | None]:
    """None for each pair of equal batches, and a range of one batch for each difference. What is excused is left
    out."""
    ours, theirs = next(source, None), next(mirror, None)
    while ours is not None or theirs is not None:
        if theirs is None or (ours is not None and ours[1].header.base_offset < theirs[1].header.base_offset):
            assert ours is not None
            header = ours[1].header
            place = BytePlace() if theirs is None else theirs[0]
            text = f"it lacks the batch of offset {header.base_offset}"
            yield DifferingRange(header.base_offset, header.next_offset, 1, text, place)
            ours = next(source, None)
            continue
        header = theirs[1].header
        if ours is None or header.base_offset < ours[1].header.base_offset:
            if header.next_offset > cleaned_to:
                text = f"its source has no valid batch of offset {header.base_offset}"
                yield DifferingRange(header.base_offset, header.next_offset, 1, text, theirs[0])
            theirs = next(mirror, None)
            continue
        found = in_batch(ours, theirs, with_epoch=True)
        if found is None:
            yield None
        elif header.next_offset > cleaned_to or not is_cleaned(ours[1], theirs[1]):
            yield DifferingRange(found.offset, max(found.end, ours[1].header.next_offset), 1, found.text, found.place)
        ours, theirs = next(source, None), next(mirror, None)


def is_cleaned(source: StoredBatch, mirror: StoredBatch) -> bool:
    """Whether a batch is what a cleaner has left of its mirror: some of its records, and nothing else is changed."""
    one, two = source.header, mirror.header
    kept = (one.partition_leader_epoch, one.next_offset, one.producer_id, one.producer_epoch, one.base_sequence)
    if kept != (two.partition_leader_epoch, two.next_offset, two.producer_id, two.producer_epoch, two.base_sequence):
        return False
    try:
        whole = {record.offset: record[:5] for record in read_batch(mirror.data, two)}
        return all(whole.get(record.offset) == record[:5] for record in read_batch(source.data, one))
    except Malformed:
        return False


def joined(parts: Iterable[ComparedBatches]) -> ComparedBatches:
    """The comparisons of ranges of offsets in a row as one."""
    whole = ComparedBatches(0, (), begins_differing=False, ends_differing=False)
    is_first = True
    for part in parts:
        ranges = [*whole.ranges, *part.ranges]
        if whole.ends_differing and part.begins_differing:
            at = len(whole.ranges)
            ranges[at - 1 : at + 1] = [ranges[at - 1].joined(ranges[at])]
        is_empty = not part.equal and not part.ranges
        begins = part.begins_differing if is_first else whole.begins_differing
        ends = whole.ends_differing if is_empty else part.ends_differing
        whole = ComparedBatches(whole.equal + part.equal, tuple(ranges), begins, ends)
        is_first &= is_empty
    return whole
