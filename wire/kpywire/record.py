"""Records as Python objects: for the metadata log, coordinators, the cleaner, command line tools and tests.

They are not for the broker's hot path, which keeps batches as slices (:mod:`kpywire.skim`).

A record: length varint, attributes i8, timestampDelta varlong, offsetDelta varint, key length varint (-1: null)
and key, value likewise, header count varint, then per header its key (never null) and value. All varints are zigzag.

Invariant: reading yields exactly as many records as the header counts, which fill the section to its last byte, or
raises :class:`~kpywire.errors.Malformed`; no length is used before it is compared with the bytes that are there.
"""

from collections.abc import Iterable, Iterator, Sequence
from struct import Struct
from typing import Final, NamedTuple

from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CONTROL_MASK,
    CRC_POSITION,
    CREATE_TIME,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    LOG_APPEND_TIME,
    MAGIC,
    NO_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL_MASK,
    BatchHeader,
    batch_headers,
)
from kpywire.compression import NONE, compress, decompress
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.varint import Buffer, as_int64, decode_varint, decode_varlong, encode_varint, encode_varlong

MAX_INFLATED_BYTES: Final = 1 << 30
"""The limit for an inflated record section when the caller sets no limit of its own."""

Header = tuple[str, bytes | None]

_LENGTH: Final = Struct(">i")
_BEFORE: Final = Struct(">qiibI")
_CHECKED: Final = Struct(">hiqqqhii")
"""A batch header: `_BEFORE` is the part up to its CRC, `_CHECKED` the part behind it."""
_pack_before: Final = _BEFORE.pack
_pack_plain: Final = Struct(">hiqq14si").pack
"""`_CHECKED` with the producer's id, epoch and sequence as one field."""
_NO_PRODUCER: Final = Struct(">qhi").pack(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, NO_SEQUENCE)
_CRC: Final = Struct(">I")
_SMALL: Final = 1024
_SIZES: Final = tuple(encode_varint(size) for size in range(_SMALL))
"""The encoded small sizes: coordinators write small records, and each of their requests writes one."""
_NULL: Final = b"\x01"
_FIRST: Final = b"\x00\x00\x00"
"""The beginning of the first record of a batch: attributes and both deltas are 0."""
_NO_HEADERS: Final = b"\x00"
_MOST_BESIDE_BYTES: Final = 8
"""The bytes of a small first record beside its key and its value, at most."""


class Record(NamedTuple):
    """A record. ``offset`` and ``sequence`` are filled in by reading; a record to be written may leave them out."""

    offset: int = -1
    timestamp: int = NO_TIMESTAMP
    key: bytes | None = None
    value: bytes | None = None
    headers: tuple[Header, ...] = ()
    sequence: int = NO_SEQUENCE


def read_records(buffer: Buffer, max_inflated_bytes: int = MAX_INFLATED_BYTES) -> Iterator[Record]:
    """The records of every whole batch in ``buffer``, control records included; a cut-off batch at the end is left out.

    CRCs are not checked (:func:`kpywire.batch.check_crc` does).

    Raises:
        Malformed: a batch is not what the format says, or inflates to more than ``max_inflated_bytes``.
    """
    for position, header in batch_headers(buffer):
        yield from read_batch(buffer, header, position, max_inflated_bytes)


def read_batch(
    buffer: Buffer, header: BatchHeader, position: int = 0, max_inflated_bytes: int = MAX_INFLATED_BYTES
) -> Iterator[Record]:
    """The records of the batch at ``position``, whose header was read before. Raises like :func:`read_records`."""
    section: Buffer = memoryview(buffer)[position + HEADER_BYTES : position + header.size]
    section = decompress(header.codec, section, max_inflated_bytes) if header.codec else bytes(section)
    end = 0
    for _nth in range(header.record_count):
        record, end = _decode_record(section, end, header)
        yield record
    if end != len(section):
        raise Malformed(f"{len(section) - end} bytes follow the last of {header.record_count} records")


def plain_records(section: bytes, count: int, base_offset: int) -> Iterator[tuple[int, bytes, bytes | None]]:
    """Yield (offset, key, value) of the records of a section, without a call per field: there may be a million of them.

    Raises Malformed.
    """
    position = 0
    end = len(section)
    try:
        for _nth in range(count):
            length, position = _length(section, position)
            following = position + length
            position += 1
            while section[position] > 127:
                position += 1
            position += 1
            delta, position = _length(section, position)
            key_bytes, position = _length(section, position)
            key_end = position + max(key_bytes, 0)
            value_bytes, value_start = _length(section, key_end)
            value_end = value_start + value_bytes
            if key_end > following or value_end >= following or following > end:
                raise Malformed("a record that is longer than it says")
            value = section[value_start:value_end] if value_bytes >= 0 else None
            yield base_offset + delta, section[position:key_end], value
            position = following
    except IndexError:
        raise Malformed("records that end before the last one") from None
    if position != end:
        raise Malformed(f"{end - position} bytes behind the last of {count} records")


