"""Walking the batches of a segment file, by their headers alone or as a whole. Checks nothing but the framing.

Invariant: a walk ends before the first bytes that cannot be a whole batch of the stretch it was given; it never yields,
and never reserves memory for, more than the file holds.
"""

from collections.abc import Iterator
from struct import Struct
from typing import Final, Protocol
from zlib import crc32

from kpywire.batch import HEADER, HEADER_BYTES, LENGTH_END, MAGIC, BatchHeader

HEADER_WINDOW_BYTES: Final = 1 << 14
LARGEST_HEADER_WINDOW_BYTES: Final = 1 << 18
"""The largest window for headers. Where a walk meets many small batches in a row, it reads twice as much each time, up
to this."""
BATCH_WINDOW_BYTES: Final = 1 << 20
_MIN_BATCH_LENGTH: Final = HEADER_BYTES - LENGTH_END
_OLD_MESSAGE: Final = Struct(">qiIb")  # offset, length, CRC-32 of what follows it, magic
_OLD_MIN_LENGTH: Final = 14


class Readable(Protocol):
    """A file or a descriptor."""

    def pread(self, length: int, position: int) -> bytes: ...


def headers(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of the batches from ``position`` up to ``end``. Bodies are read only where they are small."""
    window = b""
    start = position
    ahead_bytes = HEADER_WINDOW_BYTES // 2
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            is_small = 2 * at <= 3 * len(window)  # the last batch lay in the window, or nearly so
            ahead_bytes = min(ahead_bytes * 2, LARGEST_HEADER_WINDOW_BYTES) if is_small else HEADER_WINDOW_BYTES
            window = file.pread(min(ahead_bytes, end - position), position)
            start, at = position, 0
            if len(window) < HEADER_BYTES:
                return
        header = BatchHeader._make(HEADER.unpack_from(window, at))
        following = position + header.batch_length + LENGTH_END
        if header.batch_length < _MIN_BATCH_LENGTH or following > end or header.magic != MAGIC:
            return
        yield position, header
        position = following


def batches(file: Readable, position: int, end: int) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """(position, header, all its bytes) of the batches from ``position`` up to ``end``."""
    window = memoryview(b"")
    start = position
    while position + HEADER_BYTES <= end:
        at = position - start
        if at + HEADER_BYTES > len(window):
            window = memoryview(file.pread(min(BATCH_WINDOW_BYTES, end - position), position))
            start, at = position, 0
            if len(window) < HEADER_BYTES:
                return
        header = BatchHeader._make(HEADER.unpack_from(window, at))
        size = header.batch_length + LENGTH_END
        if size < HEADER_BYTES or position + size > end or header.magic != MAGIC:
            return
        if at + size > len(window):
            window = memoryview(file.pread(max(size, min(BATCH_WINDOW_BYTES, end - position)), position))
            start, at = position, 0
            if len(window) < size:
                return
        yield position, header, window[at : at + size]
        position += size


def is_zeros(file: Readable, position: int, end: int) -> bool:
    """Whether there are only zeros from ``position`` up to ``end``."""
    while position < end:
        window = file.pread(min(BATCH_WINDOW_BYTES, end - position), position)
        if not window or window.count(0) != len(window):
            return False
        position += len(window)
    return True


def is_old_message(file: Readable, position: int, end: int) -> bool:
    """Whether a whole, valid message of format 0 or 1 lies at ``position``, as Kafka wrote them before 0.11."""
    start = file.pread(_OLD_MESSAGE.size, position)
    if len(start) < _OLD_MESSAGE.size:
        return False
    _, length, crc, magic = _OLD_MESSAGE.unpack(start)
    if magic not in (0, 1) or not _OLD_MIN_LENGTH <= length <= end - position - LENGTH_END:
        return False
    return bool(crc32(file.pread(length - 4, position + LENGTH_END + 4)) == crc)
