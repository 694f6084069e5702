"""Replaying logs into journals, in slices: read in a thread, decoded and applied on the loop a few milliseconds a turn.

Kafka: ``CoordinatorLoaderImpl``. One log is replayed at a time, the smallest first, so that few shards wait for a large
one. Records of unknown types are left out, as in Kafka: they may be of a later version. A damaged batch or record is
left out too, and the damage is logged once for each log. (Kafka's coordinator gives up such a partition.)
"""

import logging
from collections.abc import Callable, Iterator

from kpybroker.hosts.coordinators.hosted_shard import HostedShard
from kpybroker.hosts.coordinators.tickets import SLICE_MS
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.journal import ProducerEpoch
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.errors import DiskFailure
from kpystorage.log_offset import LogOffset
from kpystorage.log_slice import LogSlice
from kpywire.batch import (
    ATTRIBUTES_POSITION,
    CODEC_MASK,
    CONTROL_MASK,
    HEADER,
    HEADER_BYTES,
    LENGTH_END,
    MAGIC,
    TRANSACTIONAL_MASK,
    BatchHeader,
)
from kpywire.control_record import ABORT, COMMIT, control_type
from kpywire.crc import crc32c
from kpywire.errors import Malformed
from kpywire.record import Record, plain_records, read_batch

log = logging.getLogger("kpybroker.hosting")

RECORDS_PER_STEP = 32
_NOT_PLAIN = CODEC_MASK | TRANSACTIONAL_MASK | CONTROL_MASK


class Replay:
    """The replay of one log into one shard's journal."""

    def __init__(self, shard: HostedShard, leader: PartitionLeader) -> None:
        self.shard = shard
        self.leader = leader
        self.next_offset = leader.log.log_start_offset
        self.end: LogOffset = leader.log.end
        self._log = leader.log
        self.records = 0
        self.damaged = 0
        self.first_damage = ""
        self._decode = shard.kind.decode
        self._journal = shard.journal

    @property
    def size_bytes(self) -> int:
        """About how much there is to read."""
        return self.leader.log.size

    def read(self) -> LogSlice | None:
        """The next slice of the log; None at the end. DiskFailure."""
        log, end = self.leader.log, self.end
        if log is not self._log:
            self._log, end = log, log.position_of(end.offset)  # it moved to another directory meanwhile
            self.end = end
        return log.read(self.next_offset, self.shard.kind.load_bytes(), end, min_one_batch=True)

    def steps(self, data: bytes) -> Iterator[None]:
        """Replay the batches in ``data``; yields after each piece of work, so that the loop can do other work."""
        before = self.next_offset
        end = len(data)
        view = memoryview(data)
        position = since = 0
        while position + HEADER_BYTES <= end:
            header = BatchHeader._make(HEADER.unpack_from(data, position))
            following = position + header.batch_length + LENGTH_END
            if header.magic != MAGIC or following < position + HEADER_BYTES:
                raise Malformed(f"no batch can begin as what stands behind offset {self.next_offset - 1}")
            if following > end:
                break
            self.next_offset = header.next_offset
            if crc32c(view[position + ATTRIBUTES_POSITION : following]) != header.crc:
                self._damage(f"a batch at offset {header.base_offset} has another CRC than it declares")
            elif header.attributes & _NOT_PLAIN:
                yield from self._replay(data, header, position)
            else:
                try:
                    section = data[position + HEADER_BYTES : following]
                    for offset, key, value in plain_records(section, header.record_count, header.base_offset):
                        self._apply(key, value, offset, None)
                        since += 1
                        if since == RECORDS_PER_STEP:
                            since = 0
                            yield
                except Malformed as error:
                    self._damage(f"a batch at offset {header.base_offset}: {error}")
            position = following
        if self.next_offset == before:
            raise Malformed(f"nothing can be read at offset {before}")

    def _replay(self, data: bytes, header: BatchHeader, position: int) -> Iterator[None]:
        """Replay a batch that is compressed, part of a transaction, or has control records."""
        producer = ProducerEpoch(header.producer_id, header.producer_epoch) if header.is_transactional else None
        try:
            for count, record in enumerate(read_batch(data, header, position), 1):
                if header.is_control:
                    self._mark(record, producer)
                else:
                    self._apply(record.key or b"", record.value, record.offset, producer)
                if count % RECORDS_PER_STEP == 0:
                    yield
        except Malformed as error:
            self._damage(f"a batch at offset {header.base_offset}: {error}")
        yield

    def _mark(self, record: Record, producer: ProducerEpoch | None) -> None:
        kind = control_type(record)
        if producer is not None and kind in (COMMIT, ABORT):
            self._journal.mark(producer, record.offset, commit=kind == COMMIT)

    def _apply(self, key: bytes, value: bytes | None, offset: int, producer: ProducerEpoch | None) -> None:
        self.records += 1
        try:
            decoded = self._decode(key, value)
        except Malformed as error:
            self._damage(f"a record at offset {offset}: {error}")
            return
        if decoded is not None:
            self._journal.replay(decoded, offset, producer)

    def _damage(self, what: str) -> None:
        self.damaged += 1
        if not self.first_damage:
            self.first_damage = what


