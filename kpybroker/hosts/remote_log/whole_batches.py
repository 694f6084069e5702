"""The check of bytes of a segment whose chunks have no checksums: by those of their batches."""

from struct import Struct
from typing import Final

from kpystorage.errors import CorruptObject
from kpywire.batch import ATTRIBUTES_POSITION, HEADER_BYTES, LENGTH_END, MAGIC
from kpywire.crc import crc32c

_START: Final = Struct(">qiibI").unpack_from  # up to the checksum


def check_batches(found: bytes, start: int) -> None:
    """Raise CorruptObject if a batch is damaged in bytes that begin with a batch, at ``start`` of the segment.

    The batch that the end cuts is left out, and so are formats before v2.
    """
    view = memoryview(found)
    at = 0
    while len(found) - at >= HEADER_BYTES:
        base_offset, length, _, magic, crc = _START(found, at)
        end = at + length + LENGTH_END
        if magic != MAGIC or end > len(found):
            return
        if length < HEADER_BYTES - LENGTH_END or crc32c(view[at + ATTRIBUTES_POSITION : end]) != crc:
            raise CorruptObject(f"the batch of offset {base_offset}, at byte {start + at} of the segment, is damaged")
        at = end
