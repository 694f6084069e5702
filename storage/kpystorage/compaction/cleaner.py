"""One pass of compaction over one log (Kafka's Cleaner): new segments beside the old ones, with the records that stay.

First a map is filled with the newest offset of every key, as many as fit; then all segments up to there are read again
and written without the superseded records. A pass needs only the files and its ``LogToClean``, so it may run in a
process of its own. It changes only files with the suffix ``.cleaned``.

Invariant: a reader of the new segments finds the same newest value of every key as a reader of the old ones.
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from time import monotonic
from typing import NamedTuple

from kpystorage.compaction.filtering import CompactionFilter
from kpystorage.compaction.grouping import group_by_size
from kpystorage.compaction.mapping import Mapping
from kpystorage.compaction.marks import Marks
from kpystorage.compaction.offset_map import OffsetMap
from kpystorage.compaction.reading import (
    AbortedSource,
    AbortedTransactions,
    BatchSource,
    SegmentSource,
    SegmentWalk,
)
from kpystorage.compaction.task import (
    ENTRY_BYTES,
    UNBOUNDED,
    Cleaned,
    CleanedSegments,
    CleanerConfig,
    CleanerStats,
    LogToClean,
)
from kpystorage.compaction.transactions import CleanedTransactions
from kpystorage.compaction.writing import CleanedFiles
from kpystorage.disk import Disk
from kpywire.errors import Malformed

Throttle = Callable[[int], None]
_FREE_SHARE = 0.75
"""The part of a map that is filled if every dirty offset has a key of its own. A map is not made larger than that."""
_MARKED_SHARE = 4
"""The memory for marks is at most 1/4 of the map's."""


class LogSegments(NamedTuple):
    """The segments that a pass reads, in the order of their offsets, those of ``LogToClean.base_offsets``."""

    sources: Sequence[BatchSource]
    aborted: AbortedSource
    most_joined: int = UNBOUNDED
    """The largest number of segments that become one."""


def clean(
    disk: Disk, log: LogToClean, config: CleanerConfig, now_ms: int, throttle: Throttle
) -> Generator[CleanedSegments, None, Cleaned]:
    """Compact a log. Each group of segments is complete and durable when it is yielded.

    ``now_ms`` is the time by which tombstones and markers are dropped; ``throttle`` is called with the number of bytes
    each time some were read or written, and may wait. Ending the generator early leaves files that are no longer
    needed.

    Raises:
        CorruptRecord: a batch cannot be read, or is of a format before v2; nothing of its group is yielded.
        OSError
    """
    sources = [SegmentSource(disk, log.path, base_offset) for base_offset in log.base_offsets]
    segments = LogSegments(sources, AbortedTransactions(disk, log.path))
    cleaning = Cleaning(disk, log, segments, config, now_ms, throttle)
    try:
        cleaning.map_keys()
        for group in cleaning.groups():
            yield cleaning.compact(group)
        return cleaning.result()
    finally:
        cleaning.close()