class ShardLoader:
    """Loads shards one after the other."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._to_look_at: list[HostedShard] = []
        self._to_read: list[Replay] = []
        self._running = False
        self._started = False

    def start(self) -> None:
        """Begin to load. This is not earlier than the node's start, so the start does not wait for the coordinators."""
        self._started = True
        self._run()

    def load(self, shard: HostedShard) -> None:
        """Open ``shard``, without reading if its log is empty."""
        self._to_look_at.append(shard)
        self._run()

    def _run(self) -> None:
        if self._started and not self._running:
            self._running = True
            self._scheduler.call_soon(self._next)

    def _next(self) -> None:
        """Look at all new logs, then read the smallest."""
        until_ms = self._scheduler.monotonic_ms() + SLICE_MS
        while self._to_look_at:
            if self._scheduler.monotonic_ms() >= until_ms:
                self._scheduler.call_soon(self._next)
                return
            self._look_at(self._to_look_at.pop(0))
        while self._to_read:
            replay = min(self._to_read, key=lambda each: each.size_bytes)
            self._to_read.remove(replay)
            if not replay.shard.is_over:
                _Replay(self._scheduler, replay, self._next).read()
                return
        self._running = False

    def _look_at(self, shard: HostedShard) -> None:
        if shard.is_over:
            return
        try:
            leader = shard.replica.led()
        except KafkaError as error:
            log.info("%s cannot be loaded: %s", shard, error)
            shard.end()
        except DiskFailure as failure:
            shard.disk_failed(failure)
            shard.end()
        else:
            if leader.log.log_end_offset == leader.log.log_start_offset:
                shard.open()
            else:
                self._to_read.append(Replay(shard, leader))


class _Replay:
    """One replay under way; ``done`` is called when it is over, with or without success."""

    def __init__(self, scheduler: Scheduler, replay: Replay, done: Callable[[], object]) -> None:
        self._scheduler = scheduler
        self._replay = replay
        self._done = done
        self._began_ms = scheduler.monotonic_ms()
        self._steps: Iterator[None] = iter(())

    def read(self) -> None:
        """Read the next slice in a thread; at the end, open the shard."""
        replay = self._replay
        shard = replay.shard
        if shard.is_over:
            self._done()
            return
        try:
            found = replay.read()
        except DiskFailure as failure:
            shard.disk_failed(failure)
            self._give_up(str(failure))
            return
        if found is None:
            self._finish()
        else:
            self._scheduler.submit_blocking(found.read, self._got)

    def _got(self, data: bytes | None, error: BaseException | None) -> None:
        if error is not None or data is None:
            self._give_up(str(error))
            return
        self._steps = self._replay.steps(data)
        self._go_on()

    def _go_on(self) -> None:
        if self._replay.shard.is_over:
            self._done()
            return
        until_ms = self._scheduler.monotonic_ms() + SLICE_MS
        monotonic_ms = self._scheduler.monotonic_ms
        try:
            for _ in self._steps:
                if monotonic_ms() >= until_ms:
                    self._scheduler.call_soon(self._go_on)
                    return
        except Malformed as error:
            self._give_up(str(error))
            return
        except Exception as error:
            log.exception("%s could not be loaded because of a defect", self._replay.shard)
            self._give_up(type(error).__name__)
            return
        self.read()

    def _finish(self) -> None:
        replay = self._replay
        took_ms = round(self._scheduler.monotonic_ms() - self._began_ms)
        log.info("Loaded %d records of %s in %d ms", replay.records, replay.shard, took_ms)
        if replay.damaged:
            log.error(
                "%s: %d damaged records were left out, the first is %s",
                replay.shard,
                replay.damaged,
                replay.first_damage,
            )
        replay.shard.open()
        self._done()

    def _give_up(self, why: str) -> None:
        if not self._replay.shard.is_over:
            log.error("%s cannot be loaded: %s", self._replay.shard, why)
            self._replay.shard.end()
        self._done()
