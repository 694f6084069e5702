"""A pass of the cleaner over the part of a log that a store has, and the copy of what it writes. For threads.

The cleaner is that of disks (``kpystorage.compaction``): here its segments are read from the store, and new ones are
written to a folder of this node, one at a time, until they are copied. The folder is named like one of a deleted
partition, so the next start removes it if this node dies.

Invariant: one thread at a time uses a pass; the store is only read, and gets new objects.
"""

from collections.abc import Iterator, Sequence
from struct import Struct
from typing import Final

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.remote_storage import (
    ClosedSegmentFiles,
    CopyLimits,
    CopyStopped,
    RemoteStorage,
    StoreFailed,
)
from kpybroker.hosts.replicas.compaction_pass import last_records
from kpybroker.machines.remote_log.compacting import MOST_JOINED, CleanedGroup, StoredDirt, StoredPart
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpystorage import names
from kpystorage.compaction.cleaner import Cleaning, LogSegments
from kpystorage.compaction.grouping import SegmentSizes
from kpystorage.compaction.reading import BatchSource
from kpystorage.compaction.task import CleanedSegments, CleanerConfig, LogToClean
from kpystorage.disk import Disk, remove_tree
from kpystorage.log import Log
from kpystorage.log_slice import LogSlice
from kpystorage.remote.indexes import IndexType
from kpystorage.transaction_index import TransactionIndexEntry

MOST_SEGMENT_BYTES: Final = 1 << 30
"""The bytes of segments that become one: what is left of them always fits in one."""
WINDOW_BYTES: Final = 64 << 10
"""The bytes that are filtered at a time: the event loop waits as long."""
_TIME_ENTRY: Final = Struct(">qi")


def task_of(log: Log, folder: str, dirt: StoredDirt, high_watermark: int) -> LogToClean:
    """The task of a pass over what a store has of a log. What it reads for the first time keeps its tombstones."""
    return LogToClean(
        folder,
        log.name,
        tuple(each.start for each in dirt.parts),
        dirt.first_dirty_offset,
        dirt.end_offset,
        high_watermark,
        last_records(log.producers),
        log.config._replace(is_tiered=False, segment_bytes=min(log.config.segment_bytes, MOST_SEGMENT_BYTES)),
        dirt.first_dirty_offset,
    )


class StoredSource(BatchSource):
    """A part of the log in the store."""

    __slots__ = ("_begin", "_part", "_storage")

    def __init__(self, storage: RemoteStorage, part: StoredPart) -> None:
        """StoreFailed, CorruptObject: its beginning was not found."""
        segment = part.segment
        self._storage = storage
        self._part = part
        self._begin = 0
        if part.start > segment.start_offset:
            self._begin = segment_reads.position_from(storage, segment, part.start)
        path = f"{segment.id.topic}-{segment.id.partition}, the segment at offset {segment.start_offset} in the store"
        sizes = SegmentSizes(part.start, segment.size_bytes - self._begin, 0, 0)
        super().__init__(path, sizes, max(segment.max_timestamp_ms, 0))

    def read(self, length: int, position: int) -> bytes:
        start = self._begin + position
        return self._storage.read(self._part.segment, start, start + length)

    def position_of(self, offset: int) -> int:  # noqa: ARG002
        return 0

    def next_offset(self) -> int:
        return self._part.next_offset

    def release(self) -> None: ...


class StoredAborted:
    """The aborted transactions that the indexes in the store name, and those whose marker is on the disk alone."""

    def __init__(
        self, storage: RemoteStorage, parts: Sequence[StoredPart], on_disk: Sequence[TransactionIndexEntry]
    ) -> None:
        self._storage = storage
        self._parts = [each for each in parts if not each.segment.is_transaction_index_empty]
        self._on_disk = on_disk

    def between(self, base_offset: int, offset: int, end_offset: int) -> list[TransactionIndexEntry]:
        found: list[TransactionIndexEntry] = []
        for part in self._parts:
            if part.next_offset <= base_offset:
                continue
            entries, are_all = segment_reads.aborted_transactions(self._storage, part.segment, offset, end_offset)
            found += entries
            if are_all:
                return found
        return found + [each for each in self._on_disk if each.last_offset >= offset and each.first_offset < end_offset]