class Cleaning:
    """One pass under way. The segments may be anywhere; the new ones are written to the disk, in the log's ``path``."""

    def __init__(
        self,
        disk: Disk,
        log: LogToClean,
        segments: LogSegments,
        config: CleanerConfig,
        now_ms: int,
        throttle: Throttle,
    ) -> None:
        self.disk = disk
        self.log = log
        self.config = config
        self.throttle = throttle
        self.begun = monotonic()
        self.sources, self.aborted, self.most_joined = segments
        self.slots = max(config.dedupe_buffer_bytes // ENTRY_BYTES, 1)
        dirty_offsets = max(log.first_uncleanable_offset - log.first_dirty_offset, 0)
        self.offset_map = OffsetMap(min(self.slots, int(dirty_offsets / _FREE_SHARE)) + 1)
        self.marks = Marks(log.first_dirty_offset, min(dirty_offsets, config.dedupe_buffer_bytes // _MARKED_SHARE))
        self.stats = CleanerStats()
        self.transactions = CleanedTransactions()
        self.filter = CompactionFilter(
            self.offset_map,
            self.marks,
            self.transactions,
            log,
            now_ms,
        )
        self.bytes_written = 0

    def map_keys(self) -> None:
        """Fill the map, from the first dirty segment on."""
        log, offset_map = self.log, self.offset_map
        first_offset, end_offset = log.first_dirty_offset, log.first_uncleanable_offset
        transactions = CleanedTransactions()
        bases = [source.base_offset for source in self.sources if source.base_offset <= first_offset]
        transactions.add_aborted(self.aborted.between(bases[-1] if bases else 0, first_offset, end_offset))
        most_keys = max(self.config.keys_at_most, 1)
        most_record_bytes = log.config.max_decompressed_message_bytes
        mapping = Mapping(offset_map, self.marks, most_keys, transactions, end_offset, most_record_bytes)
        bytes_read = 0
        for number, source in enumerate(self.sources):
            is_last = number + 1 == len(self.sources)
            limit = end_offset if is_last else self.sources[number + 1].base_offset
            if limit <= first_offset or source.base_offset >= end_offset:
                continue
            for taken in self._windows(source, source.position_of(first_offset), mapping):
                bytes_read += taken
                self.throttle(taken)
            if mapping.is_done:
                break
            offset_map.latest_offset = limit - 1
        self.marks.complete()
        self.stats = self.stats._replace(
            map_bytes_read=bytes_read,
            map_messages_read=mapping.messages_read,
            map_utilization=offset_map.count / self.slots,
        )

    def groups(self) -> list[list[BatchSource]]:
        """The groups of segments that each become one: those of which something was mapped now or earlier.

        The segments of a tiered log are not joined: one that a store has would be copied again with each later one."""
        by_base = {source.base_offset: source for source in self.sources}
        config = self.log.config
        groups = group_by_size(
            [source.sizes for source in self.sources if source.base_offset <= self.offset_map.latest_offset],
            0 if config.is_tiered else config.segment_bytes,
            config.segment_index_bytes,
            self.log.first_uncleanable_offset,
            self.most_joined,
        )
        return [[by_base[sizes.base_offset] for sizes in group] for group in groups]

    def compact(self, group: list[BatchSource]) -> CleanedSegments:
        """Write the remaining records of neighbouring segments."""
        files = CleanedFiles(self.disk, self.log.path, group[0].base_offset, self.log.config)
        self.filter.begin(files)
        for number, source in enumerate(group):
            following = group[number + 1].base_offset if number + 1 < len(group) else source.next_offset()
            base_offset = source.base_offset
            self.transactions.add_aborted(self.aborted.between(base_offset, base_offset, following))
            for taken in self._windows(source, 0, self.filter):
                self.throttle(taken + files.flush())
        replacing = files.finish(group[-1].modified_ms)
        self.bytes_written += files.bytes_written
        return CleanedSegments(tuple(source.base_offset for source in group), replacing)

    def _windows(self, source: BatchSource, position: int, walk: SegmentWalk) -> Iterator[int]:
        """Let a walk take a segment from ``position`` on. Yields how many bytes it took each time."""
        try:
            for taken in source.windows(position, self.config.io_buffer_bytes, walk):
                yield taken
                position += taken
        except Malformed as error:
            raise source.corrupt(position, error) from error
        finally:
            source.release()

    def result(self) -> Cleaned:
        """The result of the pass."""
        walk = self.filter
        stats = self.stats._replace(
            bytes_read=walk.bytes_read,
            messages_read=walk.messages_read,
            bytes_written=self.bytes_written,
            messages_written=walk.messages_written,
            invalid_messages_read=walk.invalid_messages_read,
            elapsed_ms=(monotonic() - self.begun) * 1000,
        )
        return Cleaned(self.end_offset, stats)

    @property
    def end_offset(self) -> int:
        """The offset up to which keys were mapped: everything below is compacted once all groups are in place."""
        return max(self.offset_map.latest_offset + 1, self.log.first_dirty_offset)

    def close(self) -> None:
        """Free the memory."""
        self.offset_map.close()
