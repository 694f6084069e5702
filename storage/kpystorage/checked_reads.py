"""Which stretch of a segment file was read and found whole since the process began, and which batches are damaged.

Old records are sent from the page cache without a look at them. So before a stretch is first sent, or has to come from
the disk, its batches are read and compared with their checksums; that may run in a thread, and what it found is noted
by the thread that owns the log. Kafka leaves this to consumers (``check.crcs``).

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
"""Of one file: with more, something is checked again."""
WINDOW_BYTES = 512 * 1024
_START = Struct(">qiibIhi").unpack_from  # up to the last offset delta


class Checked(NamedTuple):
    """A stretch was read: up to ``end`` it may be sent; there lies a damaged batch, if ``trouble`` says so."""

    end: int
    trouble: str
    whole_end: int
    """Where the last whole batch before ``end`` ends."""


def check(file: Readable, position: int, end: int, most_bytes: int) -> Checked:
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
            return Checked(at, f"the batch of offsets {offsets} is damaged", at)
        if base_offset < following:
            return Checked(at, f"a batch of offset {base_offset} follows offset {following - 1}", at)
        following = base_offset + last_offset_delta + 1
        at += size
        if at - position >= most_bytes:
            return Checked(at, "", at)
    if _is_cut_off(file, at, end):
        return Checked(end, "", at)
    trouble = f"no batch begins behind offset {following - 1}" if following >= 0 else "no batch begins here"
    return Checked(at, trouble, at)


def _is_cut_off(file: Readable, position: int, end: int) -> bool:
    """Whether what is left before ``end`` may be the beginning of a batch, which the file has to its end."""
    if end - position < HEADER_BYTES:
        return True
    header = next(scan.headers(file, position, NOWHERE), None)
    return header is not None and bool(file.pread(1, position + header[1].size - 1))


class CheckedReads:
    """Of one segment file. Several readers begin in different places, so there are several stretches."""

    __slots__ = ("_damaged", "_ends", "_report", "_starts")

    def __init__(self, report: Callable[[str], None]) -> None:
        self._starts: list[int] = []
        """Of the stretches that are whole, ascending; between two of them lies something that is not known."""
        self._ends: list[int] = []
        self._damaged: dict[int, str] = {}
        self._report = report

    def whole_until(self, position: int) -> int:
        """Up to where the file is known to be whole from ``position`` on; ``position`` if that is not known."""
        number = bisect_right(self._starts, position) - 1
        return max(position, self._ends[number]) if number >= 0 else position

    def note(self, path: str, position: int, end: int, trouble: str, whole_end: int) -> None:
        """The stretch from ``position`` on was read (:class:`Checked`). What is damaged at ``end`` is reported once."""
        if whole_end > position:
            self._add(position, whole_end)
        if trouble and end not in self._damaged:
            self._damaged[end] = trouble
            self._report(f"{path}, byte {end}: {trouble}; its readers get CORRUPT_MESSAGE")

    def _add(self, start: int, end: int) -> None:
        """A stretch, joined with those that it touches; where there are too many, the shortest is forgotten."""
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
        """What is wrong with the batch at ``position``; nothing as far as is known."""
        return self._damaged.get(position, "")

    def limit(self, position: int, end: int) -> int:
        """Where the first damaged batch between ``position`` and ``end`` begins, ``end`` if there is none."""
        return min([place for place in self._damaged if position <= place < end], default=end)

    def cut(self, position: int) -> "CheckedReads":
        """What is known once the file ends at ``position``: what will follow is new.

        A thread that was reading meanwhile notes what it found here, where nobody looks any more.
        """
        left = CheckedReads(self._report)
        self._report = _nobody
        count = bisect_left(self._starts, position)
        left._starts, left._ends = self._starts[:count], self._ends[:count]
        if left._ends:
            left._ends[-1] = min(left._ends[-1], position)
        left._damaged = {place: trouble for place, trouble in self._damaged.items() if place < position}
        return left


def _nobody(trouble: str) -> None:
    """Who is told what was wrong with what is not there any more."""
