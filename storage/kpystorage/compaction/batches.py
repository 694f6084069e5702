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
from kpywire.varint import decode_varint

CONTROL_KIND_NONE: Final = -1
_KIND: Final = Struct(">hh")


def check(data: bytes, position: int, following: int, crc: int) -> None:
    """Malformed: the checksum of the batch from ``position`` to ``following`` is not ``crc``."""
    with memoryview(data) as view:
        if crc32c(view[position + ATTRIBUTES_POSITION : following]) != crc:
            raise Malformed("a batch with a wrong checksum")


def inflated(data: bytes, position: int, following: int, header: tuple[int, ...]) -> bytes:
    """The record section of a batch."""
    check(data, position, following, header[4])
    codec = header[5] & CODEC_MASK
    if not codec:
        return data[position + HEADER_BYTES : following]
    with memoryview(data) as view:
        return decompress(codec, view[position + HEADER_BYTES : following], MAX_INFLATED_BYTES)


def control_kind(data: bytes, position: int, following: int, header: tuple[int, ...]) -> int:
    """The type of the record in a control batch; ``CONTROL_KIND_NONE`` of one that was emptied."""
    if not header[12]:
        return CONTROL_KIND_NONE
    section = inflated(data, position, following, header)
    _, place = decode_varint(section, 0)
    place += 1
    while place < len(section) and section[place] > 127:
        place += 1
    _, place = decode_varint(section, place + 1)
    key_bytes, place = decode_varint(section, place)
    if key_bytes < _KIND.size or place + _KIND.size > len(section):
        raise Malformed("a control batch without a readable record")
    return max(int(_KIND.unpack_from(section, place)[1]), 0)
