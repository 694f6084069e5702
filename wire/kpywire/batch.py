"""The header of a record batch (magic 2): read, check, stamp. The records behind it stay an unread slice here.

Not here: what is inside the record section (:mod:`kpywire.record`, :mod:`kpywire.skim`) and what a broker accepts.

Layout, big-endian: baseOffset i64, batchLength i32 (bytes after this field), partitionLeaderEpoch i32, magic i8,
crc u32, attributes i16, lastOffsetDelta i32, baseTimestamp i64, maxTimestamp i64, producerId i64, producerEpoch i16,
baseSequence i32, recordCount i32, records. The CRC covers everything from attributes on.

Invariant: base offset and leader epoch lie outside the CRC, so stamping them never changes it; every other stamp
recomputes it.
"""

from collections.abc import Iterator
from struct import Struct
from struct import error as StructError  # noqa: N812
from typing import Final, NamedTuple

from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.varint import Buffer

HEADER_BYTES: Final = 61
LENGTH_END: Final = 12
"""Bytes before the part that batchLength counts: baseOffset and batchLength itself."""

EPOCH_END: Final = 16
"""The bytes before the magic: with the leader epoch, these are the place of a batch in a log."""
MAGIC: Final = 2
MAGIC_POSITION: Final = 16
CRC_POSITION: Final = 17
ATTRIBUTES_POSITION: Final = 21
MAX_TIMESTAMP_POSITION: Final = 35
PRODUCER_POSITION: Final = 43

NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1
NO_SEQUENCE: Final = -1
NO_LEADER_EPOCH: Final = -1

CREATE_TIME: Final = 0
LOG_APPEND_TIME: Final = 1

CODEC_MASK: Final = 0x07
TIMESTAMP_TYPE_MASK: Final = 0x08
TRANSACTIONAL_MASK: Final = 0x10
CONTROL_MASK: Final = 0x20
DELETE_HORIZON_MASK: Final = 0x40
KNOWN_ATTRIBUTES: Final = 0x7F

_new: Final = tuple.__new__
HEADER: Final = Struct(">qiibIhiqqqhii")
OFFSET_LENGTH_EPOCH: Final = Struct(">qii")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_CRC: Final = Struct(">I")
_CRC_AND_ATTRIBUTES: Final = Struct(">Ih")
_PRODUCER: Final = Struct(">qhi")


