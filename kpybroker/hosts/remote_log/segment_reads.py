"""Records in a segment that a store has: by offset and by time. For threads: each call may wait for the store.

(Kafka: ``RemoteLogReader``, ``RemoteIndexCache.lookupOffset``, ``RemoteLogManager.lookupTimestamp``.)
"""

from bisect import bisect_right
from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log.remote_storage import RemoteStorage
from kpybroker.machines.remote_log.lineage import CopiedRange
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpystorage import scan
from kpystorage.errors import CorruptObject
from kpystorage.lookups import OffsetForTimestamp
from kpystorage.remote.indexes import IndexType
from kpystorage.transaction_index import ENTRY_BYTES, TransactionIndexEntry
from kpywire.batch import HEADER, HEADER_BYTES, MAGIC, BatchHeader
from kpywire.errors import Malformed
from kpywire.time_search import first_not_older
from kpywire.walk import OversizedRecord

_OFFSET_ENTRY: Final = Struct(">ii")
_TIME_ENTRY: Final = Struct(">qi")
_ABORTED: Final = Struct(">hqqqq")


class SegmentRecords(NamedTuple):
    """Whole batches."""

    records: bytes
    first_batch_bytes: int
    """The size of the first batch."""
    next_offset: int
    """The offset behind the last batch."""


class SegmentFile:
    """The log file of a segment, as `kpystorage.scan` reads files."""

    def __init__(self, storage: RemoteStorage, segment: RemoteLogSegment) -> None:
        self._storage = storage
        self._segment = segment

    def pread(self, length: int, position: int) -> bytes:
        return self._storage.read(self._segment, position, position + length)


def read(
    storage: RemoteStorage, segment: RemoteLogSegment, offset: int, max_bytes: int, until_offset: int
) -> SegmentRecords | None:
    """The records from the batch on that holds ``offset``, up to ``max_bytes``, the first batch whole. None if the
    segment has none there. Batches from ``until_offset`` on are left out. StoreFailed, CorruptObject."""
    found = find(storage, segment, offset)
    if found is None or found[1].base_offset >= until_offset:
        return None
    position, first = found
    size = first.size
    data = storage.read(segment, position, position + max(max_bytes, size))
    if len(data) < size:
        raise CorruptObject(f"the segment at offset {segment.start_offset} ends within a batch of {size} bytes")
    end, next_offset = size, first.next_offset
    while end + HEADER_BYTES <= len(data):
        header = BatchHeader._make(HEADER.unpack_from(data, end))
        following = end + header.size
        if header.base_offset >= until_offset or header.magic != MAGIC or not end < following <= len(data):
            break
        end, next_offset = following, header.next_offset
    return SegmentRecords(data[:end], size, next_offset)


def first_header(
    storage: RemoteStorage, segment: RemoteLogSegment, offset: int, until_offset: int
) -> BatchHeader | None:
    """The header of the first batch that reaches ``offset``; None if the segment has none before ``until_offset``.
    StoreFailed, CorruptObject."""
    found = find(storage, segment, offset)
    return None if found is None or found[1].base_offset >= until_offset else found[1]


def find(storage: RemoteStorage, segment: RemoteLogSegment, offset: int) -> tuple[int, BatchHeader] | None:
    """The first batch that reaches ``offset``, and its position; None if the segment has none. StoreFailed,
    CorruptObject."""
    return next(_batches_from(storage, segment, offset), None)


def _batches_from(storage: RemoteStorage, segment: RemoteLogSegment, offset: int) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of the batches from the one on that reaches ``offset``. CorruptObject if a batch is none of
    the segment's: its objects were swapped for those of another one."""
    index = storage.index(segment, IndexType.OFFSET) or b""
    count = len(index) // _OFFSET_ENTRY.size
    relative = offset - segment.start_offset
    at = bisect_right(range(count), relative, key=lambda number: _OFFSET_ENTRY.unpack_from(index, 8 * number)[0])
    position = _OFFSET_ENTRY.unpack_from(index, 8 * (at - 1))[1] if at else 0
    file = SegmentFile(storage, segment)
    for found in scan.headers(file, position, segment.size_bytes):
        header = found[1]
        if header.base_offset < segment.start_offset or header.last_offset > segment.end_offset:
            raise CorruptObject(f"the segment at offset {segment.start_offset} has a batch at {header.base_offset}")
        if header.last_offset >= offset:
            yield found


def position_from(storage: RemoteStorage, segment: RemoteLogSegment, offset: int) -> int:
    """The position where the batches from ``offset`` on begin. StoreFailed; CorruptObject if a batch has both the
    record there and earlier ones."""
    found = find(storage, segment, offset)
    if found is None:
        return segment.size_bytes
    position, header = found
    if header.base_offset < offset:
        raise CorruptObject(f"the batch at offset {header.base_offset} reaches over the end of another segment")
    return position


def find_timestamp(
    storage: RemoteStorage, copy: CopiedRange, timestamp: int, most_record_bytes: int
) -> OffsetForTimestamp | None:
    """The first record of a copy's part of a log that is not older than ``timestamp``. StoreFailed, CorruptObject."""
    segment = copy.segment
    index = storage.index(segment, IndexType.TIMESTAMP) or b""
    count = len(index) // _TIME_ENTRY.size
    at = bisect_right(range(count), timestamp, key=lambda number: _TIME_ENTRY.unpack_from(index, 12 * number)[0])
    before = segment.start_offset + (_TIME_ENTRY.unpack_from(index, 12 * (at - 1))[1] if at else 0)
    file = SegmentFile(storage, segment)
    for position, header in _batches_from(storage, segment, max(before, copy.start_offset)):
        if header.base_offset >= copy.end_offset:
            return None
        if header.max_timestamp < timestamp:
            continue
        try:
            batch = file.pread(header.size, position)
            found = first_not_older(batch, header, timestamp, copy.start_offset, most_record_bytes)
        except (Malformed, OversizedRecord) as error:
            raise CorruptObject(f"the batch at offset {header.base_offset} cannot be searched: {error}") from None
        if found is not None:
            return OffsetForTimestamp(*found, header.partition_leader_epoch)
    return None


def aborted_transactions(
    storage: RemoteStorage, segment: RemoteLogSegment, offset: int, end_offset: int
) -> tuple[list[TransactionIndexEntry], bool]:
    """The aborted transactions with records in ``offset .. end_offset`` that the segment's index names, and whether
    these are all (``TransactionIndex.overlapping``). StoreFailed, CorruptObject."""
    index = storage.index(segment, IndexType.TRANSACTION) or b""
    found: list[TransactionIndexEntry] = []
    for position in range(0, len(index) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = TransactionIndexEntry._make(_ABORTED.unpack_from(index, position)[1:])
        if entry.last_offset >= offset and entry.first_offset < end_offset:
            found.append(entry)
        if entry.last_stable_offset >= end_offset:
            return found, True
    return found, False
