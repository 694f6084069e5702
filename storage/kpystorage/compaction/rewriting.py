"""A batch with some of its records, or none, as Kafka's MemoryRecordsBuilder and DefaultRecordBatch write it.

Offsets, sequences and the fields of the header about them stay. The base timestamp becomes that of the first record
that is left, or the delete horizon where there is one (KIP-534), so timestamp deltas are recomputed then.
"""

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Final

from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kpywire.compression import compress
from kpywire.crc import continued_crc32c, crc32c
from kpywire.record import assemble
from kpywire.varint import (
    as_int64,
    decode_unsigned_varint,
    decode_unsigned_varlong,
    encode_unsigned_varint,
    encode_varint,
    encode_varlong,
)

if TYPE_CHECKING:
    from mypy_extensions import i64

_SMALL: Final = 4096
_KEPT_ATTRIBUTES: Final = CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
_WITHOUT_RECORDS: Final = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


def emptied(header: tuple[int, ...]) -> bytes:
    """A batch without records, which only preserves offsets and sequences."""
    fields = BatchHeader._make(header)
    return assemble(
        fields._replace(attributes=fields.attributes & _WITHOUT_RECORDS, base_timestamp=NO_TIMESTAMP, record_count=0),
        b"",
    )


def thinned(
    header: tuple[int, ...],
    section: bytes,
    stretches: Sequence[int],
    count: int,
    first_timestamp: int,
    max_timestamp: int,
    delete_horizon_ms: int | None,
) -> tuple[bytes, bytes]:
    """A batch with the ``count`` records that lie in ``stretches`` of the inflated section, its header apart.

    ``first_timestamp`` is that of the first of them, ``max_timestamp`` the largest.
    """
    fields = BatchHeader._make(header)
    base_timestamp = first_timestamp if delete_horizon_ms is None else delete_horizon_ms
    is_append_time = fields.attributes & TIMESTAMP_TYPE_MASK != 0
    if is_append_time:
        records = _stamped(section, stretches, as_int64(fields.max_timestamp - base_timestamp))
    elif base_timestamp != fields.base_timestamp:
        records = _shifted(section, stretches, fields.base_timestamp - base_timestamp)
    else:
        records = b"".join([section[begin:end] for begin, end in zip(stretches[::2], stretches[1::2], strict=True)])
    attributes = fields.attributes & _KEPT_ATTRIBUTES
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON_MASK
    codec = attributes & CODEC_MASK
    if codec:
        records = compress(codec, records)
    length = HEADER_BYTES - LENGTH_END + len(records)
    rest = (fields.last_offset_delta, base_timestamp, max_timestamp, *header[9:12], count)
    start = (fields.base_offset, length, fields.partition_leader_epoch, MAGIC)
    unchecked = HEADER.pack(*start, 0, attributes, *rest)
    crc = continued_crc32c(records, crc32c(unchecked[ATTRIBUTES_POSITION:]))
    return HEADER.pack(*start, crc, attributes, *rest), records


def _shifted(section: bytes, stretches: Sequence[int], by_ms: int) -> bytes:
    """The records with timestamp deltas increased by ``by_ms``."""
    varints = _small_varints()
    parts: list[bytes] = []
    for number in range(0, len(stretches), 2):
        position: i64 = stretches[number]
        end: i64 = stretches[number + 1]
        while position < end:
            length: i64 = section[position]
            position += 1
            if length > 127:
                length, position = decode_unsigned_varint(section, position - 1)
            following: i64 = position + (length >> 1)
            timestamp = section[position + 1]
            position += 2
            if timestamp > 127:
                timestamp, position = decode_unsigned_varlong(section, position - 1)
            delta = (timestamp >> 1 ^ -(timestamp & 1)) + by_ms
            shifted = varints[2 * delta] if 0 <= delta < _SMALL else encode_varlong(as_int64(delta))
            size = 1 + len(shifted) + (following - position)
            parts.append(varints[2 * size] if size < _SMALL else encode_varint(size))
            parts.append(b"\x00")
            parts.append(shifted)
            parts.append(section[position:following])
            position = following
    return b"".join(parts)


def _stamped(section: bytes, stretches: Sequence[int], delta_ms: int) -> bytes:
    """All the records with the timestamp delta ``delta_ms``."""
    varints = _small_varints()
    delta = b"\x00" + encode_varlong(delta_ms)
    parts: list[bytes] = []
    for number in range(0, len(stretches), 2):
        position: i64 = stretches[number]
        end: i64 = stretches[number + 1]
        while position < end:
            length: i64 = section[position]
            position += 1
            if length > 127:
                length, position = decode_unsigned_varint(section, position - 1)
            following: i64 = position + (length >> 1)
            position += 1
            while section[position] > 127:
                position += 1
            position += 1
            size = len(delta) + (following - position)
            parts.append(varints[2 * size] if size < _SMALL else encode_varint(size))
            parts.append(delta)
            parts.append(section[position:following])
            position = following
    return b"".join(parts)


@cache
def _small_varints() -> list[bytes]:
    """The unsigned varints below twice ``_SMALL``, so that the zigzag ones of half of them are every other one."""
    return [encode_unsigned_varint(value) for value in range(2 * _SMALL)]
