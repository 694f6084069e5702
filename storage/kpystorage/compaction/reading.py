"""The segments that a cleaner reads: their batches in windows of many, and the transactions that were aborted in them.

A `BatchSource` may be anywhere; `SegmentSource` and `AbortedTransactions` read files in a log's directory. Nothing is
written here, and no index is mended: the log has an owner, perhaps in another process. Anything but a whole
batch of format v2 is an error here, since leaving it out would lose it.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from struct import Struct
from typing import Protocol

from kpystorage import names, scan
from kpystorage.compaction import pieces
from kpystorage.compaction.grouping import SegmentSizes
from kpystorage.disk import Disk
from kpystorage.errors import CorruptRecord
from kpystorage.file import File
from kpystorage.offset_index import position_near
from kpystorage.transaction_index import TransactionIndex, TransactionIndexEntry
from kpywire.batch import HEADER_BYTES, LENGTH_END, MAGIC, MAGIC_POSITION

_LENGTH = Struct(">i")
_LENGTH_POSITION = 8


class SegmentWalk(Protocol):
    """A walk through the batches of segments."""

    @property
    def is_done(self) -> bool:
        """Whether it needs no more batches."""

    def take(self, data: bytes) -> int:
        """Go through all whole batches at the beginning of ``data``. Return how many bytes those are."""


class BatchSource(ABC):
    """A segment that is compacted."""

    __slots__ = ("base_offset", "modified_ms", "path", "sizes")

    def __init__(self, path: str, sizes: SegmentSizes, modified_ms: int) -> None:
        """``path`` is its name for people."""
        self.base_offset = sizes.base_offset
        self.path = path
        self.sizes = sizes
        self.modified_ms = modified_ms

    @abstractmethod
    def read(self, length: int, position: int) -> bytes:
        """``length`` bytes from ``position`` on."""

    @abstractmethod
    def position_of(self, offset: int) -> int:
        """The position of a batch at or before ``offset``."""

    @abstractmethod
    def next_offset(self) -> int:
        """The offset behind the last batch, or behind the segment."""

    @abstractmethod
    def release(self) -> None:
        """Give back what reading has taken."""

    def windows(self, position: int, window_bytes: int, walk: SegmentWalk) -> Iterator[int]:
        """Let a walk take the batches from ``position`` on, many at a time. Yields how many bytes it took each time.

        Raises:
            CorruptRecord: some bytes are not a batch, or it ends behind the file.
            Malformed: as the walk.
        """
        end = self.sizes.log
        while position < end and not walk.is_done:
            data = self.read(min(window_bytes, end - position), position)
            taken = walk.take(data)
            if taken == 0:
                taken = walk.take(self._first_whole(data, position))
            if taken == 0:
                raise self.corrupt(position, "no batch of format v2")
            position += taken
            yield taken

    def _first_whole(self, data: bytes, position: int) -> bytes:
        """The batch at ``position``, of which ``data`` is the beginning: it is larger than a window."""
        if len(data) < HEADER_BYTES:
            raise self.corrupt(position, f"{len(data)} bytes are too few for a batch")
        size = int(_LENGTH.unpack_from(data, _LENGTH_POSITION)[0]) + LENGTH_END
        if not HEADER_BYTES <= size <= self.sizes.log - position or data[MAGIC_POSITION] != MAGIC:
            raise self.corrupt(position, "no whole batch of format v2")
        return self.read(size, position)

    def corrupt(self, position: int, why: object) -> CorruptRecord:
        """The exception to raise for the bytes at ``position``."""
        return CorruptRecord(f"{self.path}, byte {position}: {why}")


class SegmentSource(BatchSource):
    """A segment on a disk."""

    __slots__ = ("_disk", "_stem", "log")

    def __init__(self, disk: Disk, directory: str, base_offset: int) -> None:
        """Open the source. OSError: one of its files is not there."""
        self._disk = disk
        self._stem = f"{directory}/{base_offset:020d}"
        path = self._stem + names.LOG
        self.log: File = disk.file(path)
        status = disk.status(path)
        if status is None:
            raise FileNotFoundError(path)
        sizes = SegmentSizes(
            base_offset, status.size, self._size_of(names.OFFSET_INDEX), self._size_of(names.TIME_INDEX)
        )
        super().__init__(path, sizes, status.modified_ns // 1_000_000)

    def _size_of(self, suffix: str) -> int:
        status = self._disk.status(self._stem + suffix)
        return status.size if status is not None else 0

    def read(self, length: int, position: int) -> bytes:
        return pieces.read(self.log, length, position)

    def release(self) -> None:
        self.log.release()

    def position_of(self, offset: int) -> int:
        """The position of a batch at or before ``offset``, according to the index; 0 if it has none."""
        if not self.sizes.offset_index or offset <= self.base_offset:
            return 0
        index = self._disk.file(self._stem + names.OFFSET_INDEX)
        return position_near(index, self.log, self.sizes.log, self.base_offset, offset)

    def next_offset(self) -> int:
        """The offset behind the last batch."""
        following = self.base_offset
        for _, header in scan.headers(self.log, self.position_of(1 << 62), self.sizes.log):
            following = header.next_offset
        return following


class AbortedSource(Protocol):
    """The transactions that were aborted."""

    def between(self, base_offset: int, offset: int, end_offset: int) -> list[TransactionIndexEntry]:
        """The aborted transactions that reach into ``offset .. end_offset``. ``base_offset`` is that of the segment
        ``offset`` lies in."""


class AbortedTransactions:
    """The transaction indexes of a log, also of segments that are not compacted: a transaction that began earlier may
    end there."""

    def __init__(self, disk: Disk, directory: str) -> None:
        """OSError."""
        parsed = [names.parse_segment_file(name) for name in disk.list_directory(directory)]
        bases = sorted(found[0] for found in parsed if found is not None and found[1] == names.TRANSACTION_INDEX)
        self._indexes = [
            (
                base,
                TransactionIndex(disk, f"{directory}/{names.segment_file(base, names.TRANSACTION_INDEX)}", exists=True),
            )
            for base in bases
        ]

    def between(self, base_offset: int, offset: int, end_offset: int) -> list[TransactionIndexEntry]:
        """The aborted transactions that reach into ``offset .. end_offset``. ``base_offset`` is that of the segment
        ``offset`` lies in.

        CorruptFile, OSError.
        """
        found: list[TransactionIndexEntry] = []
        for base, index in self._indexes:
            if base < base_offset:
                continue
            overlapping, complete = index.overlapping(offset, end_offset)
            found += overlapping
            if index.file is not None:
                index.file.release()
            if complete:
                break
        return found
