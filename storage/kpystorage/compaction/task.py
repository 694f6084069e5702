"""What a cleaner is told and what it tells: all that passes between the owner of a log and whoever compacts it.

The owner names segments that nobody writes to any more. The cleaner reads them and leaves groups of new segments beside
them, with the suffix ``.cleaned``, complete and durable; it renames and removes nothing. The owner swaps each group in
as it comes. So a cleaner may be stopped at any moment: what it left goes at the next start or the next attempt.

Everything here is plain data that may cross a process boundary. Offsets are half-open ranges, times milliseconds.
"""

from errno import EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC
from traceback import format_exception
from typing import NamedTuple

from kpystorage.errors import StorageError
from kpystorage.log_config import LogConfig

ENTRY_BYTES = 24
"""What a key takes in an offset map: 16 bytes of its MD5 and 8 of its newest offset (Kafka's SkimpyOffsetMap)."""
_NO_LIMIT = float("inf")
_SCARCE = (EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC)
"""Errors of a system that is short of something. They say nothing about the disk."""


class CleanerConfig(NamedTuple):
    """What one cleaner may use: ``log.cleaner.dedupe.buffer.size`` and what belongs to it, divided by the threads."""

    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 256 << 10
    max_io_bytes_per_second: float = _NO_LIMIT
    """Of reading and writing together (``log.cleaner.io.max.bytes.per.second``)."""

    @property
    def keys_at_most(self) -> int:
        """How many keys one pass holds; what is newer than the last of them waits for the next pass."""
        return int(self.dedupe_buffer_bytes / ENTRY_BYTES * self.load_factor)


class LastRecord(NamedTuple):
    """The newest record of a producer that is still known: its batch stays, be it empty, so that sequences go on.

    ``last_data_offset`` is None where only markers are left of the producer; its newest marker stays then
    (Kafka's LastRecord).
    """

    last_data_offset: int | None
    producer_epoch: int


class LogToClean(NamedTuple):
    """One pass over one log.

    ``base_offsets`` are of all segments that hold anything below ``first_uncleanable_offset``, ascending, never the
    active one. ``[first_dirty_offset, first_uncleanable_offset)`` is what has not been compacted before.
    """

    path: str
    """The directory of the partition."""
    name: str
    """``topic-partition``."""
    base_offsets: tuple[int, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    last_records: dict[int, LastRecord]
    """By producer id: the producers that have not expired (Kafka's lastRecordsOfActiveProducers)."""
    config: LogConfig


class CleanedSegments(NamedTuple):
    """Segments that stand, with the suffix ``.cleaned``, for the ones they replace, in offsets and in records.

    Both ascend and begin with the same offset; a segment of which nothing was left is there and empty.
    """

    replaced: tuple[int, ...]
    base_offsets: tuple[int, ...]


class CleanerStats(NamedTuple):
    """What a pass did (Kafka's CleanerStats), for the log and the metrics."""

    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    messages_read: int = 0
    bytes_written: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records without a key in a compacted log: they go."""
    map_utilization: float = 0.0
    elapsed_ms: float = 0.0


class Cleaned(NamedTuple):
    """The end of a pass: everything below ``end_offset`` has been compacted once its groups are swapped in."""

    end_offset: int
    stats: CleanerStats


class Failed(NamedTuple):
    """The end of a pass that could not go on; groups that were told of before may still be swapped in."""

    line: str
    """What was wrong, for the log."""
    errno: int | None = None
    """Of the operating system, if a file could not be read or written."""
    trace: str = ""
    """Where, if it is not the files' fault but ours."""
    may_pass: bool = False
    """Whether another attempt, later, may come to its end: it is nothing about this log."""

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """What a cleaner raised."""
        line = f"{type(error).__name__}: {error}"
        if isinstance(error, OSError):
            return cls(line, error.errno or EIO, may_pass=error.errno in _SCARCE)
        if isinstance(error, MemoryError):
            return cls("there is not enough memory", may_pass=True)
        return cls(line, trace="" if isinstance(error, StorageError) else "".join(format_exception(error)))
