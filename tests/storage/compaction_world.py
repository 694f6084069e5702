"""One log that is written, compacted pass by pass and swapped, on a disk that dies at some call; what must hold then.

The model has every record that was appended, at its offset. A reader of committed records has to find of every key what
the newest of its records says, whatever was compacted away and wherever the power went.
"""

from collections.abc import Iterable
from random import Random

from crashing import blank_disk
from log_making import NOW_MS, PATH, TOPIC_ID, append, make_marker, open_directory

from kpystorage import names
from kpystorage.compaction.cleaner import clean
from kpystorage.compaction.dirtiness import LogBounds, measure
from kpystorage.compaction.swap import swap_in
from kpystorage.compaction.task import CleanerConfig, LogToClean
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.recovery import Shutdown
from kpystorage.scan import batches
from kpystorage.sim_disk import SimDisk
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.record import Record, build_batch, read_records

CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=200,
    cleanup_delete=False,
    cleanup_compact=True,
    delete_retention_ms=0,
    retention_ms=-1,
)
SMALL_MAP = CleanerConfig(dedupe_buffer_bytes=24 * 10, io_buffer_bytes=4096)
LARGE_MAP = CleanerConfig(dedupe_buffer_bytes=1 << 16, io_buffer_bytes=4096)
KEYS = 7


class Written:
    """One batch of the model."""

    def __init__(self, offset: int, records: list[tuple[bytes, bytes | None]], producer_id: int, marker: str) -> None:
        self.offset = offset
        self.records = records
        self.producer_id = producer_id
        self.marker = marker


class CompactionWorld:
    """The workload; ``run`` goes on until the disk dies or the operations are over."""

    def __init__(self, seed: int, operations: int = 16) -> None:
        self.rng = Random(seed)
        self.operations = operations
        self.disk = blank_disk(seed + 1, PATH)
        self.history: list[Written] = []
        self.promised_end = 0
        self.acknowledged_end = 0
        self.gone: set[int] = set()
        """Offsets that a swap has taken away for good."""
        self.now_ms = NOW_MS
        self.sequences: dict[int, int] = {}
        self.passes = 0
        self.directory: LogDirectory

    def run(self) -> None:
        """Write and compact, in turns."""
        self.directory = open_directory(self.disk, config=CONFIG)
        log = self.directory.create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS)
        for _ in range(self.operations):
            choice = self.rng.random()
            if choice < 0.65:
                self._append_some(log)
            elif choice < 0.8:
                log.flush()
                self.promised_end = log.end.offset
            else:
                self.compact(log)
        self.compact(log)

    # Writing

    def _append_some(self, log: Log) -> None:
        producer_id = self.rng.choice([-1, -1, 7])
        for _ in range(self.rng.randint(1, 4)):
            self._append(log, producer_id)
        if producer_id >= 0:
            commit = self.rng.random() < 0.5
            offset = log.end.offset
            self.history.append(Written(offset, [], producer_id, "commit" if commit else "abort"))
            append(log, make_marker(offset, producer_id, commit=commit, timestamp=self.now_ms))
        self.acknowledged_end = log.end.offset

    def _append(self, log: Log, producer_id: int) -> None:
        offset = log.end.offset
        records = []
        for number in range(self.rng.randint(1, 3)):
            key = b"key %d" % self.rng.randrange(KEYS)
            value = None if self.rng.random() < 0.3 else b"%d %d" % (offset, number) + b"." * self.rng.randint(0, 150)
            records.append((key, value))
        self.history.append(Written(offset, records, producer_id, ""))
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + len(records)
        append(
            log,
            build_batch(
                [Record(timestamp=self.now_ms, key=key, value=value) for key, value in records],
                base_offset=offset,
                partition_leader_epoch=0,
                producer_id=producer_id,
                producer_epoch=0 if producer_id >= 0 else -1,
                base_sequence=sequence if producer_id >= 0 else -1,
                transactional=producer_id >= 0,
            ),
        )

    # Compacting, as the broker does it

    def compact(self, log: Log) -> None:
        """One pass over everything that is not written to any more."""
        self.now_ms += 10
        key = ("t", 0)
        log.producers.replicated_to(log.end.offset)
        bounds = LogBounds(log.log_start_offset, log.end.offset, log.last_stable_offset(log.end).offset)
        dirt = measure(log.segments, bounds, self.directory.cleaner_offsets.get(key), CONFIG, self.now_ms)
        if not dirt.cleanable_bytes:
            return
        self.passes += 1
        log.flush()
        self.promised_end = log.end.offset
        self.directory.write_checkpoint(names.RECOVERY_POINTS, self.directory.render_recovery_points())
        self.directory.noted()
        task = LogToClean(
            log.path, log.name, tuple(base for base in log.base_offsets if base < dirt.first_uncleanable_offset),
            dirt.first_dirty_offset, dirt.first_uncleanable_offset, log.end.offset, {}, CONFIG,
        )  # fmt: skip
        cleaning = clean(self.disk, task, self.rng.choice([SMALL_MAP, LARGE_MAP]), self.now_ms, lambda _size: None)
        try:
            while True:
                group = next(cleaning)
                with self.directory.failing():
                    swap_in(log, group, self.now_ms)
                    self.disk.synchronize_directory(log.path)
                first, last = group.replaced[0], self._following(log, group.replaced[-1])
                there = {record.offset for record in records_of(log)}
                self.gone |= {offset for offset in self._offsets() if first <= offset < last} - there
        except StopIteration as ended:
            self.directory.cleaner_offsets[key] = ended.value.end_offset
            self.directory.write_checkpoint(names.CLEANER_OFFSETS, self.directory.render_cleaner_offsets())
            self.directory.noted()

    def _following(self, log: Log, base_offset: int) -> int:
        return min([base for base in log.base_offsets if base > base_offset])

    def _offsets(self) -> Iterable[int]:
        return (batch.offset + number for batch in self.history for number in range(len(batch.records)))

    # What must be true

    def check(self, log: Log, kept_end: int) -> None:
        """Hold what a reader finds against the model."""
        end = log.end.offset
        assert end >= kept_end, f"the log ends at {end}, kept must be all below {kept_end}"
        written = {
            batch.offset + number: (key, value)
            for batch in self.history
            for number, (key, value) in enumerate(batch.records)
        }
        offsets = [record.offset for record in records_of(log)]
        assert offsets == sorted(set(offsets)), "segments overlap"
        for record in records_of(log):
            assert written[record.offset] == (record.key, record.value), f"nobody wrote what is at {record.offset}"
            assert record.offset not in self.gone, f"the record at {record.offset} came back"
        found, expected = newest(committed(log)), newest(self._committed_below(end))
        assert found == expected, f"{found} below {end}, expected {expected}"

    def _committed_below(self, end: int) -> list[tuple[bytes, bytes | None]]:
        found: list[tuple[bytes, bytes | None]] = []
        open_records: list[tuple[bytes, bytes | None]] = []
        for batch in self.history:
            if batch.offset + max(len(batch.records), 1) > end:
                break
            if batch.marker:
                found += open_records if batch.marker == "commit" else []
                open_records = []
            elif batch.producer_id >= 0:
                open_records += batch.records
            else:
                found += batch.records
        return found