def _length(section: bytes, position: int) -> tuple[int, int]:
    """Read a zigzag varint, which mostly has one or two bytes."""
    low = section[position]
    if low > 127:
        high = section[position + 1]
        if high > 127:
            return decode_varint(section, position)
        low += (high << 7) - 128
        return low >> 1 ^ -(low & 1), position + 2
    return low >> 1 ^ -(low & 1), position + 1


def _decode_record(section: bytes, position: int, header: BatchHeader) -> tuple[Record, int]:
    length, start = decode_varint(section, position)
    end = start + length
    if length < 0 or end > len(section):
        raise Malformed(f"a record of {length} bytes in a section with {len(section) - start} left")
    timestamp_delta, position = decode_varlong(section, start + 1)
    offset_delta, position = decode_varint(section, position)
    key, position = _decode_bytes(section, position, end)
    value, position = _decode_bytes(section, position, end)
    count, position = decode_varint(section, position)
    if not 0 <= count <= end - position:
        raise Malformed(f"a record with {count} headers in {end - position} bytes")
    headers = []
    for _nth in range(count):
        header_key, position = _decode_bytes(section, position, end)
        if header_key is None:
            raise Malformed("a record header without a key")
        header_value, position = _decode_bytes(section, position, end)
        headers.append((header_key.decode("utf-8", "replace"), header_value))
    if position != end:
        raise Malformed(f"a record of {length} bytes holds {position - start}")
    timestamp = as_int64(header.base_timestamp + timestamp_delta)
    if header.timestamp_type == LOG_APPEND_TIME:
        timestamp = header.max_timestamp
    sequence = header.base_sequence
    if sequence >= 0:
        sequence = sequence + offset_delta & 0x7FFF_FFFF
    return Record(header.base_offset + offset_delta, timestamp, key, value, tuple(headers), sequence), end


def _decode_bytes(section: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    """A nullable byte string at ``position`` that must end at ``end`` or before."""
    length, position = decode_varint(section, position)
    if length < 0:
        return None, position
    following = position + length
    if following > end:
        raise Malformed(f"{length} bytes in a record with {end - position} left")
    return section[position:following], following


def encode_record(
    offset_delta: int, timestamp_delta: int, key: bytes | None, value: bytes | None, headers: Sequence[Header] = ()
) -> bytes:
    """A record as it stands in a record section, with its length in front."""
    if not (timestamp_delta or offset_delta or headers) and key is not None and value is not None:
        key_bytes, value_bytes = len(key), len(value)
        if key_bytes + value_bytes < _SMALL - _MOST_BESIDE_BYTES:
            key_size, value_size = _SIZES[key_bytes], _SIZES[value_bytes]
            size = len(_FIRST) + len(key_size) + key_bytes + len(value_size) + value_bytes + len(_NO_HEADERS)
            return b"".join((_SIZES[size], _FIRST, key_size, key, value_size, value, _NO_HEADERS))
    if timestamp_delta or offset_delta:
        parts = [b"\x00", encode_varlong(as_int64(timestamp_delta)), encode_varint(offset_delta)]
    else:
        parts = [_FIRST]
    for part in (key, value):
        if part is None:
            parts.append(_NULL)
        else:
            size = len(part)
            parts += (_SIZES[size] if size < _SMALL else encode_varint(size), part)
    if headers:
        parts += (encode_varint(len(headers)), *_encoded_headers(headers))
    else:
        parts.append(_NO_HEADERS)
    body = b"".join(parts)
    size = len(body)
    return (_SIZES[size] if size < _SMALL else encode_varint(size)) + body


def _encoded_headers(headers: Sequence[Header]) -> Iterator[bytes]:
    for key, value in headers:
        encoded = key.encode("utf-8")
        yield encode_varint(len(encoded))
        yield encoded
        if value is None:
            yield _NULL
        else:
            yield encode_varint(len(value))
            yield value


def build_batch(  # noqa: PLR0913
    records: Iterable[Record],
    *,
    base_offset: int = 0,
    codec: int = NONE,
    level: int | None = None,
    partition_leader_epoch: int = NO_LEADER_EPOCH,
    timestamp_type: int = CREATE_TIME,
    log_append_time_ms: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
) -> bytes:
    """Build a batch of ``records`` as Kafka's producer and MemoryRecordsBuilder write it.

    A record with offset -1 takes the offset after the one before it (the first: ``base_offset``); others keep theirs,
    which must rise. The base timestamp is the first record's. With ``LOG_APPEND_TIME`` the largest timestamp is
    ``log_append_time_ms`` and the records keep their own underneath.

    Raises:
        ValueError: no records, or offsets that do not rise.
    """
    section: list[bytes] = []
    next_delta = 0
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for record in records:
        delta = next_delta if record.offset == -1 else record.offset - base_offset
        if delta < next_delta:
            raise ValueError(f"offset {record.offset} does not rise above those before it")
        if not section:
            base_timestamp = record.timestamp
        max_timestamp = max(max_timestamp, record.timestamp)
        timestamp_delta = record.timestamp - base_timestamp
        section.append(encode_record(delta, timestamp_delta, record.key, record.value, record.headers))
        next_delta = delta + 1
    if not section:
        raise ValueError("a batch needs at least one record")
    attributes = codec | timestamp_type << 3 | transactional * TRANSACTIONAL_MASK | control * CONTROL_MASK
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes,
        last_offset_delta=next_delta - 1,
        base_timestamp=base_timestamp,
        max_timestamp=log_append_time_ms if timestamp_type == LOG_APPEND_TIME else max_timestamp,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(section),
    )
    return assemble(header, compress(codec, b"".join(section), level))


