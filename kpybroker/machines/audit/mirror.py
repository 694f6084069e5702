"""A mirror against its source: equal records in equal order, whatever their batches are. Pure.

Compared are the records that a consumer with ``read_committed`` gets, in the order of the log: offset (unless any is
allowed), timestamp (unless a broker stamps it), key, value and headers. A mirror that ends earlier is only behind.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple

from kpystorage.control_batches import transaction_marker
from kpystorage.reading import StoredBatch
from kpywire.batch import CREATE_TIME, HEADER_BYTES
from kpywire.errors import Malformed
from kpywire.record import Record, read_batch

Batches = Callable[[], Iterator[StoredBatch]]
"""Begins to read a log from its start."""
MOST_SHOWN: Final = 10


class Unequal(NamedTuple):
    """A place where the mirror is not its source: the offset there, or in the source where the mirror has none."""

    offset: int
    text: str
    is_behind: bool = False
    """Whether the mirror only lacks the newest records."""


def compare(source: Batches, mirror: Batches, *, any_offsets: bool) -> Iterator[Unequal]:
    """Compare a mirror with its source. Neither may have lost its beginning to retention unless the other has it."""
    if any_offsets:
        yield from _in_order(source, mirror)
        return
    shown = 0
    for each in _by_offset(_committed_in_order(source()), _committed_in_order(mirror())):
        shown += not each.is_behind
        if shown > MOST_SHOWN:
            yield Unequal(each.offset, "more differences follow")
            return
        yield each


def _by_offset(source: Iterator[StoredBatch], mirror: Iterator[StoredBatch]) -> Iterator[Unequal]:
    theirs, ours = _Records(mirror), _Records(source)
    begin = max(ours.first_offset, theirs.first_offset)  # what one of them has deleted is not compared
    lacking = 0
    first_lacking = -1
    while True:
        if ours.skip_equal(theirs):
            continue
        one, two = ours.next, theirs.next
        if two is None:
            if one is None:
                break
            first_lacking = one.offset if not lacking else first_lacking
            lacking += 1
            ours.advance()
        elif one is None or two.offset < one.offset:
            if two.offset >= begin:
                yield Unequal(two.offset, f"has a record at offset {two.offset} that its source has not")
            theirs.advance()
        elif one.offset < two.offset:
            if one.offset >= begin:
                yield Unequal(one.offset, f"lacks the record of offset {one.offset}")
            ours.advance()
        else:
            what = _difference(one, two, with_time=ours.has_own_time and theirs.has_own_time)
            if what:
                yield Unequal(two.offset, f"has another {what} at offset {two.offset}")
            ours.advance()
            theirs.advance()
    if lacking:
        yield Unequal(first_lacking, f"is {lacking} records behind, from offset {first_lacking} on", is_behind=True)


def _in_order(source: Batches, mirror: Batches) -> Iterator[Unequal]:
    ours, theirs = _aligned(source, mirror)
    while ours.next is not None and theirs.next is not None:
        one, two = ours.next, theirs.next
        what = _difference(one, two, with_time=ours.has_own_time and theirs.has_own_time)
        if what:
            text = f"has another {what} at offset {two.offset} than its source at offset {one.offset}"
            yield Unequal(two.offset, f"{text}; what follows is not compared")
            return
        ours.advance()
        theirs.advance()
    if theirs.next is not None:
        yield Unequal(theirs.next.offset, f"has records from offset {theirs.next.offset} on that its source has not")
        return
    first = ours.next
    behind = sum(1 for _ in ours.rest())
    if first is not None:
        text = f"is {behind} records behind, from offset {first.offset} of its source on"
        yield Unequal(first.offset, text, is_behind=True)


def _aligned(source: Batches, mirror: Batches) -> tuple["_Records", "_Records"]:
    """Both logs from the first record on that both have. Either may have lost older ones to retention."""
    ours, theirs = _Records(_committed_in_order(source())), _Records(_committed_in_order(mirror()))
    if ours.next is None or theirs.next is None or not _difference(ours.next, theirs.next, with_time=True):
        return ours, theirs
    if ours.find(theirs.next):
        return ours, theirs
    ours = _Records(_committed_in_order(source()))
    assert ours.next is not None
    if not theirs.find(ours.next):
        theirs = _Records(_committed_in_order(mirror()))
    return ours, theirs


def _difference(one: Record, two: Record, *, with_time: bool) -> str:
    for name in ("key", "value", "headers", "timestamp"):
        if getattr(one, name) != getattr(two, name) and (name != "timestamp" or with_time):
            return name
    return ""


class _Records:
    """The records of batches, one at a time. ``next`` is None at the end."""

    def __init__(self, batches: Iterator[StoredBatch]) -> None:
        self._batches = batches
        self._batch: StoredBatch | None = None
        self._records: Iterator[Record] = iter(())
        self.next: Record | None = None
        self._is_at_start = False
        self.advance()
        self.first_offset = (1 << 63) - 1 if self.next is None else self.next.offset

    @property
    def has_own_time(self) -> bool:
        """Whether the record has the time that its producer gave it."""
        return self._batch is not None and self._batch.header.timestamp_type == CREATE_TIME

    def advance(self) -> None:
        """Go to the next record. Batches that cannot be read are passed over."""
        self._is_at_start = False
        while True:
            try:
                self.next = next(self._records, None)
            except Malformed:
                self.next = None
            if self.next is not None:
                return
            self._batch = next(self._batches, None)
            if self._batch is None:
                return
            self._records = read_batch(self._batch.data, self._batch.header)
            self._is_at_start = True
            try:
                self.next = next(self._records, None)
            except Malformed:
                continue
            if self.next is not None:
                return

    def rest(self) -> Iterator[Record]:
        """All records from this one on."""
        while self.next is not None:
            yield self.next
            self.advance()

    def skip_equal(self, other: "_Records") -> bool:
        """Pass over a batch on both sides without decoding the rest of it, if they begin with the same one."""
        one, two = self._batch, other._batch
        if not (self._is_at_start and other._is_at_start) or one is None or two is None:
            return False
        if self.next is None or other.next is None or self.next[:5] != other.next[:5]:
            return False
        ours, theirs = one.header, two.header
        same = (ours.base_offset, ours.attributes, ours.base_timestamp, ours.max_timestamp, ours.record_count) == (
            theirs.base_offset,
            theirs.attributes,
            theirs.base_timestamp,
            theirs.max_timestamp,
            theirs.record_count,
        )
        if not same or one.data[HEADER_BYTES:] != two.data[HEADER_BYTES:]:
            return False
        for each in (self, other):
            each._records = iter(())
            each.advance()
        return True

    def find(self, wanted: Record) -> bool:
        """Go on to a record with this content; False at the end."""
        while self.next is not None and _difference(self.next, wanted, with_time=True):
            self.advance()
        return self.next is not None


def _committed_in_order(batches: Iterable[StoredBatch]) -> Iterator[StoredBatch]:
    """The batches of committed records in the order of the log: nothing passes an open transaction."""
    line: deque[tuple[StoredBatch, list[bool | None]]] = deque()
    waiting: dict[int, list[bool | None]] = {}
    for batch in batches:
        header = batch.header
        if header.is_control:
            try:
                marker = transaction_marker(header, batch.data, 0)
            except Malformed:
                marker = None
            outcome = waiting.pop(header.producer_id, None) if marker is not None else None
            if outcome is not None and marker is not None:
                outcome[0] = marker.committed
        else:
            outcome = [True]
            if header.is_transactional:
                outcome = waiting.setdefault(header.producer_id, [None])
            line.append((batch, outcome))
        while line and line[0][1][0] is not None:
            first, outcome = line.popleft()
            if outcome[0]:
                yield first