class StoredCleaning:
    """One pass."""

    def __init__(
        self,
        storage: RemoteStorage,
        disk: Disk,
        task: LogToClean,
        parts: tuple[StoredPart, ...],
        aborted_on_disk: Sequence[TransactionIndexEntry],
        config: CleanerConfig,
        now_ms: int,
    ) -> None:
        """``task.path`` is the folder, which this makes and removes."""
        self.is_stopped = False
        """Whether to end at the next window; any thread may set it."""
        self._storage = storage
        self._disk = disk
        self._task = task
        self._parts = {each.start: each for each in parts}
        self._aborted = StoredAborted(storage, parts, aborted_on_disk)
        self._config = config._replace(io_buffer_bytes=min(config.io_buffer_bytes, WINDOW_BYTES))
        self._now_ms = now_ms
        self._cleaning: Cleaning | None = None
        self._groups: Iterator[list[BatchSource]] = iter(())

    def next(self, limits: CopyLimits) -> CleanedGroup | None:
        """Clean the next group; None if there is none. StoreFailed, CopyStopped, StorageError, OSError."""
        cleaning = self._cleaning or self._begin(limits)
        group = next(self._groups, None)
        if group is None:
            return None
        parts = tuple(self._parts[each.base_offset] for each in group)
        cleaned = cleaning.compact(group)
        return self._result(parts, cleaned, cleaning.end_offset)

    def _begin(self, limits: CopyLimits) -> Cleaning:
        def throttle(size_bytes: int) -> None:
            limits.wait_for(size_bytes)
            if limits.is_stopped():
                raise CopyStopped("the pass was stopped")

        self._disk.make_directory(self._task.path)
        sources = [StoredSource(self._storage, each) for each in self._parts.values()]
        segments = LogSegments(sources, self._aborted, MOST_JOINED)
        cleaning = Cleaning(self._disk, self._task, segments, self._config, self._now_ms, throttle)
        self._cleaning = cleaning
        cleaning.map_keys()
        self._groups = iter(cleaning.groups())
        return cleaning

    def _result(self, parts: tuple[StoredPart, ...], cleaned: CleanedSegments, end_offset: int) -> CleanedGroup:
        base_offset = parts[0].start
        if cleaned.base_offsets != (base_offset,):
            raise StoreFailed(
                f"what is left of {len(parts)} segments from offset {base_offset} on is too large for one"
            )
        times = self._read(base_offset, names.TIME_INDEX)
        newest_ms = max(each.segment.max_timestamp_ms for each in parts)
        if times:
            newest_ms = _TIME_ENTRY.unpack_from(times, len(times) - _TIME_ENTRY.size)[0]
        size = self._disk.file(self._path(base_offset, names.LOG)).size()
        return CleanedGroup(parts, size, newest_ms, not self._read(base_offset, names.TRANSACTION_INDEX), end_offset)

    def copy(self, segment: RemoteLogSegment, parts: tuple[StoredPart, ...], limits: CopyLimits) -> bytes | None:
        """Copy the group that was cleaned last as ``segment``; its custom metadata. It is removed here then."""
        base_offset, last = segment.start_offset, parts[-1].segment
        file = self._disk.file(self._path(base_offset, names.LOG))
        try:
            files = ClosedSegmentFiles(
                log=LogSlice(file.descriptor(), 0, segment.size_bytes),
                offset_index=self._read(base_offset, names.OFFSET_INDEX),
                time_index=self._read(base_offset, names.TIME_INDEX),
                transaction_index=self._read(base_offset, names.TRANSACTION_INDEX) or None,
                producer_snapshot=self._storage.index(last, IndexType.PRODUCER_SNAPSHOT) or b"",
                leader_epochs=self._storage.index(last, IndexType.LEADER_EPOCH) or b"",
            )
            custom = self._storage.copy(segment, files, limits)
        finally:
            file.release()
        for suffix in names.SEGMENT_FILES:
            path = self._path(base_offset, suffix)
            if self._disk.status(path) is not None:
                self._disk.unlink(path)
        return custom

    def end(self) -> None:
        """Free the memory and remove the folder. OSError."""
        if self._cleaning is not None:
            self._cleaning.close()
        for _ in remove_tree(self._disk, self._task.path):
            pass

    def _path(self, base_offset: int, suffix: str) -> str:
        return f"{self._task.path}/{base_offset:020d}{suffix}{names.CLEANED}"

    def _read(self, base_offset: int, suffix: str) -> bytes:
        path = self._path(base_offset, suffix)
        return b"" if self._disk.status(path) is None else self._disk.read(path)
