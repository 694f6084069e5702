"""Walking over the batches of a damaged segment: the whole ones, the damaged ones, and the start of the next whole one.

The 16 bytes before a batch's checksum (base offset, length, leader epoch, magic) are not covered by it. A wrong length
or magic is recognised by what follows: the batch is taken up to the next valid one, and its checksum decides.

Invariant: the pieces come in order, touch one another and cover the file; memory is bounded by the largest batch.
"""

from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kpystorage.scan import BATCH_WINDOW_BYTES, Readable
from kpywire.batch import ATTRIBUTES_POSITION, HEADER, HEADER_BYTES, LENGTH_END, MAGIC, MAGIC_POSITION, BatchHeader
from kpywire.crc import crc32c

_LENGTH_EPOCH_MAGIC = Struct(">iib")
_LENGTH_POSITION = 8
_MAX_OFFSET = (1 << 63) - 1


class SegmentPiece(NamedTuple):
    """A stretch of a segment file. ``header`` is None where no batch can be recognised."""

    position: int
    end: int
    header: BatchHeader | None
    """The header as it should be: with the right length and magic."""
    data: memoryview
    """The whole batch as it lies in the file."""
    trouble: str = ""
    """The fault of the batch, judged by its own bytes; empty if it has none."""
    whole: bool = True
    """Whether its checksum holds."""


def pieces(file: Readable, size: int, lowest_offset: int, limit_offset: int = _MAX_OFFSET) -> Iterator[SegmentPiece]:
    """The pieces of the whole file. Batches have offsets from ``lowest_offset`` up to ``limit_offset``. May raise
    OSError."""
    position = 0
    window, start = memoryview(b""), 0
    while position < size:
        at = position - start
        if at + HEADER_BYTES > len(window) or not _fits(window, at):
            window, start, at = memoryview(file.pread(_wanted(file, position, size), position)), position, 0
        header = _header(window, at)
        if header is not None and at + header.size <= len(window):
            data = window[at : at + header.size]
            if crc32c(data[ATTRIBUTES_POSITION:]) == header.crc:
                lowest_offset = max(lowest_offset, header.next_offset)
                yield SegmentPiece(position, position + header.size, header, data)
                position += header.size
                continue
            if _goes_on(file, position + header.size, size):
                yield SegmentPiece(
                    position, position + header.size, header, data, "its checksum does not match", whole=False
                )
                position += header.size
                continue
        following = _next_whole(file, position + 1, size, lowest_offset, limit_offset)
        piece = _resized(file, position, following)
        yield piece
        position = following


def _fits(window: memoryview, at: int) -> bool:
    header = _header(window, at)
    return header is None or at + header.size <= len(window)


def _wanted(file: Readable, position: int, size: int) -> int:
    header = _header(memoryview(file.pread(HEADER_BYTES, position)), 0)
    batch_bytes = header.size if header is not None and header.size <= size - position else 0
    return min(max(batch_bytes, BATCH_WINDOW_BYTES), size - position)


def _header(window: memoryview, at: int) -> BatchHeader | None:
    """The header at this place, if its length and magic can be right."""
    if at + HEADER_BYTES > len(window):
        return None
    header = BatchHeader._make(HEADER.unpack_from(window, at))
    return header if header.magic == MAGIC and header.size >= HEADER_BYTES else None


def _goes_on(file: Readable, position: int, size: int) -> bool:
    """Whether the file ends here, or bytes that look like a batch begin."""
    if position == size:
        return True
    return _header(memoryview(file.pread(HEADER_BYTES, position)), 0) is not None


def _next_whole(file: Readable, position: int, size: int, lowest: int, limit: int) -> int:
    """The beginning of the next batch with a valid checksum at or behind ``position``; ``size`` if there is none."""
    while position + HEADER_BYTES <= size:
        window = file.pread(min(BATCH_WINDOW_BYTES, size - position), position)
        at = window.find(MAGIC, MAGIC_POSITION)
        while at >= 0:
            candidate = at - MAGIC_POSITION
            if candidate + HEADER_BYTES > len(window):
                break
            header = BatchHeader._make(HEADER.unpack_from(window, candidate))
            if _is_possible(header, size - position - candidate, lowest, limit):
                data = memoryview(file.pread(header.size, position + candidate))
                if crc32c(data[ATTRIBUTES_POSITION:]) == header.crc:
                    return position + candidate
            at = window.find(MAGIC, at + 1)
        position += max(len(window) - HEADER_BYTES + 1, 1)
    return size


def _is_possible(header: BatchHeader, room_bytes: int, lowest: int, limit: int) -> bool:
    return (
        HEADER_BYTES <= header.size <= room_bytes
        and lowest <= header.base_offset <= header.last_offset < limit
        and header.last_offset_delta + 1 >= header.record_count >= 0
    )


def _resized(file: Readable, position: int, end: int) -> SegmentPiece:
    """The bytes up to the next whole batch, as one batch with a wrong length or magic, if the checksum confirms it."""
    data = memoryview(file.pread(min(end - position, 1 << 30), position))
    if len(data) >= HEADER_BYTES:
        found = BatchHeader._make(HEADER.unpack_from(data, 0))
        if crc32c(data[ATTRIBUTES_POSITION:]) == found.crc:
            length = end - position - LENGTH_END
            trouble = f"its length is {found.batch_length} instead of {length}"
            if found.batch_length == length:
                trouble = f"its magic is {found.magic} instead of {MAGIC}"
            return SegmentPiece(position, end, found._replace(batch_length=length, magic=MAGIC), data, trouble)
    if not any(data):
        return SegmentPiece(position, end, None, data, "")
    return SegmentPiece(position, end, None, data, f"{end - position} bytes are no batch", whole=False)


def restored(piece: SegmentPiece, base_offset: int, epoch: int) -> bytes:
    """The bytes of a whole batch, with everything outside its checksum corrected."""
    assert piece.header is not None
    data = bytearray(piece.data)
    data[:_LENGTH_POSITION] = base_offset.to_bytes(8, "big", signed=True)
    _LENGTH_EPOCH_MAGIC.pack_into(data, _LENGTH_POSITION, piece.header.batch_length, epoch, MAGIC)
    return bytes(data)