def newest(records: Iterable[tuple[bytes, bytes | None]]) -> dict[bytes, bytes]:
    """The newest record of each key; nothing of keys that are deleted."""
    return {key: value for key, value in dict(records).items() if value is not None}


def records_of(log: Log) -> list[Record]:
    """All records in the files, without markers."""
    return [
        record
        for segment in log.segments
        for _, header, data in batches(segment.log, 0, segment.size)
        if not header.is_control
        for record in read_records(data)
    ]


def committed(log: Log) -> list[tuple[bytes, bytes | None]]:
    """(key, value) of what a consumer of committed records gets, which takes aborted transactions as listed."""
    log.producers.replicated_to(log.end.offset)
    stable = log.last_stable_offset(log.end).offset
    waiting = sorted(log.aborted_transactions(log.log_start_offset, stable), key=lambda each: each.first_offset)
    aborted: dict[int, TransactionIndexEntry] = {}
    found: list[tuple[bytes, bytes | None]] = []
    for segment in log.segments:
        for _, header, data in batches(segment.log, 0, segment.size):
            if header.base_offset >= stable:
                return found
            while waiting and waiting[0].first_offset <= header.last_offset:
                first = waiting.pop(0)
                aborted[first.producer_id] = first
            if header.is_control:
                if header.producer_id in aborted and is_abort(data):
                    del aborted[header.producer_id]
            elif header.producer_id not in aborted:
                found += [(record.key or b"", record.value) for record in read_records(data)]
    return found


def is_abort(data: memoryview) -> bool:
    """Whether a control batch ends a transaction without effect; one that was emptied says nothing."""
    records = list(read_records(data))
    return bool(records) and records[0].key is not None and records[0].key[2:4] == b"\0\0"


def reopened(world: CompactionWorld, disk: SimDisk, shutdown: Shutdown) -> Log | None:
    """The log after a crash, if there was one yet."""
    directory = open_directory(disk, config=CONFIG)
    world.disk, world.directory = disk, directory
    assert directory.shutdown in (shutdown, Shutdown.CLEAN, Shutdown.UNCLEAN)
    return directory.logs["t", 0].open() if ("t", 0) in directory.logs else None
