"""``.snapshot``: the producers of a log as of the offset in the file's name (Kafka's ProducerSnapshot, version 1).

Version i16, CRC-32C u32 of everything behind it, count i32, then per producer 46 bytes: producer id i64, epoch i16,
last sequence i32, last offset i64, offset delta i32, timestamp i64, coordinator epoch i32, first offset of the open
transaction i64 (-1: none). Only the last batch of a producer is kept, as in Kafka.

Producers are written by ascending id; Kafka writes them in the order of its hash map, which no reader relies on.
"""

from collections.abc import Iterable
from struct import Struct
from typing import Final, NamedTuple

from kpystorage.errors import CorruptFile
from kpywire.crc import crc32c

VERSION: Final = 1
_HEADER: Final = Struct(">hIi")
_CRC_END: Final = 6
_ENTRY: Final = Struct(">qhiqiqiq")


class SnapshotEntry(NamedTuple):
    """A producer in a snapshot. ``last_offset`` is -1 where it has written no data, only ended a transaction."""

    producer_id: int
    epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def render(entries: Iterable[SnapshotEntry]) -> bytes:
    """The bytes of a snapshot file."""
    body = [_ENTRY.pack(*entry) for entry in sorted(entries)]
    data = bytearray(_HEADER.size)
    _HEADER.pack_into(data, 0, VERSION, 0, len(body))
    data += b"".join(body)
    _HEADER.pack_into(data, 0, VERSION, crc32c(memoryview(data)[_CRC_END:]), len(body))
    return bytes(data)


def parse(data: bytes, path: str) -> list[SnapshotEntry]:
    """The producers of a snapshot file. CorruptFile, naming ``path``, if it is not one."""
    if len(data) < _HEADER.size:
        raise CorruptFile(f"{path}: cut off")
    version, crc, count = _HEADER.unpack_from(data)
    if version != VERSION:
        raise CorruptFile(f"{path}: version {version}, expected {VERSION}")
    if crc != crc32c(memoryview(data)[_CRC_END:]):
        raise CorruptFile(f"{path}: its checksum does not match")
    if count < 0 or len(data) != _HEADER.size + count * _ENTRY.size:
        raise CorruptFile(f"{path}: declares {count} producers, has {len(data)} bytes")
    return [SnapshotEntry._make(fields) for fields in _ENTRY.iter_unpack(memoryview(data)[_HEADER.size :])]
