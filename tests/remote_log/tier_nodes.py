"""Nodes with all of tiered storage that a node has, over one store that is slow, fails and answers late.

Replicas, fetchers and the Fetch handler are those of the broker (`tests.replication.replica_world`), and so is all of
`kpybroker.hosts.remote_log` except the reading and writing of ``__remote_log_metadata``, which has histories of its own
(`test_remote_metadata_chaos`): here it is one list of committed records, which nodes read late and write late.

Calls to the store run in threads, of which one runs at a time: they wait in virtual time, and end with their node.
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any, Final

from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.empty_leaders import EmptyLeaders
from kpybroker.hosts.remote_log.figures import ThrottleTimes, TierFigures
from kpybroker.hosts.remote_log.led_tier import TierParts
from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.hosts.remote_log.pace import CopyPace, copy_quota, fetch_quota
from kpybroker.hosts.remote_log.partition_deletions import PartitionDeletions
from kpybroker.hosts.remote_log.reads import RemoteReads
from kpybroker.hosts.remote_log.remote_log import LogBeginnings, RemoteLog, StoreReaders, StoreUpkeep
from kpybroker.hosts.remote_log.segment_ends import SegmentEnds
from kpybroker.hosts.remote_log.sweeping import Sweeping
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.tiering import LateTiering, Tiering
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import CopySettings
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata, key_of
from kpybroker.machines.remote_log.segments import Record, RemotePartitionDelete, RemotePartitionDeleteState
from kpybroker.runtime.io.scheduler import Submit
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire.metadata_records.no_op_record import NoOpRecord
from tests.replication.replica_world import DATA, Life, World, WorldNode
from tests.sim.store import SimulatedStorage, SimulatedStore
from tests.storage.overlapping import Threads, Worker

DEADLINE_MS: Final = 9_000
"""The longest time that a copy may take. Twice this is more than the time for which a node that is cut off believes
that it hears of the cluster, and than any request to the store."""
SWEEP_MS: Final = 4_000.0
AGAIN_MS: Final = 200
"""The time after which a node that is cut off tries again."""
BEAT_MS: Final = 2_000
"""The metadata of the cluster go on as often as this."""
FAST: Final = {
    "remote.log.manager.task.interval.ms": "400",
    "log.retention.check.interval.ms": "300",
    "log.initial.task.delay.ms": "0",
    "remote.list.offsets.request.timeout.ms": "20000",
}


class SharedMetadata:
    """The committed records of ``__remote_log_metadata``, and what they say."""

    def __init__(self, nodes: "Callable[[], Iterator[TierNode]]") -> None:
        self.records: list[Record] = []
        self.known = RemoteLogMetadata()
        self.committed: Callable[[Record], object] = lambda _record: None
        """Called with each record that changes something, before it does."""
        self._nodes = nodes

    def append(self, record: Record) -> None:
        """Commit a record. One that changes nothing may be committed, too."""
        if self.known.refusal(record) is None:
            self.committed(record)
        self.known.apply(record)
        self.records.append(record)
        for node in self._nodes():
            if node.metadata is not None:
                node.metadata.soon()


class MetadataOfNode:
    """`RemoteLogMetadataTopic` as one life of a node has it."""

    def __init__(self, shared: SharedMetadata, node: "TierNode") -> None:
        self.changed: list[Callable[[bytes, int], object]] = []
        self._shared = shared
        self._node = node
        self._rng = node.world.rng
        self._known = RemoteLogMetadata()
        self._position = 0
        self._ready_at = len(shared.records)
        self._is_ready = self._is_reading = False
        self._believed_leader = node.world.metadata_leader
        self._needed: set[tuple[bytes, int]] = set()
        self._waiting: list[tuple[int, Callable[[], object]]] = []
        self._writes: dict[Record, list[Callable[[str | None], object]]] = {}
        self._sent: Record | None = None

    def start(self) -> None:
        self.soon()

    def stop(self) -> None: ...

    def apply(self, *_change: object) -> None: ...

    def need(self, topic_id: bytes, index: int) -> None:
        self._needed.add((topic_id, index))

    def release(self, topic_id: bytes, index: int) -> None:
        self._needed.discard((topic_id, index))

    # Reading

    def soon(self) -> None:
        """Read on, some time later."""
        if not self._is_reading:
            self._is_reading = True
            self._node.scheduler.call_later(self._rng.choice((1, 1, 5, 40, 400)), self._read)

    def _read(self) -> None:
        self._is_reading = False
        if self._node.is_behind:
            self._node.scheduler.call_later(AGAIN_MS, self.soon)
            return
        for record in self._shared.records[self._position :][: self._rng.choice((1, 3, 1_000))]:
            self._position += 1
            self._known.apply(record)
            if self._is_ready:
                self._applied(record)
        if not self._is_ready and self._position >= self._ready_at:
            self._is_ready = True
            for key in sorted(self._needed):
                self._tell(key)
            self._go()
        due = [done for at, done in self._waiting if at <= self._position]
        self._waiting = [each for each in self._waiting if each[0] > self._position]
        for done in due:
            done()
        if self._position < len(self._shared.records):
            self.soon()

    def _applied(self, record: Record) -> None:
        settled = self._writes.pop(record, ())
        if record == self._sent:
            self._sent = None
            self._node.scheduler.call_soon(self._go)
        for done in settled:
            done(None)
        self._tell(key_of(record))

    def _tell(self, key: tuple[bytes, int]) -> None:
        for changed in self.changed:
            changed(*key)

    # Questions

    def segments_of(self, topic_id: bytes, index: int) -> RemoteSegments | None:
        if not self._is_ready:
            return None
        found = self._known.segments_of(topic_id, index)
        return RemoteSegments(topic_id, "", index) if found is None else found

    def catch_up(self, _topic_id: bytes, _index: int, done: Callable[[], object]) -> None:
        self._waiting.append((len(self._shared.records), done))
        self.soon()

    def deletion_of(self, topic_id: bytes, index: int) -> RemotePartitionDeleteState | None:
        return self._known.deletion_of(topic_id, index) if self._is_ready else None

    def has_records_of(self, topic_id: bytes, index: int) -> bool:
        return self._known.segments_of(topic_id, index) is not None

    def is_led_here(self, _topic_id: bytes, _index: int) -> bool:
        if not self._node.is_behind:
            self._believed_leader = self._node.world.metadata_leader
        return self._is_ready and self._believed_leader == self._node.id

    def led(self) -> Iterator[RemoteSegments]:
        return self._known.partitions() if self.is_led_here(b"", 0) else iter(())

    def led_deletions(self) -> Iterator[RemotePartitionDelete]:
        return self._known.unfinished_deletions() if self.is_led_here(b"", 0) else iter(())

    # Writing

    def write(self, record: Record, done: Callable[[str | None], object]) -> None:
        self._writes.setdefault(record, []).append(done)
        self._node.scheduler.call_soon(self._go)

    def _go(self) -> None:
        """Send the next record, or refuse it. It may be committed although its sender has died, and twice."""
        if self._sent is not None or not self._is_ready or not self._writes:
            return
        if self._node.is_behind:
            self._node.scheduler.call_later(AGAIN_MS, self._go)
            return
        record = next(iter(self._writes))
        refusal = self._known.refusal(record)
        if refusal is not None:
            for done in self._writes.pop(record):
                done(refusal.value)
            self._node.scheduler.call_soon(self._go)
            return
        self._sent = record
        for _ in range(1 + (self._rng.random() < 0.1)):
            world: Any = self._node.world
            sender = world.scheduler if self._rng.random() < 0.5 else self._node.scheduler
            sender.call_later(self._rng.choice((1, 3, 20, 200)), self._shared.append, record)


class TierLife(Life):
    """A node's time, by a clock of its own, and its threads."""

    def __init__(self, world: "TierNodes", disk: SimDisk, skew_ms: int) -> None:
        super().__init__(world.scheduler)
        self._rng = world.rng
        self._wait_ms = 0.0
        self.threads = Threads(disk, self._waits)
        now_ms = world.scheduler.now_ms
        self.now_ms = lambda: now_ms() + skew_ms

    def pool(self, _name: str, _threads: int) -> Submit:
        return self._submit

    def _submit(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        def over(worker: Worker) -> None:
            self.call_soon(done, worker.result, worker.error)

        self.call_later(self._rng.choice((0, 0, 1, 10)), self.threads.begin, work, over)

    def wait_for_store(self, duration_ms: float) -> None:
        """Called in a thread that waits for the store."""
        assert self.threads.running is not None
        self._wait_ms = duration_ms
        self.threads.running.wait()

    def _waits(self, worker: Worker) -> None:
        self.call_later(self._wait_ms, self.threads.go_on, worker)


class TierNode(WorldNode):
    """One broker with tiered storage."""

    world: "TierNodes"
    scheduler: TierLife
    metadata: MetadataOfNode | None = None
    skew_ms = 0
    """Its wall clock is ahead by this."""
    is_behind = False
    """It hears nothing of the cluster."""

    def new_life(self) -> Life:
        return TierLife(self.world, self.disk, self.skew_ms)

    def tiers(self) -> Tiering:
        """Its tiered storage, which is made behind its replicas."""
        remote_log: RemoteLog = self.remote_log
        return remote_log

    def read_metadata(self, until: int | None = None) -> None:
        if self.remote_log is None:
            self._build()
        records = self.world.records[self.applied : until]
        self.applied += len(records)
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
        self.replicas.apply(self.image, delta)
        self.remote_log.apply(self.image, delta)
        if delta.brokers:
            self.in_sync.brokers_changed()

    def _build(self) -> None:
        world, scheduler, now = self.world, self.scheduler, lambda: self.config
        self.metadata = metadata = MetadataOfNode(world.metadata, self)
        storage = SimulatedStorage(world.store, scheduler)
        figures, pulse = TierFigures(), MetadataPulse(scheduler)
        pace = CopyPace(copy_quota(self.config), lambda: int(scheduler.monotonic_ms()))
        settings = CopySettings(self.id, DEADLINE_MS, retry_ms=200, max_retry_ms=world.most_pause_ms)
        pool = scheduler.pool("", 1)
        parts = TierParts(
            scheduler,
            self.replicas,
            metadata,  # type: ignore[arg-type]
            storage,
            copier=pool,
            deleter=pool,
            copy_settings=lambda: settings,
            copy_limits=pace.limits,
            figures=figures,
            is_current=lambda: pulse.beats,
            abandoned_after_ms=2 * DEADLINE_MS,
            rng=Random(f"{world.seed} {self.id} {self.life}"),
        )
        ends, failed = SegmentEnds(storage, pool), self.replicas.directory_failed
        sweeping = Sweeping(
            scheduler,
            metadata,
            storage,
            pool,
            pulse,
            lambda: SWEEP_MS,
            parts.abandoned_after_ms,  # type: ignore[arg-type]
        )
        reads = RemoteReads(scheduler, storage, pool, lambda: 100, fetch_quota(self.config), figures)
        self.remote_log = RemoteLog(
            parts,
            now,
            StoreReaders(reads, TimeSearches(scheduler, storage, pool, lambda: 20_000.0, figures)),
            LogBeginnings(
                AuxiliaryStates(self.id, scheduler, metadata.segments_of, ends, now, figures, failed),
                EmptyLeaders(scheduler, metadata.segments_of, ends, failed),
            ),
            StoreUpkeep(PartitionDeletions(parts, pulse), sweeping, pulse),
            lambda: ThrottleTimes(0.0, 0.0, 0.0, 0.0),
        )
        self.remote_log.start()
        self.upkeep = Upkeep(scheduler, self.replicas, now, self.remote_log)
        self.upkeep.start()

    def stop(self) -> None:
        self.remote_log.stop()
        super().stop()

    def _end(self) -> None:
        super()._end()
        self.metadata = None
        self.scheduler.threads.die()

    def lose_disk(self) -> None:
        """Put an empty disk into the machine of a node that has ended."""
        self.disk = SimDisk(Random(self.world.rng.random()))
        for path in DATA[: self.world.directories]:
            self.disk.make_directory(path)
        self.disk.synchronize_directory("/")


class _Surroundings:
    """The world of a store."""

    def __init__(self, world: "TierNodes") -> None:
        self._world = world

    @property
    def now_ms(self) -> float:
        return self._world.scheduler.monotonic_ms()

    def stream(self, _name: str) -> Random:
        return self._world.rng

    def later(self, delay_ms: float, call: Callable[..., object], *arguments: Any) -> object:
        return self._world.scheduler.call_later(delay_ms, call, *arguments)

    def tell(self, _line: str) -> None: ...

    def note(self, _data: bytes, _what: str) -> None: ...


class TierNodes(World):
    """The nodes, their store and its metadata."""

    node_type = TierNode
    nodes: dict[int, TierNode]  # type: ignore[assignment]
    log_config = LogConfig(is_tiered=True)

    def __init__(
        self,
        rng: Random,
        topic: dict[str, str],
        overrides: dict[str, str],
        skews_ms: tuple[int, ...],
        most_pause_ms: int = 3_000,
    ) -> None:
        """``skews_ms`` are by what the wall clock of each node is ahead, once it is started again. ``most_pause_ms`` is
        the longest pause between two tries of a copy."""
        self.rng = rng
        self.most_pause_ms = most_pause_ms
        self.metadata_leader = 1
        """The node that leads the metadata of the store."""
        self.metadata = SharedMetadata(lambda: iter(self.nodes.values()) if hasattr(self, "nodes") else iter(()))
        self.store = SimulatedStore(_Surroundings(self))  # type: ignore[arg-type]
        TierNode.skew_ms = 0
        super().__init__(len(skews_ms), seed=rng.getrandbits(30), topic=topic, overrides={**FAST, **overrides})
        for node, skew_ms in zip(self.nodes.values(), skews_ms, strict=True):
            node.skew_ms = skew_ms  # from its next life on

    def tiering_of(self, node: WorldNode, directories: Directories) -> Tiering:  # noqa: ARG002
        assert isinstance(node, TierNode)
        return LateTiering(node.tiers)

    def hear(self, *records: Any) -> None:
        """Commit records of the cluster's metadata; nodes that are behind hear of them later."""
        self.tell(*records, only=tuple(node.id for node in self.nodes.values() if not node.is_behind))

    def pass_time(self, duration_ms: int) -> None:
        """Let time pass, while the metadata of the cluster go on."""
        while duration_ms > 0:
            self.hear(NoOpRecord())
            self.run(min(duration_ms, BEAT_MS))
            duration_ms -= BEAT_MS
        self.run()
