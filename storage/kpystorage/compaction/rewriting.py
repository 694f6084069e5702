"""A batch with some of its records, or none, as Kafka's MemoryRecordsBuilder and DefaultRecordBatch write it.

Offsets, sequences and all of the header that speaks of them stay. The base timestamp becomes that of the first record
that is left, or the delete horizon where there is one (KIP-534), so timestamp deltas are computed anew then.
"""

from collections.abc import Sequence

from kpywire.batch import (
    CODEC_MASK,
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    NO_TIMESTAMP,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kpywire.compression import compress
from kpywire.record import assemble
from kpywire.varint import as_int64, decode_unsigned_varint, decode_unsigned_varlong, encode_varint, encode_varlong

_KEPT_ATTRIBUTES = CODEC_MASK | TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK
_WITHOUT_RECORDS = TIMESTAMP_TYPE_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


def emptied(header: Sequence[int]) -> bytes:
    """A batch without records: what is left to know of offsets and sequences."""
    fields = BatchHeader._make(header)
    return assemble(
        fields._replace(attributes=fields.attributes & _WITHOUT_RECORDS, base_timestamp=NO_TIMESTAMP, record_count=0),
        b"",
    )


def thinned(
    header: Sequence[int],
    section: bytes,
    stretches: Sequence[int],
    count: int,
    first_timestamp: int,
    max_timestamp: int,
    delete_horizon_ms: int | None,
) -> bytes:
    """A batch with the ``count`` records that lie in ``stretches`` of the inflated section.

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
    return assemble(
        fields._replace(
            attributes=attributes, base_timestamp=base_timestamp, max_timestamp=max_timestamp, record_count=count
        ),
        compress(attributes & CODEC_MASK, records),
    )


def _shifted(section: bytes, stretches: Sequence[int], by_ms: int) -> bytes:
    """The records with timestamp deltas that are larger by ``by_ms``."""
    parts: list[bytes] = []
    for begin, end in zip(stretches[::2], stretches[1::2], strict=True):
        position = begin
        while position < end:
            length, position = decode_unsigned_varint(section, position)
            following = position + (length >> 1)
            timestamp, position = decode_unsigned_varlong(section, position + 1)
            delta = encode_varlong(as_int64((timestamp >> 1 ^ -(timestamp & 1)) + by_ms))
            parts += (encode_varint(1 + len(delta) + following - position), b"\x00", delta, section[position:following])
            position = following
    return b"".join(parts)


def _stamped(section: bytes, stretches: Sequence[int], delta_ms: int) -> bytes:
    """The records with that timestamp delta, all of them."""
    delta = b"\x00" + encode_varlong(delta_ms)
    parts: list[bytes] = []
    for begin, end in zip(stretches[::2], stretches[1::2], strict=True):
        position = begin
        while position < end:
            length, position = decode_unsigned_varint(section, position)
            following = position + (length >> 1)
            _, position = decode_unsigned_varlong(section, position + 1)
            parts += (encode_varint(len(delta) + following - position), delta, section[position:following])
            position = following
    return b"".join(parts)
