"""The comparison of replicas: windows first, then the batches of windows that differ, down to the first byte. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.audit.findings import BytePlace
from kpybroker.machines.audit.windows import WINDOW_OFFSETS, AuditWindow
from kpystorage.reading import StoredBatch
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CRC_POSITION,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC_POSITION,
)
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch

Placed = tuple[BytePlace, StoredBatch]
MOST_DIFFERENCES: Final = 10
"""The most differences of a pair of replicas that are reported one by one."""
_FIELDS: Final = (
    (8, "base offset"),
    (12, "length"),
    (16, "leader epoch"),
    (17, "magic"),
    (21, "checksum"),
    (23, "attributes"),
    (27, "last offset delta"),
    (35, "base timestamp"),
    (43, "largest timestamp"),
    (51, "producer id"),
    (53, "producer epoch"),
    (57, "sequence"),
    (61, "record count"),
)
"""The fields of a batch's header, each with the position behind it."""


class Difference(NamedTuple):
    """A place where a replica has other batches than the reference. ``byte`` counts from the batch's first one."""

    offset: int
    end: int
    """The offset from where on both are equal again, as far as was compared."""
    place: BytePlace
    text: str


def differing(
    reference: Iterable[AuditWindow], other: Iterable[AuditWindow], start: int, end: int
) -> list[tuple[int, int]]:
    """The ranges of offsets in ``start .. end`` whose windows differ. Windows in a row are one range."""
    ours, theirs = _by_number(reference), _by_number(other)
    ranges: list[tuple[int, int]] = []
    for number in sorted(ours.keys() | theirs.keys()):
        first, last = number * WINDOW_OFFSETS, (number + 1) * WINDOW_OFFSETS
        if last <= start or first >= end:
            continue
        one, two = ours.get(number), theirs.get(number)
        if one is not None and two is not None and one.digest == two.digest:
            continue
        begin, stop = max(first, start), min(last, end)
        if ranges and ranges[-1][1] == begin:
            begin = ranges.pop()[0]
        ranges.append((begin, stop))
    return ranges


def _by_number(windows: Iterable[AuditWindow]) -> Mapping[int, AuditWindow]:
    return {window.number: window for window in windows}


def differences(
    reference: Iterator[Placed], other: Iterator[Placed], end: int, cleaned_to: int = 0
) -> Iterator[Difference]:
    """The differences of two replicas, batch by batch; both begin at the same offset.

    Below ``cleaned_to`` each replica has compacted by itself: records may be missing in either, but may not differ.
    """
    ours, theirs = next(reference, None), next(other, None)
    begun: Difference | None = None
    while ours is not None or theirs is not None:
        one = ours[1].header if ours is not None else None
        two = theirs[1].header if theirs is not None else None
        found: Difference | None = None
        if one is not None and (two is None or one.base_offset < two.base_offset):
            assert ours is not None
            place = theirs[0] if theirs is not None else BytePlace()
            found = Difference(one.base_offset, one.next_offset, place, "a batch is missing")
            ours = next(reference, None)
            is_excused = one.next_offset <= cleaned_to
        elif two is not None and (one is None or two.base_offset < one.base_offset):
            assert theirs is not None
            found = Difference(two.base_offset, two.next_offset, theirs[0], "has a batch that the other has not")
            theirs = next(other, None)
            is_excused = two.next_offset <= cleaned_to
        else:
            assert ours is not None
            assert theirs is not None
            found = in_batch(ours, theirs)
            header = theirs[1].header
            is_excused = header.next_offset <= cleaned_to and _is_compacted(ours[1], theirs[1])
            ours, theirs = next(reference, None), next(other, None)
        if found is None or is_excused or found.offset >= end:
            if begun is not None:
                yield begun
            begun = None
        elif begun is not None and begun.text == found.text and begun.end == found.offset:
            begun = begun._replace(end=found.end)
        else:
            if begun is not None:
                yield begun
            begun = found
    if begun is not None:
        yield begun


def in_batch(ours: Placed, theirs: Placed, *, with_epoch: bool = False) -> Difference | None:
    """The first difference of two batches of one base offset. Without ``with_epoch`` their leader epochs may differ."""
    one, two = ours[1].data, theirs[1].data
    same_epoch = not with_epoch or one[LENGTH_END:MAGIC_POSITION] == two[LENGTH_END:MAGIC_POSITION]
    if same_epoch and one[:LENGTH_END] == two[:LENGTH_END] and one[MAGIC_POSITION:] == two[MAGIC_POSITION:]:
        return None
    header = theirs[1].header
    ignored = {*range(CRC_POSITION, ATTRIBUTES_POSITION)}
    if not with_epoch:
        ignored.update(range(LENGTH_END, MAGIC_POSITION))
    pairs = enumerate(zip(one, two, strict=False))
    at = next((index for index, (a, b) in pairs if a != b and index not in ignored), min(len(one), len(two)))
    if at < HEADER_BYTES:
        what = next(name for end, name in _FIELDS if at < end)
        text = f"another {what} in its batch of offset {header.base_offset}"
    else:
        what = _of_record(ours[1], theirs[1])
        text = f"another {what} at byte {at} of its batch of offset {header.base_offset}"
    path, byte = theirs[0]
    place = BytePlace(path, byte + at if byte >= 0 else byte)
    return Difference(header.base_offset, header.next_offset, place, text)


def _of_record(one: StoredBatch, two: StoredBatch) -> str:
    """The part of a record where two batches differ, in words."""
    try:
        for ours, theirs in zip(_records(one), _records(two), strict=False):
            for name in ("key", "value", "timestamp", "headers", "offset"):
                if getattr(ours, name) != getattr(theirs, name):
                    return f"{name} of offset {ours.offset}"
    except Malformed:
        pass
    return "content"


def _is_compacted(one: StoredBatch, two: StoredBatch) -> bool:
    """Whether all records that both batches have are equal."""
    try:
        ours = {record.offset: record for record in _records(one)}
        return all(ours.get(record.offset, record)[:5] == record[:5] for record in _records(two))
    except Malformed:
        return False


def _records(batch: StoredBatch) -> Iterator[Record]:
    return read_batch(batch.data, batch.header)
