"""The parts of a batch that a cleaner reads: header fields in place, inflated records, the kind of a control batch.

Most logs of small values have batches of one record, so a whole header is parsed only where it is written.

Invariant: a batch whose checksum is wrong is never accepted; rewriting it would give the damage a valid checksum.
"""

from struct import Struct
from typing import TYPE_CHECKING, Final

from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CRC_POSITION,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    MAGIC_POSITION,
)
from kpywire.compression import decompress
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.record import MAX_INFLATED_BYTES
from kpywire.varint import decode_varint, decode_varlong
from kpywire.walk import ANY_SIZE, OversizedRecord, first_oversized

if TYPE_CHECKING:
    from mypy_extensions import i64

CONTROL_KIND_NONE: Final = -1
LENGTH_POSITION: Final = 8
LAST_OFFSET_DELTA_POSITION: Final = 23
BASE_TIMESTAMP_POSITION: Final = 27
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_ID_POSITION: Final = 43
RECORD_COUNT_POSITION: Final = 57
_KIND: Final = Struct(">hh")
_SMALL_BYTES: Final = 2048
_unpack: Final = HEADER.unpack_from


def int32(data: bytes, position: "i64") -> "i64":
    """The signed integer at ``position``."""
    value: i64 = data[position] << 24 | data[position + 1] << 16 | data[position + 2] << 8 | data[position + 3]
    return value if value < 0x8000_0000 else value - 0x1_0000_0000


def int64(data: bytes, position: "i64") -> "i64":
    """The signed integer at ``position``."""
    low = int32(data, position + 4)
    return int32(data, position) * 0x1_0000_0000 + (low if low >= 0 else low + 0x1_0000_0000)


def end_of(data: bytes, position: "i64", limit: "i64") -> "i64":
    """The end of the batch at ``position``, which lies before ``limit``; -1 if no batch does."""
    if position + HEADER_BYTES > limit or data[position + MAGIC_POSITION] != MAGIC:
        return -1
    size = int32(data, position + LENGTH_POSITION) + LENGTH_END
    return -1 if size < HEADER_BYTES or position + size > limit else position + size


def header_of(data: bytes, position: "i64") -> tuple[int, ...]:
    """All fields of the header at ``position``."""
    return _unpack(data, position)


def check(data: bytes, position: "i64", following: "i64") -> None:
    """Raise Malformed if the batch from ``position`` to ``following`` has a different checksum than its header says."""
    start: i64 = position + ATTRIBUTES_POSITION
    if following - start < _SMALL_BYTES:
        crc: i64 = crc32c(data[start:following])
    else:
        with memoryview(data) as view:
            crc = crc32c(view[start:following])
    if crc & 0xFFFF_FFFF != int32(data, position + CRC_POSITION) & 0xFFFF_FFFF:
        raise Malformed("a batch with a wrong checksum")


def inflated(data: bytes, position: "i64", following: "i64", most_record_bytes: "i64" = ANY_SIZE) -> bytes | None:
    """The records of a batch; None where they are not compressed, so that they lie unchanged behind the header.

    Raises:
        Malformed: it is damaged, or does not inflate.
        OversizedRecord: a record has more than ``most_record_bytes`` (``max.decompressed.message.bytes``).
    """
    check(data, position, following)
    codec = data[position + ATTRIBUTES_POSITION + 1] & CODEC_MASK
    if not codec:
        return None
    with memoryview(data) as view:
        section = decompress(codec, view[position + HEADER_BYTES : following], MAX_INFLATED_BYTES)
    if len(section) > most_record_bytes:
        _, size = first_oversized(section, most_record_bytes, int32(data, position + RECORD_COUNT_POSITION))
        if size:
            raise OversizedRecord(size, most_record_bytes)
    return section


def control_kind(data: bytes, position: "i64", following: "i64") -> int:
    """The type of the record in a control batch; ``CONTROL_KIND_NONE`` for a batch that was emptied."""
    if not int32(data, position + RECORD_COUNT_POSITION):
        return CONTROL_KIND_NONE
    records = inflated(data, position, following)
    if records is None:
        records = data[position + HEADER_BYTES : following]
    _, place = decode_varint(records, 0)
    _, place = decode_varlong(records, place + 1)
    _, place = decode_varint(records, place)
    key_bytes, place = decode_varint(records, place)
    if key_bytes < _KIND.size or place + _KIND.size > len(records):
        raise Malformed("a control batch without a readable record")
    return max(int(_KIND.unpack_from(records, place)[1]), 0)
