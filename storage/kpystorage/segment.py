"""A segment: a stretch of a log in one ``.log`` file, with its indexes beside it (Kafka's LogSegment).

Not here: which segment is written to, producers, epochs, recovery.

Invariant: the file holds whole batches in ascending offsets, all at or above ``base_offset``; every index entry points
at one of them.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from kpystorage import names, scan
from kpystorage.checked_reads import CheckedReads
from kpystorage.disk import Disk
from kpystorage.errors import CorruptRecord, InvalidRecord
from kpystorage.file import File
from kpystorage.gathering import GatheredFile
from kpystorage.log_config import LogConfig
from kpystorage.log_slice import LogSlice
from kpystorage.offset_index import ENTRY_BYTES as OFFSET_ENTRY_BYTES
from kpystorage.offset_index import OffsetIndex
from kpystorage.time_index import ENTRY_BYTES as TIME_ENTRY_BYTES
from kpystorage.time_index import TimeIndex, TimestampOffset
from kpystorage.transaction_index import TransactionIndex
from kpywire.batch import LENGTH_END, NO_TIMESTAMP, BatchHeader
from kpywire.errors import Malformed
from kpywire.time_search import Found, Search, first_not_older
from kpywire.varint import Buffer
from kpywire.walk import ANY_SIZE, OversizedRecord

_MAX_RELATIVE_OFFSET: Final = 0x7FFF_FFFF
_NOT_ASKED: Final = -1
_new: Final = tuple.__new__


class Segment:
    """One segment of a log. Files other than the active one's are examined only when they are needed."""

    __slots__ = (
        "_first_timestamp",
        "_full",
        "_index_bytes",
        "_index_interval_bytes",
        "_is_inherited",
        "_max",
        "_offset_index",
        "_reserved",
        "_segment_bytes",
        "_segment_ms",
        "_since_index_bytes",
        "_size",
        "_time_index",
        "base_offset",
        "checks",
        "created_ms",
        "disk",
        "jitter_ms",
        "log",
        "transaction_index",
    )

    def __init__(
        self,
        disk: Disk,
        directory: str,
        base_offset: int,
        *,
        created_ms: int,
        config: LogConfig,
        has_transactions: bool = False,
    ) -> None:
        """Open the segment whose files exist in ``directory``. ``created_ms`` is used where no record has a time."""
        stem = f"{directory}/{base_offset:020d}"
        self.disk = disk
        self.base_offset = base_offset
        self.checks: CheckedReads | None = None
        self.log = GatheredFile(disk.file(stem + names.LOG), disk.gathering)
        self.transaction_index = TransactionIndex(disk, stem + names.TRANSACTION_INDEX, exists=has_transactions)
        self.created_ms = created_ms
        self.jitter_ms = 0
        self._full: bool | None = None  # None: to be found out
        self.configure(config)
        self._index_bytes = config.segment_index_bytes
        self._index_interval_bytes = config.index_interval_bytes
        self._size = _NOT_ASKED
        self._offset_index: OffsetIndex | None = None
        self._time_index: TimeIndex | None = None
        self._max: TimestampOffset | None = None
        self._first_timestamp: int | None = None
        self._since_index_bytes = 0
        self._is_inherited = False
        self._reserved = False
        """Whether the ``.log`` file has zeros behind its batches: ``preallocate``, as long as it is written to."""

    @classmethod
    def create(cls, disk: Disk, directory: str, base_offset: int, created_ms: int, config: LogConfig) -> "Segment":
        """A new empty segment with its files; files of that name are emptied."""
        stem = f"{directory}/{base_offset:020d}"
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            disk.create(stem + suffix).release()
        return cls.of_empty_files(disk, directory, base_offset, created_ms, config, disk.create(stem + names.LOG))

    @classmethod
    def of_empty_files(
        cls,
        disk: Disk,
        directory: str,
        base_offset: int,
        created_ms: int,
        config: LogConfig,
        log: File | None = None,
    ) -> "Segment":
        """A new empty segment whose files exist. ``log`` is the open file of the batches, if it is open."""
        segment = cls(disk, directory, base_offset, created_ms=created_ms, config=config)
        if log is not None:
            segment.log = GatheredFile(log, disk.gathering)
        stem = f"{directory}/{base_offset:020d}"
        segment._size = 0
        if config.preallocate:
            segment.log.reserve(config.segment_bytes)
            segment._reserved = True
        segment._offset_index = OffsetIndex(disk.file(stem + names.OFFSET_INDEX), base_offset, 0)
        segment._time_index = TimeIndex(disk.file(stem + names.TIME_INDEX), base_offset, 0)
        return segment

    def configure(self, config: LogConfig) -> None:
        """Use another configuration from now on. Its settings for indexes and jitter take effect in the next
        segment."""
        # Every batch needs these, and to find a field of a named tuple takes longer.
        self._segment_bytes, self._segment_ms = config.segment_bytes, config.segment_ms

    # What is known of it; the first question may cost a system call.

    @property
    def size(self) -> int:
        """Bytes of the ``.log`` file."""
        if self._size < 0:
            self._size = self.log.size()
        return self._size

    @property
    def offset_index(self) -> OffsetIndex:
        if self._offset_index is None:
            file = self.disk.file(self._path(names.OFFSET_INDEX))
            file.is_given_up = self._is_inherited
            self._offset_index = OffsetIndex(file, self.base_offset)
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        if self._time_index is None:
            file = self.disk.file(self._path(names.TIME_INDEX))
            file.is_given_up = self._is_inherited
            self._time_index = TimeIndex(file, self.base_offset)
        return self._time_index

    @property
    def max_timestamp(self) -> TimestampOffset:
        """The largest timestamp and the last offset of the first batch that has it; (-1, base offset) without any."""
        if self._max is None:
            self._max = self.time_index.last
        return self._max

    @property
    def largest_timestamp(self) -> int:
        """The time that retention uses, in ms: the largest timestamp of a record, else the time when the file was last
        written."""
        timestamp = self.max_timestamp.timestamp
        if timestamp >= 0:
            return timestamp
        status = self.disk.status(self.log.path)
        return status.modified_ns // 1_000_000 if status is not None else self.created_ms

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, -1 while there is none; time-based rolling counts from it."""
        if self._first_timestamp is None:
            for _, header in scan.headers(self.log, 0, min(self.size, scan.HEADER_WINDOW_BYTES)):
                self._first_timestamp = header.max_timestamp
                return header.max_timestamp
            return NO_TIMESTAMP
        return self._first_timestamp

    # Writing.

    def must_roll(self, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> bool:
        """Whether ``size`` bytes with these limits belong in a new segment (Kafka's LogSegment.shouldRoll)."""
        held = self._size
        if held > self._segment_bytes - size or last_offset - self.base_offset > _MAX_RELATIVE_OFFSET:
            return True
        if held:
            first = self._first_timestamp
            if first is None:
                first = self.first_timestamp
            waited_ms = max_timestamp - first if first >= 0 else now_ms - self.created_ms
            if waited_ms > self._segment_ms - self.jitter_ms:
                return True
        return self._is_full() if self._full is None else self._full

    def _is_full(self) -> bool:
        """Whether an index has no room for another entry; the time index keeps one free for the segment's end."""
        index_bytes = self._index_bytes
        self._full = (
            len(self.offset_index) >= index_bytes // OFFSET_ENTRY_BYTES
            or len(self.time_index) >= index_bytes // TIME_ENTRY_BYTES - 1
        )
        return self._full

    def append(self, headers: Sequence[BatchHeader], data: Buffer) -> int:
        """Write batches at the end, or leave them to the `Gathering`. Return the position where they begin.

        Raises:
            OSError: any part may have been written; :meth:`cut` takes it back.
        """
        begin = position = self._size
        self.log.append(data, position)
        for header in headers:
            size = header.batch_length + LENGTH_END
            self.note(header.max_timestamp, header.base_offset + header.last_offset_delta, position, size)
            position += size
        self._size = position
        return begin

    def append_batch(self, data: Buffer, size: int, max_timestamp: int, last_offset: int, now_ms: int) -> int:
        """:meth:`append` one batch. Return -1, and write nothing, if it belongs in a new segment."""
        if self.must_roll(size, max_timestamp, last_offset, now_ms):
            return -1
        begin = self._size
        self.log.append(data, begin)
        self.note(max_timestamp, last_offset, begin, size)
        self._size = begin + size
        return begin

    def note(self, timestamp: int, last_offset: int, position: int, size: int) -> None:
        """Account for a batch that is in the file: the largest timestamp and, at intervals of some bytes, index
        entries."""
        largest = self._max
        if largest is None:
            largest = self.max_timestamp
        if timestamp > largest[0]:
            self._max = largest = _new(TimestampOffset, (timestamp, last_offset))
        if self._since_index_bytes > self._index_interval_bytes:
            time_index = self.time_index
            time_index.append_if_later(largest.timestamp, largest.offset)
            if self.offset_index.append(last_offset, position):
                self.flush_indexes()
            self._since_index_bytes = 0
            self._full = None
        self._since_index_bytes += size
        if position == 0:
            self._first_timestamp = timestamp

    def flush_indexes(self) -> None:
        """Write index entries that are only in memory, after the batches that they are about. The time index is before
        the offset index, since recovery relies on that one in the file."""
        self.log.settle()
        self.time_index.flush()
        self.offset_index.flush()

    def seal(self) -> None:
        """Complete both index files, with the largest timestamp in the time index: the segment is no longer written
        to."""
        self.complete_indexes()
        self.settle_indexes()

    def complete_indexes(self) -> None:
        """Do the first half of :meth:`seal`, which writes nothing."""
        if self._max is not None or self.size:
            self.time_index.append_if_later(*self.max_timestamp)

    def settle_indexes(self) -> None:
        """Do the second half of :meth:`seal`."""
        self.time_index.settle()
        self.offset_index.settle()

    def trim(self) -> None:
        """Give back the space that was reserved."""
        if self._reserved:
            self.cut(self.size)

    def cut(self, position: int) -> None:
        """Cut the ``.log`` file to ``position``. The caller has to mend the indexes."""
        self.log.truncate(position)
        self._size = position
        if self.checks is not None:
            self.checks = self.checks.cut(position)
        self._reserved = False

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Remove the batches that reach ``offset`` or beyond, and their index entries."""
        found = self.find(offset, self.size)
        self._full = None
        self.flush_indexes()
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.transaction_index.truncate_to(offset)
        self.cut(self.size if found is None else found[0])  # also at its end: it is about to be written to again
        if self._size == 0:
            self.created_ms = now_ms
            self._first_timestamp = None
        self._since_index_bytes = 0
        self._max = self._largest_remaining()

    def _largest_remaining(self) -> TimestampOffset:
        largest = self.time_index.last
        for _, header in self._from_index(largest.offset, self.size):
            if header.max_timestamp > largest.timestamp:
                largest = TimestampOffset(header.max_timestamp, header.last_offset)
        return largest

    # Reading.

    def find(self, offset: int, limit: int) -> tuple[int, BatchHeader] | None:
        """(position, header) of the first batch before byte ``limit`` that reaches ``offset`` or beyond, if any."""
        for at, header in self._from_index(offset, limit):
            if header.base_offset + header.last_offset_delta >= offset:
                return at, header
        return None

    def slice(self, position: int, length: int, report: Callable[[str], None], *, cold: bool) -> LogSlice:
        """A slice from the batch at ``position`` on. CorruptRecord if that batch is damaged; the slice ends before
        another damaged one."""
        if not cold:
            return LogSlice(self.log.descriptor(), position, length)
        if self.checks is None:
            self.checks = CheckedReads(report)
        trouble = self.checks.trouble_at(position)
        if trouble:
            raise CorruptRecord(f"{self.log.path}, byte {position}: {trouble}")
        length = self.checks.limit(position, position + length) - position
        return LogSlice(self.log.descriptor(), position, length, path=self.log.path, checks=self.checks)

    def refuse_broken(self, offset: int, limit: int) -> None:
        """Raise CorruptRecord if the batches around ``offset`` end before byte ``limit``: the rest cannot be read."""
        end = self.offset_index.lookup(offset)[1]
        for at, header in self._from_index(offset, limit):
            end = at + header.size
        if end < limit:
            raise CorruptRecord(f"{self.log.path}, byte {end}: no batch begins here, though the segment goes on")

    def _from_index(self, offset: int, limit: int) -> Iterator[tuple[int, BatchHeader]]:
        """The batches from the index entry at or below ``offset`` on. An index that points elsewhere is rebuilt."""
        indexed_offset, position = self.offset_index.lookup(offset)
        is_possible = 0 <= position <= self.size
        walk = scan.headers(self.log, position if is_possible else limit, limit)
        first = next(walk, None)
        if not is_possible or (
            position and (position < limit if first is None else first[1].last_offset != indexed_offset)
        ):
            self.rebuild_indexes()
            yield from scan.headers(self.log, self.offset_index.lookup(offset)[1], limit)
        elif first is not None:
            yield first
            yield from walk

    def rebuild_indexes(self) -> None:
        """Make the offset and time index agree with the batches."""
        self.offset_index.rebuild()
        self.time_index.rebuild()
        self.restart_index()
        for position, header in scan.headers(self.log, 0, self.size):
            self.note(header.max_timestamp, header.last_offset, position, header.size)
        self.seal()

    def restart_index(self, indexed_bytes: int = 0) -> None:
        """Continue indexing behind the last entry. ``indexed_bytes`` is the size of the batch it points at."""
        self._full = None
        self._max = self.time_index.last
        self._since_index_bytes = indexed_bytes

    def next_offset(self) -> int:
        """The offset behind the last batch; the base offset if there is none."""
        return self.tail()[0]

    def tail(self) -> tuple[int, int]:
        """(offset, position) behind the last batch that can be recognised, and does not reach back."""
        following, end = self.base_offset, 0
        for at, header in self._from_index(self.offset_index.last_offset, self.size):
            if not following <= header.base_offset < header.next_offset:
                break
            following, end = header.next_offset, at + header.size
        return following, end

    def indexed_behind_end(self) -> list[int]:
        """The offsets of batches that the last entries of the indexes name, and that may lie behind the file's end."""
        offset, position = self.offset_index.last_offset, self.offset_index.last_position
        latest = self.time_index.last
        found = [offset] if 0 < position >= self.size else []
        return [*found, latest.offset] if latest.timestamp > 0 and (found or not self.size) else found

    def find_timestamp(
        self,
        timestamp: int,
        start_offset: int,
        search: Search = first_not_older,
        most_record_bytes: int = ANY_SIZE,
    ) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record at or behind ``start_offset`` that is not older."""
        before = self.time_index.lookup(timestamp)
        for at, header in self._from_index(max(before.offset, start_offset), self.size):
            if header.max_timestamp >= timestamp:
                found = self._first_not_older(header, at, timestamp, start_offset, search, most_record_bytes)
                if found is not None:
                    return *found, header.partition_leader_epoch
        return None

    def find_max_timestamp(
        self, search: Search = first_not_older, most_record_bytes: int = ANY_SIZE
    ) -> tuple[int, int, int] | None:
        """(timestamp, offset, leader epoch) of the first record with the largest timestamp of the segment."""
        timestamp, offset = self.max_timestamp
        for at, header in self._from_index(offset, self.size):
            if header.max_timestamp == timestamp:
                found = self._first_not_older(header, at, timestamp, 0, search, most_record_bytes)
                return (*found, header.partition_leader_epoch) if found else None
        return None

    def _first_not_older(
        self,
        header: BatchHeader,
        position: int,
        timestamp: int,
        start_offset: int,
        search: Search,
        most_record_bytes: int,
    ) -> Found:
        """The first record of the batch at ``position`` that is not older. CorruptRecord if its records cannot be
        read, InvalidRecord if one of them is too large."""
        try:
            return search(self.log.pread(header.size, position), header, timestamp, start_offset, most_record_bytes)
        except OversizedRecord as error:
            raise InvalidRecord(str(error)) from error
        except Malformed as error:
            raise CorruptRecord(f"{self.log.path}, byte {position}: {error}") from error

    # Files.

    def files(self) -> list[File]:
        """The files that exist."""
        files: list[File] = [self.log, self.offset_index.file, self.time_index.file]
        if self.transaction_index.file is not None:
            files.append(self.transaction_index.file)
        return files

    def distrust(self) -> None:
        """Note that another process wrote the files: errors reported to its descriptors are not known."""
        self._is_inherited = self.log.is_given_up = True
        for index in (self._offset_index, self._time_index, self.transaction_index):
            if index is not None and index.file is not None:
                index.file.is_given_up = True

    def moved(self, directory: str) -> None:
        """Use another path of the log's directory."""
        for index, suffix in ((self._offset_index, names.OFFSET_INDEX), (self._time_index, names.TIME_INDEX)):
            if index is not None:
                index.file.path = f"{directory}/{self.base_offset:020d}{suffix}"
        self.log.path = f"{directory}/{self.base_offset:020d}{names.LOG}"
        self.transaction_index.moved(f"{directory}/{self.base_offset:020d}{names.TRANSACTION_INDEX}")

    def release(self) -> None:
        """Give the descriptors back; slices that are held stay valid."""
        for file in (self._offset_index, self._time_index, self.transaction_index):
            if file is not None and file.file is not None:
                file.file.release()
        self.log.release()

    def _path(self, suffix: str) -> str:
        return self.log.path.removesuffix(names.LOG) + suffix

    def __repr__(self) -> str:
        return f"Segment(base_offset={self.base_offset}, size={self._size})"
