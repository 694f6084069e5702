"""Random logs to compact: keys, tombstones, producers of every kind, transactions, codecs, times, passes in between.

What a history has is drawn by a seed and said by a `Shape`, so that one that fails can be run again alone.
"""

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from random import Random
from typing import NamedTuple

from log_making import NOW_MS, TOPIC_ID, append, headers_of, make_marker, open_directory

from kpystorage.compaction.cleaner import clean
from kpystorage.compaction.swap import swap_in
from kpystorage.compaction.task import Cleaned, CleanedSegments, CleanerConfig, LastRecord, LogToClean
from kpystorage.disk import Disk
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpywire.batch import LOG_APPEND_TIME
from kpywire.record import Record, build_batch

DELETE_RETENTION_MS = 5000


class Shape(NamedTuple):
    """The ingredients of a history."""

    keys: int = 20
    codecs: tuple[int, ...] = (0,)
    transactions: float = 0.3
    """The share of batches that belong to one; markers come on top."""
    idempotent: float = 0.3
    tombstones: float = 0.2
    keyless: float = 0.02
    append_time: float = 0.1
    segment_bytes: int = 3000
    segment_index_bytes: int = 1000
    map_keys: int = 1000
    """How many a map holds at most: few of them make several passes."""
    buffer_bytes: int = 600
    is_cleanable_amid_segments: bool = False
    """Whether a pass ends at the last stable offset exactly, or where the segment that holds it begins."""
    is_followed_late: bool = False
    """Whether followers have only what is in sealed segments."""


