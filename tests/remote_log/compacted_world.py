"""A compacted partition with two replicas and a store: real logs, cleaners, copies and passes, in a random order.

Records go to both replicas at once; each has a disk and a cleaner of its own, and one leads. A leader may end between
any two steps of a pass, and the replacement that it has sent may still arrive. `CompactedWorld.check` reads from the
log start to the end over store and disk, and compares the newest committed value of every key with the model's. A slow
reader does the same while everything changes, within ``delete.retention.ms``.
"""

from collections.abc import Callable, Iterable, Iterator
from random import Random
from typing import NamedTuple

from remote_log_histories import TOPIC_ID, segment_id

from kpybroker.hosts.remote_log import segment_reads, stored_cleaning
from kpybroker.hosts.remote_log.local_view import closed_segment, has_aborted_transactions, local_log
from kpybroker.hosts.remote_log.memory_store import MemoryStore
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing
from kpybroker.hosts.replicas import compaction_pass
from kpybroker.hosts.replicas.compaction_pass import last_records
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import compacting, copying
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.expiry import local_expiry, remote_expiry
from kpybroker.machines.remote_log.lineage import agrees_until, at_once, copied_until, copied_without_gap, segment_for
from kpybroker.machines.remote_log.local_log import LocalLog, TierSettings
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata
from kpybroker.machines.remote_log.segments import DELETED, DELETING, FINISHED, STARTED, Record, RemoteLogSegment
from kpystorage.compaction.cleaner import clean
from kpystorage.compaction.dirtiness import LogBounds, measure
from kpystorage.compaction.swap import swap_in
from kpystorage.compaction.task import CleanerConfig, LogToClean
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpywire.batch import parse_header
from kpywire.record import Record as LogRecord
from kpywire.record import build_batch, read_records
from tests.remote_storage.stored_segments import NO_LIMITS, chunked
from tests.storage.log_making import NOW_MS, append, make_marker, open_directory

DELETE_RETENTION_MS = 1_000
KEYS = 8
TRANSACTIONAL = 7
TIER = TierSettings(local_retention_ms=-1, local_retention_bytes=0)
CONFIG = LogConfig(
    segment_bytes=900,
    index_interval_bytes=100,
    cleanup_delete=False,
    cleanup_compact=True,
    delete_retention_ms=DELETE_RETENTION_MS,
    min_cleanable_dirty_ratio=0.0,
    retention_ms=-1,
    is_tiered=True,
)
SMALL_MAP = CleanerConfig(dedupe_buffer_bytes=24 * 5, io_buffer_bytes=2048)
LARGE_MAP = CleanerConfig(dedupe_buffer_bytes=1 << 16, io_buffer_bytes=2048)


class Written(NamedTuple):
    """A record of the model. ``number`` is that of its transaction, 0 without one."""

    key: bytes
    value: bytes | None
    number: int


class Batch(NamedTuple):
    """Records as a reader gets them, and the offset behind them."""

    records: list[LogRecord]
    next_offset: int


