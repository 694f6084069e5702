"""A cleaner's task and its answers: everything that passes between the owner of a log and the cleaner that compacts it.

The owner names segments that are no longer written to. The cleaner reads them and leaves groups of new segments beside
them, with the suffix ``.cleaned``, complete and durable; it renames and removes nothing. The owner swaps each group in
as it comes. So a cleaner may be stopped at any moment: the files it left are removed at the next start or the next
attempt.

Everything here is plain data that may cross a process boundary. Offsets are half-open ranges, times milliseconds.
"""

from errno import EDQUOT, EIO, EMFILE, ENFILE, ENOMEM, ENOSPC
from traceback import format_exception
from typing import NamedTuple

from kpystorage.disk_errors import what_happened
from kpystorage.errors import StorageError
from kpystorage.log_config import LogConfig

ENTRY_BYTES = 24
"""Bytes that a key takes in an offset map: 16 bytes of its MD5 and 8 of its newest offset (Kafka's SkimpyOffsetMap)."""
_NO_LIMIT = float("inf")
UNBOUNDED = (1 << 63) - 1
_SCARCE = (EDQUOT, EMFILE, ENFILE, ENOMEM, ENOSPC)
"""Errors that mean that the system is short of a resource. They say nothing about the disk."""


class CleanerConfig(NamedTuple):
    """The resources of one cleaner: ``log.cleaner.dedupe.buffer.size`` and related configs, divided by the threads."""

    dedupe_buffer_bytes: int = 128 << 20
    load_factor: float = 0.9
    io_buffer_bytes: int = 256 << 10
    max_io_bytes_per_second: float = _NO_LIMIT
    """The limit for reading and writing together (``log.cleaner.io.max.bytes.per.second``)."""

    @property
    def keys_at_most(self) -> int:
        """The number of keys that one pass holds. Records behind the last of them wait for the next pass."""
        return int(self.dedupe_buffer_bytes / ENTRY_BYTES * self.load_factor)


class LastRecord(NamedTuple):
    """The newest record of a producer that is still known. Its batch stays, even if empty, so that sequences continue.

    ``last_data_offset`` is None where only markers are left of the producer; its newest marker stays then
    (Kafka's LastRecord).
    """

    last_data_offset: int | None
    producer_epoch: int


class LogToClean(NamedTuple):
    """The task of one pass over one log.

    ``base_offsets`` are those of all segments that hold anything below ``first_uncleanable_offset``, ascending, never
    the active one. ``[first_dirty_offset, first_uncleanable_offset)`` has not been compacted before.
    """

    path: str
    """The directory of the partition."""
    name: str
    """``topic-partition``."""
    base_offsets: tuple[int, ...]
    first_dirty_offset: int
    first_uncleanable_offset: int
    high_watermark: int
    """The batch that ends here stays, even if empty, so that those who read from here on find where they are."""
    last_records: dict[int, LastRecord]
    """The producers that have not expired, by id (Kafka's lastRecordsOfActiveProducers)."""
    config: LogConfig
    droppable_until: int = UNBOUNDED
    """No tombstone or marker of a batch that reaches this offset is dropped, and its delete horizon begins again: older
    records of the same key or transaction may be where this pass does not see them, or sees them for the first time."""


class CleanedSegments(NamedTuple):
    """Segments with the suffix ``.cleaned`` that replace others, in offsets and in records.

    Both ascend and begin with the same offset; a segment with no records left is there and empty.
    """

    replaced: tuple[int, ...]
    base_offsets: tuple[int, ...]


class CleanerStats(NamedTuple):
    """The statistics of a pass (Kafka's CleanerStats), for the log and the metrics."""

    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    messages_read: int = 0
    bytes_written: int = 0
    messages_written: int = 0
    invalid_messages_read: int = 0
    """Records without a key in a compacted log: they are removed."""
    map_utilization: float = 0.0
    elapsed_ms: float = 0.0


class Cleaned(NamedTuple):
    """The end of a pass: everything below ``end_offset`` has been compacted once its groups are swapped in."""

    end_offset: int
    stats: CleanerStats


class PassFailed(NamedTuple):
    """The end of a pass that could not continue. Groups that were sent before may still be swapped in."""

    line: str
    """The description of the error, for the log."""
    errno: int | None = None
    """The number of the operating system's error, if a file could not be read or written."""
    trace: str = ""
    """The traceback, if the fault is in the code and not in the files."""
    may_pass: bool = False
    """Whether a later attempt may complete: the error is not about this log."""

    @classmethod
    def of(cls, error: Exception) -> "PassFailed":
        """The answer for an exception that a cleaner raised."""
        if isinstance(error, OSError):
            return cls(what_happened(error), error.errno or EIO, may_pass=error.errno in _SCARCE)
        if isinstance(error, MemoryError):
            return cls("there is not enough memory", may_pass=True)
        line = f"{type(error).__name__}: {error}"
        return cls(line, trace="" if isinstance(error, StorageError) else "".join(format_exception(error)))