def one_record_batch(record: bytes, attributes: int, timestamp_ms: int, producer_id: int, producer_epoch: int) -> bytes:
    """The batch of an encoded record, at offset 0 and in leader epoch 0."""
    batch_length = HEADER_BYTES - LENGTH_END + len(record)
    checked = _CHECKED.pack(attributes, 0, timestamp_ms, timestamp_ms, producer_id, producer_epoch, -1, 1) + record
    return _BEFORE.pack(0, batch_length, 0, MAGIC, crc32c(checked)) + checked


def plain_batch(
    records: Sequence[tuple[bytes, bytes | None]],
    base_offset: int,
    partition_leader_epoch: int,
    timestamp_ms: int,
) -> bytes:
    """`build_batch` for keys and values of one time, not compressed and without a producer."""
    section = b"".join([encode_record(delta, 0, key, value) for delta, (key, value) in enumerate(records)])
    return plain_batch_of(section, len(records), base_offset, partition_leader_epoch, timestamp_ms)


def plain_batch_of(
    section: bytes, count: int, base_offset: int, partition_leader_epoch: int, timestamp_ms: int, codec: int = NONE
) -> bytes:
    """`plain_batch` for ``count`` records that are already a section, compressed by ``codec``."""
    batch_length = HEADER_BYTES - LENGTH_END + len(section)
    checked = _pack_plain(codec, count - 1, timestamp_ms, timestamp_ms, _NO_PRODUCER, count) + section
    return _pack_before(base_offset, batch_length, partition_leader_epoch, MAGIC, crc32c(checked)) + checked


def transactional_batch_of(
    section: bytes,
    count: int,
    base_offset: int,
    partition_leader_epoch: int,
    timestamp_ms: int,
    producer: tuple[int, int],
    codec: int = NONE,
) -> bytes:
    """`plain_batch_of` for records that a coordinator writes on behalf of a producer (its id and epoch), in its
    transaction."""
    producer_id, producer_epoch = producer
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=codec | TRANSACTIONAL_MASK,
        last_offset_delta=count - 1,
        base_timestamp=timestamp_ms,
        max_timestamp=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=NO_SEQUENCE,
        record_count=count,
    )
    return assemble(header, section)


def assemble(header: BatchHeader, section: Buffer) -> bytes:
    """A batch from ``header`` and a record section (compressed, if the header says so). Its length and CRC are
    recomputed."""
    batch_length = HEADER_BYTES - LENGTH_END + len(section)
    batch = bytearray(HEADER.pack(*header))
    batch += section
    crc = crc32c(memoryview(batch)[ATTRIBUTES_POSITION:])
    _LENGTH.pack_into(batch, LENGTH_END - _LENGTH.size, batch_length)
    _CRC.pack_into(batch, CRC_POSITION, crc)
    return bytes(batch)