class History:
    """A log that grows and is compacted."""

    def __init__(self, disk: Disk, path: Path | str, seed: int, shape: Shape) -> None:
        self.disk = disk
        self.path = str(path)
        self.rng = Random(seed)
        self.shape = shape
        self.now_ms = NOW_MS
        self.config = LogConfig(
            segment_bytes=shape.segment_bytes,
            segment_index_bytes=shape.segment_index_bytes,
            index_interval_bytes=200,
            delete_retention_ms=DELETE_RETENTION_MS,
            cleanup_compact=True,
            cleanup_delete=False,
        )
        self.directory = open_directory(disk, self.path)
        self.log: Log = self.directory.create_log("t", 0, TOPIC_ID, self.config, self.now_ms)
        self.sequences: dict[int, int] = {}
        self.epochs: dict[int, int] = {}
        self.in_transaction: set[int] = set()
        self.first_dirty_offset = 0
        self.written: list[bytes] = []
        """Every batch that was ever appended."""

    def grow(self, count: int) -> None:
        """Append batches, some of them together, while time goes on."""
        for _ in range(count):
            self.now_ms += self.rng.randint(0, 300)
            batches: list[bytes] = []
            offset = self.log.end.offset
            for _ in range(self.rng.choice([1, 1, 2])):
                batches.append(self._batch(offset))
                offset = headers_of(batches[-1])[0].next_offset
            append(self.log, *batches, now_ms=self.now_ms)
            self.written += batches

    def end_transactions(self) -> None:
        """Commit or abort what is open."""
        for producer in sorted(self.in_transaction):
            marker = self._marker(self.log.end.offset, producer)
            append(self.log, marker, now_ms=self.now_ms)
            self.written.append(marker)

    def _batch(self, offset: int) -> bytes:
        rng, shape = self.rng, self.shape
        if self.in_transaction and rng.random() < 0.2:
            return self._marker(offset, rng.choice(sorted(self.in_transaction)))
        kind = rng.random()
        producer = -1
        if kind < shape.transactions:
            producer = rng.choice([10, 11, 12])
            if producer not in self.in_transaction and rng.random() < 0.1:
                self._next_epoch(producer)
            self.in_transaction.add(producer)
        elif kind < shape.transactions + shape.idempotent:
            producer = rng.choice([1, 2, 3])
            if rng.random() < 0.05:
                self._next_epoch(producer)
        append_time = rng.random() < shape.append_time
        records = [self._record() for _ in range(rng.randint(1, 6))]
        sequence = self.sequences.get(producer, 0)
        self.sequences[producer] = sequence + len(records)
        return build_batch(
            records,
            base_offset=offset,
            codec=rng.choice(shape.codecs),
            partition_leader_epoch=0,
            timestamp_type=LOG_APPEND_TIME if append_time else 0,
            log_append_time_ms=self.now_ms,
            producer_id=producer,
            producer_epoch=self.epochs.get(producer, 0) if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=producer >= 10,
        )

    def _next_epoch(self, producer: int) -> None:
        self.epochs[producer] = self.epochs.get(producer, 0) + 1
        self.sequences[producer] = 0

    def _record(self) -> Record:
        rng, shape = self.rng, self.shape
        key = None if rng.random() < shape.keyless else b"k%d" % int(shape.keys * rng.random() ** 2)
        size = rng.choice([0, 3, 20, 60, 60, 130, 300])
        value = None if rng.random() < shape.tombstones else rng.randbytes(2).hex().encode() * (size // 4)
        headers = (("name", b"x"), ("null", None)) if rng.random() < 0.1 else ()
        return Record(timestamp=self.now_ms - rng.randint(0, 200), key=key, value=value, headers=headers)

    def _marker(self, offset: int, producer: int) -> bytes:
        self.in_transaction.discard(producer)
        commit = self.rng.random() < 0.5
        epoch = self.epochs.get(producer, 0)
        return make_marker(offset, producer, commit=commit, producer_epoch=epoch, timestamp=self.now_ms)

    # Compacting.

    def close(self) -> None:
        """Complete all files."""
        self.directory.close()

    def open(self) -> None:
        """Go on after :meth:`close`."""
        self.directory = open_directory(self.disk, self.path, config=self.config)
        self.log = self.directory.logs["t", 0].open()

    def task(self) -> LogToClean:
        """The task that a pass would be given now."""
        log = self.log
        high_watermark = log.active.base_offset if self.shape.is_followed_late else log.end.offset
        log.producers.replicated_to(high_watermark)
        unstable = log.producers.first_unstable
        limit = min(unstable.offset if unstable else log.end.offset, log.active.base_offset)
        bases = [segment.base_offset for segment in log.segments[:-1]]
        if not self.shape.is_cleanable_amid_segments:
            limit = max([base for base in [*bases, log.active.base_offset] if base <= limit], default=0)
        return LogToClean(
            path=log.path,
            name=log.name,
            base_offsets=tuple(base for base in bases if base < limit),
            first_dirty_offset=self.first_dirty_offset,
            first_uncleanable_offset=limit,
            high_watermark=high_watermark,
            last_records={
                producer_id: LastRecord(state.batches[-1].last_offset if state.batches else None, state.epoch)
                for producer_id, state in log.producers.producers.items()
            },
            config=self.config,
        )

    @property
    def cleaner(self) -> CleanerConfig:
        return CleanerConfig(
            dedupe_buffer_bytes=24 * self.shape.map_keys, load_factor=0.9, io_buffer_bytes=self.shape.buffer_bytes
        )

    def compact(self, task: LogToClean | None = None) -> Cleaned:
        """One pass, and what it made is swapped in."""
        groups, cleaned = pass_over(self.disk, task or self.task(), self.cleaner, self.now_ms)
        for group in groups:
            swap_in(self.log, group, self.now_ms)
        self.first_dirty_offset = cleaned.end_offset
        return cleaned


def unthrottled(size_bytes: int) -> None:
    """Wait for nothing."""


def pass_over(
    disk: Disk, task: LogToClean, config: CleanerConfig, now_ms: int, throttle: Callable[[int], None] = unthrottled
) -> tuple[list[CleanedSegments], Cleaned]:
    """All that a pass yields, and its end."""
    groups = []
    cleaning = clean(disk, task, config, now_ms, throttle)
    while True:
        try:
            groups.append(next(cleaning))
        except StopIteration as ended:
            return groups, ended.value


def newest(records: Iterable[Record]) -> Mapping[bytes | None, Record]:
    """The last record of every key; a tombstone takes its key away."""
    found: dict[bytes | None, Record] = {}
    for record in records:
        if record.value is None:
            found.pop(record.key, None)
        elif record.key is not None:
            found[record.key] = record._replace(sequence=-1)
    return found
