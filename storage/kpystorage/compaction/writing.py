"""The segments that replace a group: files with the suffix ``.cleaned``, complete and durable when it is finished.

Batches come in the order of their offsets, as they are to stand in the file, many in one piece. A segment too large for
its indexes (31 bits for offsets and positions) ends before the batch that does not fit, and another one begins.

Invariant: the index entries are those that appending batch by batch makes (:meth:`kpystorage.segment.Segment.note`).
"""

from contextlib import suppress
from typing import Final

from kpystorage import names
from kpystorage.compaction import pieces
from kpystorage.disk import Disk
from kpystorage.file import File
from kpystorage.log_config import LogConfig
from kpystorage.offset_index import OffsetIndex
from kpystorage.time_index import TimeIndex
from kpystorage.transaction_index import TransactionIndex
from kpywire.batch import NO_TIMESTAMP
from kpywire.varint import Buffer

_MOST: Final = 0x7FFF_FFFF


class CleanedFiles:
    """The files that one group of segments is compacted into. Every call may raise OSError."""

    __slots__ = (
        "_base_offset", "_bytes", "_config", "_disk", "_indexed_bytes", "_log", "_max_offset", "_max_timestamp",
        "_offset_index", "_path", "_pieces", "_since_index_bytes", "_time_index", "_written_bytes", "base_offsets",
        "bytes_written", "transaction_index",
    )  # fmt: skip

    transaction_index: TransactionIndex
    """The transaction index of the segment that is being written."""

    def __init__(self, disk: Disk, path: str, base_offset: int, config: LogConfig) -> None:
        self._disk = disk
        self._path = path
        self._config = config
        self.base_offsets: list[int] = []
        self.bytes_written = 0
        self._pieces: list[Buffer] = []
        self._begin(base_offset)

    def _begin(self, base_offset: int) -> None:
        self._base_offset = base_offset
        self.base_offsets.append(base_offset)
        stem = f"{self._path}/{base_offset:020d}"
        for suffix in names.SEGMENT_FILES:
            with suppress(FileNotFoundError):
                self._disk.unlink(stem + suffix + names.CLEANED)
        self._log: File = self._disk.create(stem + names.LOG + names.CLEANED)
        self._offset_index = OffsetIndex(
            self._disk.create(stem + names.OFFSET_INDEX + names.CLEANED), base_offset, count=0
        )
        self._time_index = TimeIndex(self._disk.create(stem + names.TIME_INDEX + names.CLEANED), base_offset, count=0)
        self.transaction_index = TransactionIndex(
            self._disk, stem + names.TRANSACTION_INDEX + names.CLEANED, exists=False
        )
        self._bytes = self._written_bytes = 0
        self._since_index_bytes = 0
        self._max_timestamp = NO_TIMESTAMP
        self._max_offset = base_offset

    def note(self, last_offset: int, max_timestamp: int, size: int) -> bool:
        """Note that a batch of ``size`` bytes comes next. :meth:`add` brings it later, together with others or alone.

        False, and nothing is noted, if it does not fit in the segment.
        """
        if last_offset - self._base_offset > _MOST or self._bytes + size > _MOST:
            return False
        if max_timestamp > self._max_timestamp:
            self._max_timestamp = max_timestamp
            self._max_offset = last_offset
        if self._since_index_bytes > self._config.index_interval_bytes:
            self._time_index.append_if_later(self._max_timestamp, self._max_offset)
            self._offset_index.append(last_offset, self._bytes)
            self._since_index_bytes = 0
        self._since_index_bytes += size
        self._bytes += size
        return True

    def add(self, data: Buffer) -> None:
        """Add the bytes of batches that were noted."""
        self._pieces.append(data)

    def flush(self) -> int:
        """Write the added bytes (to the page cache). Return how many they are."""
        data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        if data:
            pieces.write(self._log, data, self._written_bytes)
            self._written_bytes += len(data)
            self.bytes_written += len(data)
        return len(data)

    def split(self, base_offset: int) -> None:
        """Continue in a new segment. All that was noted must have been added."""
        self._complete()
        self._begin(base_offset)

    def finish(self, modified_ms: int) -> tuple[int, ...]:
        """Complete the files, with the modification time of the files they replace. Return the base offsets of the
        segments."""
        self._complete()
        for base_offset in self.base_offsets:
            for suffix in (names.LOG, names.OFFSET_INDEX, names.TIME_INDEX):
                self._disk.set_modified(f"{self._path}/{base_offset:020d}{suffix}{names.CLEANED}", modified_ms)
        self._disk.synchronize_directory(self._path)
        return tuple(self.base_offsets)

    def _complete(self) -> None:
        self.flush()
        if self._max_timestamp > NO_TIMESTAMP:
            self._time_index.append_if_later(self._max_timestamp, self._max_offset)
        self._time_index.flush()
        self._offset_index.flush()
        files = [self._log, self._offset_index.file, self._time_index.file]
        if self.transaction_index.file is not None:
            files.append(self.transaction_index.file)
        for file in files:
            file.fsync()
            file.release()
