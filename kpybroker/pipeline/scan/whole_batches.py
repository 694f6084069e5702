"""The batches of a segment's file in pieces, for transports that read files."""

from collections.abc import Iterator
from typing import Final

from kpybroker.machines.scan.errors import ScanError
from kpystorage.scan import Readable
from kpywire.batch import batch_headers
from kpywire.varint import Buffer

PIECE_BYTES: Final = 2 * 1024 * 1024


def whole_batches(
    file: Readable, place: str, position: int, end_position: int, end_offset: int, piece_bytes: int = PIECE_BYTES
) -> Iterator[Buffer]:
    """The batches that begin below ``end_offset``, from ``position`` on, which is that of a batch. The last of a piece
    may be cut off: the next piece begins with it. Raises ScanError, Malformed, and the errors of the file."""
    length = piece_bytes
    while position < end_position:
        data = file.pread(min(length, end_position - position), position)
        whole = 0
        is_end = False
        for at, header in batch_headers(data):
            is_end = header.base_offset >= end_offset
            if is_end:
                break
            whole = at + header.size
            is_end = header.next_offset >= end_offset
        if whole:
            yield memoryview(data)[:whole]
        if is_end:
            return
        if not whole and len(data) < length:
            raise ScanError(f"{place}, byte {position}: a batch is cut off")
        position, length = position + whole, piece_bytes if whole else 2 * length