class CompactedWorld:
    """The partition and its surroundings."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.now_ms = NOW_MS
        self.storage = chunked(MemoryStore())
        self.metadata = RemoteLogMetadata()
        self.logs = [open_directory(config=CONFIG).create_log("t", 0, TOPIC_ID, CONFIG, NOW_MS, None) for _ in range(2)]
        self.leading, self.epoch = 0, 1
        self.written: dict[int, Written] = {}
        self.transaction = self.transactions = 0
        """The open transaction, and how many there were."""
        self.aborted: set[int] = set()
        self.sequence = 0
        self.ids = 0
        self.late: list[compacting.AppendTogether] = []
        """Replacements that a former leader sent."""
        self.counted: dict[str, int] = {}
        self.reader = SlowReader(self)
        self._lead()

    # Parts

    @property
    def log(self) -> Log:
        return self.logs[self.leading]

    @property
    def remote(self) -> RemoteSegments:
        return self.metadata.segments_of(TOPIC_ID, 0) or RemoteSegments(TOPIC_ID, "t", 0)

    def note(self, what: str) -> None:
        self.counted[what] = self.counted.get(what, 0) + 1

    def seen(self, log: Log) -> LocalLog:
        log.producers.replicated_to(log.end.offset)
        return local_log(log, Role(log, self.epoch, log.end.offset))

    @property
    def stable(self) -> int:
        return self.seen(self.log).last_stable_offset

    def _id(self) -> bytes:
        self.ids += 1
        return segment_id(self.ids)

    def _lead(self) -> None:
        limits = copying.CopySettings(self.leading, 50, retry_ms=0, max_retry_ms=0)
        self.copies = copying.SegmentCopies(TOPIC_ID, "t", 0, limits)
        seen = self.seen(self.log)
        self.copies.copied = at_once(
            copied_without_gap(
                self.remote, seen.end_offset, seen.epochs, seen.log_start_offset, seen.local_log_start_offset
            )
        )
        self.compaction = compacting.StoreCompaction(TOPIC_ID, "t", 0, limits)
        self.cleaning: stored_cleaning.StoredCleaning | None = None
        self.queue: list[compacting.Effect] = []

    # Events of the partition

    def appends(self) -> None:
        for _ in range(self.rng.randint(1, 4)):
            is_transactional = self.rng.random() < 0.3
            if is_transactional and not self.transaction:
                self.transactions += 1
                self.transaction = self.transactions
            records = [self._record() for _ in range(self.rng.randint(1, 3))]
            self._append(records, self.transaction if is_transactional else 0)
        if self.rng.random() < 0.6:
            for log in self.logs:
                if self.rng.random() < 0.7 and log.active.size:
                    log.roll(self.now_ms)

    def _record(self) -> LogRecord:
        value = None if self.rng.random() < 0.3 else b"%d" % self.rng.getrandbits(30) * self.rng.randint(1, 6)
        return LogRecord(timestamp=self.now_ms, key=b"k%d" % self.rng.randrange(KEYS), value=value)

    def _append(self, records: list[LogRecord], number: int) -> None:
        offset = self.log.end.offset
        for at, each in enumerate(records):
            self.written[offset + at] = Written(each.key or b"", each.value, number)
        batch = build_batch(
            records,
            base_offset=offset,
            partition_leader_epoch=self.epoch,
            producer_id=TRANSACTIONAL if number else -1,
            producer_epoch=0 if number else -1,
            base_sequence=self.sequence if number else -1,
            transactional=bool(number),
        )
        self.sequence += len(records) if number else 0
        for log in self.logs:
            append(log, batch, now_ms=self.now_ms)

    def ends_transaction(self) -> None:
        if self.transaction:
            commit = self.rng.random() < 0.5
            marker = make_marker(
                self.log.end.offset, TRANSACTIONAL, commit=commit, leader_epoch=self.epoch, timestamp=self.now_ms
            )
            for log in self.logs:
                append(log, marker, now_ms=self.now_ms)
            if not commit:
                self.aborted.add(self.transaction)
            self.transaction = 0

    def cleans(self) -> None:
        """The cleaner of a disk."""
        log = self.rng.choice(self.logs)
        seen, directory = self.seen(log), log.directory
        bounds = LogBounds(seen.local_log_start_offset, seen.end_offset, seen.last_stable_offset)
        dirt = measure(log.segments, bounds, directory.cleaner_offsets.get(("t", 0)), CONFIG, self.now_ms)
        if not dirt.cleanable_bytes:
            return
        bases = tuple(base for base in log.base_offsets if base < dirt.first_uncleanable_offset)
        task = LogToClean(
            log.path, log.name, bases, dirt.first_dirty_offset, dirt.first_uncleanable_offset, seen.high_watermark,
            last_records(log.producers), CONFIG, compaction_pass.droppable_until(CONFIG),
        )  # fmt: skip
        cleaning = clean(directory.disk, task, self.rng.choice((SMALL_MAP, LARGE_MAP)), self.now_ms, lambda _size: None)
        while True:
            try:
                swap_in(log, next(cleaning), self.now_ms)
            except StopIteration as ended:
                directory.cleaner_offsets["t", 0] = ended.value.end_offset
                return

    def another_leads(self) -> None:
        """The former leader ends, and what it sent may arrive later."""
        sent = [each for each in self.queue if isinstance(each, compacting.AppendTogether)]
        self.late += sent if self.rng.random() < 0.5 else []
        self._carry_out_ends([*self.queue, *self.compaction.stop()])
        self.leading, self.epoch = 1 - self.leading, self.epoch + 1
        self.note("led")
        self._lead()

    def _carry_out_ends(self, effects: Iterable[compacting.Effect]) -> None:
        for each in effects:
            if isinstance(each, compacting.EndPass) and self.cleaning is not None:
                self.cleaning.end()
                self.cleaning = None

    def time_passes(self) -> None:
        self.now_ms += self.rng.choice((1, 100, DELETE_RETENTION_MS // 2, DELETE_RETENTION_MS))

    def records_are_deleted(self) -> None:
        if self.rng.random() < 0.1:
            offset = self.rng.randint(self.log.log_start_offset, max(self.log.log_start_offset, self.stable))
            for log in self.logs:
                if log.local_log_start_offset <= log.end.offset:
                    log.advance_log_start(offset)

    # Events of the store

    def copies_one(self) -> None:
        seen = self.seen(self.log)
        effects = self.copies.begin(
            seen, TIER, segment_id=self._id(), now_ms=0, wall_ms=self.now_ms, is_transaction_index_empty=False
        )
        for _ in range(3):
            for effect in effects:
                if self.rng.random() < 0.03:
                    self.another_leads()
                    return
                effects = self._copy_step(effect)
                break

    def _copy_step(self, effect: copying.Effect) -> list[copying.Effect]:
        if isinstance(effect, copying.AppendRecord):
            record = effect.record
            assert isinstance(record, RemoteLogSegment) or record.state is FINISHED  # type: ignore[union-attr]
            self._apply(record)
            return self.copies.committed(record)  # type: ignore[arg-type]
        assert isinstance(effect, copying.CopyObjects)
        segment = effect.segment
        clean_until = self.log.directory.cleaner_offsets.get(("t", 0), 0)
        assert segment.next_offset <= clean_until, "the cleaner has not passed what is copied"
        closed = closed_segment(self.log, segment.start_offset)
        assert closed.next_offset == segment.next_offset
        if not has_aborted_transactions(self.log, segment.start_offset):
            self.note("without aborted")
        custom = self.storage.copy(segment, closed.files(), NO_LIMITS)
        self.note("copied")
        return self.copies.objects_written(segment.id.segment_id, custom, 0, self.now_ms)

    def leaves_the_disk(self) -> None:
        log = self.rng.choice(self.logs)
        found = local_expiry(self.seen(log), self.remote, TIER, self.now_ms)
        gone = self.rng.randint(0, len(found.segments))
        if gone:
            log.flush()
            log.delete_oldest(gone, self.now_ms)
            self.note("left the disk")

    def compacts(self) -> None:
        if self.queue or self.cleaning is not None or not self.compaction.may_begin(0):
            return
        dirt = compacting.dirt_of(at_once(compacting.stored_parts(self.remote, self.seen(self.log))))
        if not dirt.is_worth_it(self.rng.choice((0.0, 0.3)), 1 << 60, self.now_ms):
            return
        log = self.log
        task = stored_cleaning.task_of(log, f"{log.directory.path}/t-0.pass", dirt, log.end.offset)
        task = task._replace(config=task.config._replace(segment_bytes=self.rng.choice((900, 3_000))))
        aborted = log.aborted_transactions(dirt.parts[0].start, dirt.end_offset)
        config = self.rng.choice((SMALL_MAP, LARGE_MAP))
        disk = log.directory.disk
        self.cleaning = stored_cleaning.StoredCleaning(
            self.storage, disk, task, dirt.parts, aborted, config, self.now_ms
        )
        self.queue = self.compaction.begin()

    def works(self) -> None:
        """Carry out the next step of a pass."""
        if self.queue:
            self.queue += self._step(self.queue.pop(0))

    def _step(self, effect: compacting.Effect) -> list[compacting.Effect]:
        machine, cleaning = self.compaction, self.cleaning
        if isinstance(effect, compacting.CleanNext):
            assert cleaning is not None
            try:
                group = cleaning.next(NO_LIMITS)
            except ObjectMissing as error:  # retention has deleted it meanwhile
                return machine.failed(None, str(error), 0, self.now_ms)
            return machine.ended() if group is None else machine.cleaned(group, self._id(), 0, self.now_ms)
        if isinstance(effect, copying.AppendRecord):
            self._apply(effect.record)
            is_first = isinstance(effect.record, RemoteLogSegment)
            return machine.announced(effect.record.id.segment_id) if is_first else []  # type: ignore[union-attr]
        if isinstance(effect, compacting.CopyCleaned):
            assert cleaning is not None
            name = effect.segment.id.segment_id
            if self.rng.random() < 0.05:
                return machine.failed(name, "the store is away", 0, self.now_ms)
            try:
                custom = cleaning.copy(effect.segment, effect.parts, NO_LIMITS)
            except ObjectMissing as error:
                return machine.failed(name, str(error), 0, self.now_ms)
            return machine.objects_written(name, custom, self.remote, 0, self.now_ms)
        if isinstance(effect, compacting.AppendTogether):
            name = effect.records[0].id.segment_id
            if not self.replaces(effect):
                return machine.failed(name, "refused", 0, self.now_ms)
            return machine.replaced(name)
        self._carry_out_ends([effect])
        return []

    def replaces(self, effect: compacting.AppendTogether) -> bool:
        """Append a replacement, all of it or nothing."""
        if any(self.metadata.refusal(each) is not None for each in effect.records):
            return False
        for each in effect.records:
            self._apply(each)
            self.check_covers()
        self.note("replaced")
        return True

    def late_arrive(self) -> None:
        if self.late:
            self.note("late")
            self.replaces(self.late.pop(0))

    def _apply(self, record: Record) -> None:
        if self.metadata.refusal(record) is None:
            self.metadata.apply(record)

    def deletes(self) -> None:
        """Delete what is given up: by the machines, by retention, or because its leader is gone."""
        present = {each.segment.id.segment_id for each in self.queue if isinstance(each, compacting.CopyCleaned)}
        seen = self.seen(self.log)
        expiry = at_once(
            remote_expiry(seen, self.remote, TIER, copied_offset=self.copies.copied.offset, now_ms=self.now_ms)
        )
        for each in (*expiry.expired, *(each for each in expiry.removed if each.state is FINISHED)):
            self._apply(each.update(DELETING, self.leading, self.now_ms))
        for each in list(self.remote.all()):
            is_abandoned = each.state is STARTED and not self.queue and each.id.segment_id not in present
            if is_abandoned:
                self._apply(each.update(DELETING, self.leading, self.now_ms))
            elif each.state is DELETING and self.rng.random() < 0.7:
                self.storage.delete(each)
                self._apply(each.update(DELETED, self.leading, self.now_ms))
                self.note("deleted")

    # Readers

    def batch_at(self, offset: int) -> Batch:
        """The records that a reader of ``offset`` gets, where it is in the store or on the leader's disk."""
        log = self.log
        while offset < log.local_log_start_offset:
            epochs = log.epochs.entries()
            segment = segment_for(self.remote, epochs, offset)
            assert segment is not None, f"{offset} is neither on the disk nor in the store"
            until = agrees_until(segment, epochs, offset)
            found = segment_reads.read(self.storage, segment, offset, 1, until)
            if found is not None:
                return Batch(list(read_records(found.records)), found.next_offset)
            offset = until
        data = log.read(offset, 1, log.end, min_one_batch=True)
        if data is None:
            return Batch([], log.end.offset)
        header = parse_header(whole := data.read(), 0)
        return Batch(list(read_records(whole[: header.size])), header.next_offset)

    def read(self) -> Iterator[LogRecord]:
        """All records from the log start to the last stable offset, also those of aborted transactions."""
        offset, end, last = self.log.log_start_offset, self.stable, -1
        while offset < end:
            batch = self.batch_at(offset)
            assert batch.next_offset > offset
            for each in batch.records:
                if each.offset >= self.log.log_start_offset and each.offset in self.written:
                    assert each.offset > last, "offsets do not ascend"
                    last = each.offset
                    yield each
            offset = batch.next_offset

    def is_committed(self, offset: int) -> bool:
        return self.written[offset].number not in self.aborted

    def truth(self, end: int) -> dict[bytes, bytes]:
        """The newest committed value of every key below an offset."""
        start = self.log.log_start_offset
        found = {w.key: w.value for at, w in self.written.items() if start <= at < end and self.is_committed(at)}
        return {key: value for key, value in found.items() if value is not None}

    # What must be true

    def check_covers(self) -> None:
        """Every offset is in a readable segment or on the disk."""
        seen = self.seen(self.log)
        until = copied_until(self.remote, seen.epochs, seen.log_start_offset)
        assert until >= seen.local_log_start_offset, f"{until} is neither on the disk nor in the store"

    def check(self) -> None:
        self.check_covers()
        found: dict[bytes, bytes | None] = {}
        for each in self.read():
            assert (each.key, each.value) == self.written[each.offset][:2], f"another record is at {each.offset}"
            if self.is_committed(each.offset):
                found[each.key or b""] = each.value
        expected = self.truth(self.stable)
        assert {key: value for key, value in found.items() if value is not None} == expected

    def comes_to_rest(self) -> None:
        """Without new records the store ends with one record of every key, and with nothing that is not read."""
        self.ends_transaction()
        while self.late:
            self.late_arrive()
        for round_of in range(30):
            self.now_ms += 2 * DELETE_RETENTION_MS
            if round_of in (3, 9, 15):  # a pass begins only where something is dirty
                self._append([LogRecord(timestamp=self.now_ms, key=b"last", value=b"%d" % round_of)], 0)
                for log in self.logs:
                    log.roll(self.now_ms)
            for _ in range(4):
                for step in (self.cleans, self.copies_one, self.leaves_the_disk, self.compacts):
                    step()
                while self.queue:
                    self.works()
                self.deletes()
        self.check()
        states = {each.state for each in self.remote.all()}
        assert states <= {FINISHED}, f"segments stay in {states}"
        parts = at_once(compacting.stored_parts(self.remote, self.seen(self.log)))
        left = {each.id for each in self.remote.all()} - {each.segment.id for each in parts}
        assert not left, f"{left} are read by nobody"
        stored = {each.segment_id for each in self.storage.listed()}
        assert stored == {each.id.segment_id for each in self.remote.all()}, "objects belong to nothing"