class BatchHeader(NamedTuple):
    """The fields of a batch header, in their order on the wire. In a header from a peer, any of them may hold any
    value."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch, header included."""
        return self.batch_length + LENGTH_END

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The offset after the last one of this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> int:
        """Compression of the record section: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd (5 to 7 mean nothing)."""
        return self.attributes & CODEC_MASK

    @property
    def timestamp_type(self) -> int:
        """``CREATE_TIME`` or ``LOG_APPEND_TIME``; with the latter, ``max_timestamp`` is the time of every record."""
        return self.attributes >> 3 & 1

    @property
    def is_transactional(self) -> bool:
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record (a transaction marker, a raft record) instead of users' records."""
        return self.attributes & CONTROL_MASK != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time when the cleaner may drop tombstones and markers of this batch; kept in ``base_timestamp``
        (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_MASK else None

    @property
    def has_producer_id(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, or ``NO_SEQUENCE``; sequences wrap from 2**31 - 1 to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return self.base_sequence + self.last_offset_delta & 0x7FFF_FFFF


Fields = tuple[int, ...]
"""The same as a plain tuple, for callers where the number of tuples matters; these are places in it."""
BASE_OFFSET: Final = 0
BATCH_LENGTH: Final = 1
LEADER_EPOCH: Final = 2
MAGIC_NUMBER: Final = 3
CRC: Final = 4
ATTRIBUTES: Final = 5
LAST_OFFSET_DELTA: Final = 6
BASE_TIMESTAMP: Final = 7
MAX_TIMESTAMP: Final = 8
PRODUCER_ID: Final = 9
BASE_SEQUENCE: Final = 11
RECORD_COUNT: Final = 12


def placed(fields: Fields, base_offset: int, partition_leader_epoch: int) -> BatchHeader:
    """The header of a batch with its place in a log."""
    return _new(BatchHeader, (base_offset, fields[BATCH_LENGTH], partition_leader_epoch, *fields[MAGIC_NUMBER:]))


def parse_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The 61 bytes at ``position`` as a header. Neither its CRC nor its values are checked.

    Raises:
        Malformed: fewer than 61 bytes are left.
    """
    try:
        return _new(BatchHeader, HEADER.unpack_from(buffer, position))
    except StructError:
        raise Malformed(f"{max(len(buffer) - position, 0)} bytes are too few for a batch header") from None


def check_crc(buffer: Buffer, header: BatchHeader, position: int = 0) -> bool:
    """Whether the batch at ``position`` is there to its end and has the CRC its header declares."""
    end = position + header.batch_length + LENGTH_END
    if header.batch_length < HEADER_BYTES - LENGTH_END or end > len(buffer):
        return False
    with memoryview(buffer) as view:
        return crc32c(view[position + ATTRIBUTES_POSITION : end]) == header.crc


def batch_headers(buffer: Buffer, position: int = 0) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of every whole batch from ``position`` on; a cut-off batch at the end is left out.

    Raises:
        Malformed: a batch declares a length too small for its header, or another format than magic 2. (Kafka
            skips neither: its log input stream raises CorruptRecordException.)
    """
    end = len(buffer)
    while position + HEADER_BYTES <= end:
        header = BatchHeader._make(HEADER.unpack_from(buffer, position))
        if header.magic != MAGIC:
            raise Malformed(f"a batch has magic {header.magic}, only {MAGIC} is known")
        if header.batch_length < HEADER_BYTES - LENGTH_END:
            raise Malformed(f"a batch of {header.size} bytes is smaller than its header")
        following = position + header.size
        if following > end:
            return
        yield position, header
        position = following


def stamp_offset_and_epoch(
    buffer: bytearray | memoryview, position: int, base_offset: int, partition_leader_epoch: int
) -> None:
    """Write the base offset and the leader epoch of the batch at ``position``; the CRC stays valid."""
    _OFFSET.pack_into(buffer, position, base_offset)
    _EPOCH.pack_into(buffer, position + LENGTH_END, partition_leader_epoch)


def stamp_max_timestamp(
    buffer: bytearray | memoryview, header: BatchHeader, max_timestamp: int, timestamp_type: int, position: int = 0
) -> BatchHeader:
    """Write the largest timestamp, its type and the new CRC of the batch at ``position``. Return the new header.

    ``header`` is the header so far; the whole batch must lie in ``buffer``. Attributes without a meaning are cleared,
    as Kafka does whenever it writes the field.
    """
    attributes = header.attributes & KNOWN_ATTRIBUTES & ~TIMESTAMP_TYPE_MASK | timestamp_type << 3
    _CRC_AND_ATTRIBUTES.pack_into(buffer, position + CRC_POSITION, 0, attributes)
    _OFFSET.pack_into(buffer, position + MAX_TIMESTAMP_POSITION, max_timestamp)
    with memoryview(buffer) as view:
        crc = crc32c(view[position + ATTRIBUTES_POSITION : position + header.batch_length + LENGTH_END])
    _CRC.pack_into(buffer, position + CRC_POSITION, crc)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def stamp_producer(buffer: bytearray, producer_id: int, epoch: int, sequence: int, *, is_transactional: bool) -> None:
    """Write the producer of the batch in ``buffer``, its first sequence, and the new CRC."""
    header = parse_header(buffer)
    attributes = header.attributes & ~TRANSACTIONAL_MASK | is_transactional * TRANSACTIONAL_MASK
    _CRC_AND_ATTRIBUTES.pack_into(buffer, CRC_POSITION, 0, attributes)
    _PRODUCER.pack_into(buffer, PRODUCER_POSITION, producer_id, epoch, sequence)
    with memoryview(buffer) as view:
        crc = crc32c(view[ATTRIBUTES_POSITION : header.size])
    _CRC.pack_into(buffer, CRC_POSITION, crc)
