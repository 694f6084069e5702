"""What a cleaner takes from a batch besides its header's fields: its records inflated, and the kind of a control batch.

Invariant: a batch whose checksum is wrong is never taken; rewriting it would make the damage good.
"""

from struct import Struct
from typing import Final

from kpywire.batch import ATTRIBUTES_POSITION, CODEC_MASK, HEADER_BYTES
from kpywire.compression import decompress
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES
from kpywire.varint import decode_varint, decode_varlong

CONTROL_KIND_NONE: Final = -1
_KIND: Final = Struct(">hh")


def check(data: bytes, position: int, following: int, crc: int) -> None:
    """Malformed: the checksum of the batch from ``position`` to ``following`` is not ``crc``."""
    with memoryview(data) as view:
        if crc32c(view[position + ATTRIBUTES_POSITION : following]) != crc:
            raise Malformed("a batch with a wrong checksum")


class Section:
    """The inflated records of a batch: where they lie in ``data``."""

    __slots__ = ("begin", "data", "end")

    def __init__(self, data: bytes, position: int, following: int, header: tuple[int, ...]) -> None:
        """Of the batch from ``position`` to ``following``. Malformed: it is damaged, or does not inflate."""
        check(data, position, following, header[4])
        codec = header[5] & CODEC_MASK
        if codec:
            with memoryview(data) as view:
                self.data = decompress(codec, view[position + HEADER_BYTES : following], MAX_INFLATED_BYTES)
            self.begin = 0
            self.end = len(self.data)
        else:
            self.data = data
            self.begin = position + HEADER_BYTES
            self.end = following


def control_kind(data: bytes, position: int, following: int, header: tuple[int, ...]) -> int:
    """The type of the record in a control batch; ``CONTROL_KIND_NONE`` of one that was emptied."""
    if not header[12]:
        return CONTROL_KIND_NONE
    section = Section(data, position, following, header)
    records = section.data
    _, place = decode_varint(records, section.begin)
    _, place = decode_varlong(records, place + 1)
    _, place = decode_varint(records, place)
    key_bytes, place = decode_varint(records, place)
    if key_bytes < _KIND.size or place + _KIND.size > section.end:
        raise Malformed("a control batch without a readable record")
    return max(int(_KIND.unpack_from(records, place)[1]), 0)