class SlowReader:
    """A reader from the log start to the end, which takes less than ``delete.retention.ms``."""

    def __init__(self, world: CompactedWorld) -> None:
        self._world = world
        self._restart()

    def _restart(self) -> None:
        self._found: dict[bytes, bytes | None] = {}
        self._offset = -1
        self._until_ms = self._world.now_ms + DELETE_RETENTION_MS

    def reads(self) -> None:
        """Read some batches; at the end, compare."""
        world = self._world
        if world.now_ms >= self._until_ms or self._offset < world.log.log_start_offset:
            self._restart()
            self._offset = world.log.log_start_offset
        for _ in range(world.rng.randint(1, 4)):
            if self._offset >= world.stable:
                break
            batch = world.batch_at(self._offset)
            self._offset = batch.next_offset
            for each in batch.records:
                if each.offset in world.written and each.offset < world.stable and world.is_committed(each.offset):
                    self._found[each.key or b""] = each.value
        if self._offset >= world.stable:
            world.note("read slowly")
            end = min(self._offset, world.stable)
            found = {key: value for key, value in self._found.items() if value is not None}
            if world.log.log_start_offset == 0:
                assert found == world.truth(end), "a slow reader has another view"
            self._restart()
            self._offset = -1


def events(world: CompactedWorld) -> list[Callable[[], None]]:
    """The events of a world, as often as they come."""
    return [
        *[world.appends] * 4,
        *[world.ends_transaction] * 2,
        *[world.cleans] * 6,
        *[world.copies_one] * 6,
        *[world.leaves_the_disk] * 3,
        *[world.compacts] * 3,
        *[world.works] * 14,
        *[world.deletes] * 2,
        *[world.reader.reads] * 6,
        world.time_passes,
        *[world.another_leads] * 2,
        world.late_arrive,
        world.records_are_deleted,
    ]


def play(seed: int, steps: int = 200) -> CompactedWorld:
    """Play one history and check it after each event."""
    world = CompactedWorld(Random(seed))
    choices = events(world)
    for _ in range(steps):
        world.rng.choice(choices)()
        world.check()
    world.comes_to_rest()
    return world
