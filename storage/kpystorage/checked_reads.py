"""The stretches of a segment file that were read and found whole since the process began, and its damaged batches.

Old records are sent from the page cache unchecked. So before a stretch is first sent, or has to come from the disk, its
batches are read and compared with their checksums; that may run in a thread, and the thread that owns the log notes the
result. Kafka leaves this to consumers (``check.crcs``).

Invariant: every stretch lies on bounds of batches, and holds no damaged one.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable
from struct import Struct
from typing import NamedTuple

from kpystorage import scan
from kpystorage.scan import Readable
from kpywire.batch import ATTRIBUTES_POSITION, HEADER_BYTES, LENGTH_END, MAGIC
from kpywire.crc import crc32c

NOWHERE = 1 << 62
MOST_STRETCHES = 64
"""The most stretches of one file. With more, a part is checked again."""
WINDOW_BYTES = 512 * 1024
_START = Struct(">qiibIhi").unpack_from  # up to the last offset delta


class CheckedRead(NamedTuple):
    """The result of reading a stretch: it may be sent up to ``end``. If ``trouble`` is not empty, a damaged batch lies
    there."""

    end: int
    trouble: str
    whole_end: int
    """The end of the last whole batch before ``end``."""


def check(file: Readable, position: int, end: int, most_bytes: int) -> CheckedRead:
    """Read the batches from ``position`` on, up to ``end`` or over ``most_bytes``. May run in a thread. OSError.

    A batch that ``end`` cuts off counts as whole: readers leave it out.
    """
    following = -1
    window = memoryview(b"")
    start = at = position
    while end - at >= HEADER_BYTES:
        place = at - start
        if place + HEADER_BYTES > len(window):
            window, start, place = memoryview(file.pread(min(WINDOW_BYTES, end - at), at)), at, 0
            if len(window) < HEADER_BYTES:
                break
        base_offset, length, _, magic, crc, _, last_offset_delta = _START(window, place)
        size = length + LENGTH_END
        if magic != MAGIC or size < HEADER_BYTES or at + size > end:
            break
        if place + size > len(window):
            window, start, place = memoryview(file.pread(max(size, min(WINDOW_BYTES, end - at)), at)), at, 0
        if crc32c(window[place + ATTRIBUTES_POSITION : place + size]) != crc:
            offsets = f"{base_offset} to {base_offset + last_offset_delta}"
            return CheckedRead(at, f"the batch of offsets {offsets} is damaged", at)
        if base_offset < following:
            return CheckedRead(at, f"a batch of offset {base_offset} follows offset {following - 1}", at)
        following = base_offset + last_offset_delta + 1
        at += size
        if at - position >= most_bytes:
            return CheckedRead(at, "", at)
    if _is_cut_off(file, at, end):
        return CheckedRead(end, "", at)
    trouble = f"no batch begins behind offset {following - 1}" if following >= 0 else "no batch begins here"
    return CheckedRead(at, trouble, at)


def _is_cut_off(file: Readable, position: int, end: int) -> bool:
    """Whether the bytes left before ``end`` may be the beginning of a batch that the file has to its end."""
    if end - position < HEADER_BYTES:
        return True
    header = next(scan.headers(file, position, NOWHERE), None)
    return header is not None and bool(file.pread(1, position + header[1].size - 1))


class CheckedReads:
    """The checked stretches of one segment file. Several readers begin in different places, so there are several."""

    __slots__ = ("_damaged", "_ends", "_report", "_starts")

    def __init__(self, report: Callable[[str], None]) -> None:
        self._starts: list[int] = []
        """The starts of the stretches that are whole, ascending. Between two of them lies a part that is not known."""
        self._ends: list[int] = []
        self._damaged: dict[int, str] = {}
        self._report = report

    def whole_until(self, position: int) -> int:
        """The position up to which the file is known to be whole from ``position`` on; ``position`` if that is not
        known."""
        number = bisect_right(self._starts, position) - 1
        return max(position, self._ends[number]) if number >= 0 else position

    def note(self, path: str, position: int, end: int, trouble: str, whole_end: int) -> None:
        """Note that the stretch from ``position`` on was read (:class:`CheckedRead`). Damage at ``end`` is reported
        once."""
        if whole_end > position:
            self._add(position, whole_end)
        if trouble and end not in self._damaged:
            self._damaged[end] = trouble
            where, remedy = path.rpartition("/")[0], "What is damaged says: kpybroker check"
            self._report(f"{path}, byte {end}: {trouble}; its readers get CORRUPT_MESSAGE. {remedy} {where}")

    @property
    def damaged_places(self) -> int:
        """The number of places in the file where a reader met a damaged batch."""
        return len(self._damaged)

    def _add(self, start: int, end: int) -> None:
        """Add a stretch, joined with those that it touches. Where there are too many, the shortest is forgotten."""
        starts, ends = self._starts, self._ends
        first = bisect_left(ends, start)
        behind = bisect_right(starts, end)
        if first < behind:
            start, end = min(start, starts[first]), max(end, ends[behind - 1])
        starts[first:behind], ends[first:behind] = [start], [end]
        if len(starts) > MOST_STRETCHES:
            shortest = min(range(len(starts)), key=lambda number: ends[number] - starts[number])
            del starts[shortest], ends[shortest]

    def trouble_at(self, position: int) -> str:
        """The trouble with the batch at ``position``; empty if none is known."""
        return self._damaged.get(position, "")

    def limit(self, position: int, end: int) -> int:
        """The beginning of the first damaged batch between ``position`` and ``end``; ``end`` if there is none."""
        return min([place for place in self._damaged if position <= place < end], default=end)

    def cut(self, position: int) -> "CheckedReads":
        """Return what is known once the file ends at ``position``: bytes that follow will be new.

        A thread that is reading at that time notes its result in the old object, which is no longer used.
        """
        left = CheckedReads(self._report)
        self._report = _ignore
        count = bisect_left(self._starts, position)
        left._starts, left._ends = self._starts[:count], self._ends[:count]
        if left._ends:
            left._ends[-1] = min(left._ends[-1], position)
        left._damaged = {place: trouble for place, trouble in self._damaged.items() if place < position}
        return left


def _ignore(trouble: str) -> None:
    """Report nothing: the damage was in a part of the file that is no longer there."""
