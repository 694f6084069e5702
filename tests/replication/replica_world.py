"""Several nodes' replicas of one topic, without controllers or sockets: the test is the controller and moves the clock.

Each node has a simulated disk, its own copy of the metadata, and the production code from the fetchers to the Fetch
handler. Frames pass between them through memory: with a delay, or not at all where the test has cut the way.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.hosts.labour.labour import Labour
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.network.peer import Connect, Link
from kpybroker.hosts.replicas.directories import Directories, IdentifiedDirectory
from kpybroker.hosts.replicas.fetchers import Fetchers, Leaders
from kpybroker.hosts.replicas.in_sync import InSyncKeeper
from kpybroker.hosts.replicas.leader_throttle import UNLIMITED, LeaderThrottle
from kpybroker.hosts.replicas.moves import Moves
from kpybroker.hosts.replicas.neighbours import Neighbours
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.hosts.replicas.tiering import Tiering
from kpybroker.machines.fetch.sessions import FetchSessions
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.in_sync import Rules
from kpybroker.machines.partition.leader import Marker, PartitionLeader
from kpybroker.requests.handlers import fetch, list_offsets, offset_for_leader_epoch
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import ManualScheduler, Pieces, Timer
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.sim_disk import SimDisk
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse
from kpywire.metadata_records.config_record import ConfigRecord
from kpywire.metadata_records.feature_level_record import FeatureLevelRecord
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.register_broker_record import BrokerEndpoint, RegisterBrokerRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.record import Record, build_batch
from tests.replication.alone import Assigned

TOPIC = "t"
TOPIC_ID = bytes(range(16))
LISTENER = "PLAINTEXT"
PORT = 9092
DATA = ("/data", "/more")
VERSIONS = {
    api.PRODUCE: (3, 13),
    api.FETCH: (4, 18),
    api.LIST_OFFSETS: (1, 11),
    api.API_VERSIONS: (0, 4),
    api.OFFSET_FOR_LEADER_EPOCH: (2, 4),
}
DELAY_MS = 1
AGAIN_MS = 200
TOPIC_RESOURCE = 2


def directory_id(node_id: int, number: int) -> bytes:
    """The id of a log directory of a node."""
    return bytes([9, node_id, number]) + bytes(13)


class Way(Link):
    """A connection from one node to another: requests are served one after another, as a broker does."""

    def __init__(
        self, world: "World", asks: int, asked: int, taken: Callable[[bytes], object], lost: Callable[[str], object]
    ) -> None:
        self.world = world
        self.asks, self.asked = asks, asked
        self.life = world.nodes[asked].life
        self.client = ConnectedClient(f"node{asks}", 0, LISTENER)
        self._taken, self._lost = taken, lost
        self._there: deque[bytes] = deque()
        self._back: deque[bytes] = deque()
        self._frames: deque[bytes] = deque()
        self._parked: Pending | None = None
        self.is_closed = False

    def send(self, frame: bytes) -> None:
        self._there.append(bytes(frame))
        self.world.scheduler.call_later(self.world.delay_ms, self._pass)

    def close(self) -> None:
        self.is_closed = True
        self.world.ways.discard(self)
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.cancel()

    def lose(self, reason: str = "the connection is gone") -> None:
        """The network has lost it."""
        if not self.is_closed:
            self.close()
            self._lost(reason)

    def _pass(self) -> None:
        """Deliver what is under way; where nothing passes it is sent again and again, as by TCP."""
        if self.is_closed:
            return
        world = self.world
        while self._there and world.is_open(self.asks, self.asked):
            self._frames.append(self._there.popleft())
            self._serve()
        while self._back and not self.is_closed and world.is_open(self.asked, self.asks):
            self._taken(self._back.popleft())
        if self._there or self._back:
            world.scheduler.call_later(AGAIN_MS, self._pass)

    def _serve(self) -> None:
        node = self.world.nodes[self.asked]
        while self._frames and self._parked is None and node.life == self.life:
            frame = self._frames.popleft()
            header = decode_request_header(frame)
            request = codec.decode(api.request_class(header.api_key), header.api_version, frame, header.end)
            self.world.requests.append((self.asks, self.asked, request))
            call = Call(header.api_key, header.api_version, header.client_id, self.client, AtOnce(), VERSIONS)
            answer = node.handle(request, call)
            if isinstance(answer, Pending):
                self._parked = answer
                answer.when_resolved(partial(self._late, call, header.correlation_id))
            else:
                self._reply(call, header.correlation_id, answer)

    def _late(self, call: Call, correlation_id: int, response: Any) -> None:
        self._parked = None
        self._reply(call, correlation_id, response)
        self._serve()

    def _reply(self, call: Call, correlation_id: int, response: Any) -> None:
        parts: list[Any] = []
        if call.api_key == api.FETCH:
            fetch.codec(call.api_version).encode(response, parts)
        else:
            parts.append(codec.encode(response, call.api_version))
        head = encode_response_header(call.api_key, call.api_version, correlation_id)
        body = b"".join(part.read() if hasattr(part, "read") else bytes(part) for part in parts)
        self._back.append(head + body)
        self.world.scheduler.call_later(self.world.delay_ms, self._pass)


class AtOnce:
    """A connection whose large requests are served in one piece."""

    def share(self, work: Any) -> Any:
        return at_once(work)

    def close(self) -> None:
        raise AssertionError("no request of this world ends its connection")

    def give_up(self, reason: str) -> None:
        raise AssertionError(reason)


class Life:
    """The time of one node from its start to its end: what it has put off does not happen after that."""

    def __init__(self, scheduler: ManualScheduler) -> None:
        self._scheduler = scheduler
        self.is_over = False
        self.now_ms, self.monotonic_ms = scheduler.now_ms, scheduler.monotonic_ms
        self.call_soon_threadsafe = self.call_soon
        self.in_pieces = Pieces(self.call_soon, lambda: scheduler.now_ms() * 1_000_000).begin

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self._scheduler.call_soon(self._call, callback, arguments)

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> Timer:
        return self._scheduler.call_later(delay_ms, self._call, callback, arguments)

    def submit_blocking(self, work: Callable[[], Any], done: Callable[[Any, Any], object]) -> None:
        if not self.is_over:
            self._scheduler.submit_blocking(work, lambda *result: self._call(done, result))

    submit_urgent = submit_waiting = submit_flush = submit_upkeep = submit_blocking

    def _call(self, callback: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        if not self.is_over:
            callback(*arguments)


class WorldNode:
    """One broker: its disk stays, all else is of one life."""

    def __init__(self, world: "World", node_id: int) -> None:
        self.world = world
        self.id = node_id
        self.life = 0
        self.is_up = False
        self.disk = SimDisk(Random(world.seed * 31 + node_id))
        for path in DATA[: world.directories]:
            self.disk.make_directory(path)
        self.disk.synchronize_directory("/")
        self.applied = 0
        """How many of the world's records it has read."""

    def new_life(self) -> Life:
        """The time of this node, as it starts."""
        return Life(self.world.scheduler)

    def start(self) -> None:
        world = self.world
        scheduler = self.scheduler = self.new_life()
        self.life += 1
        self.is_up = True
        self.config = BrokerConfig.load(None, {"node.id": str(self.id), **world.overrides})
        self.log_directories = []
        for path in DATA[: world.directories]:
            random = Random(f"{self.id} {self.life}")
            directory = LogDirectory(path, self.disk, random, world.lines.append, world.log_config)
            directory.open(scheduler.now_ms())
            for _ in directory.recover():
                pass
            self.log_directories.append(directory)
        identified = [
            IdentifiedDirectory(each, directory_id(self.id, number)) for number, each in enumerate(self.log_directories)
        ]
        directories = Directories(identified, scheduler, world.lines.append)
        self.labour = Labour(scheduler)
        self.authorizer = None
        self.remote_log: Any = None
        self.image = MetadataImage("cluster")
        self.fetch_sessions = FetchSessions(1000, Random(self.id))
        self.node_id = self.id
        self.nodes = Nodes(self.image, LISTENER, None)  # type: ignore[arg-type]
        self.assignments = Assigned()
        tiering = world.tiering_of(self, directories)
        self.moves = Moves(self.id, directories, scheduler, self.assignments, lambda: self.config)
        self.fetchers = Fetchers(
            self.id,
            scheduler,
            Leaders(self.nodes.address, world.connect_from(self.id)),
            directories,
            lambda: self.config,
            lambda: 7,
            self.moves.source_was_cut,
            tiering,
        )
        self.replicas = Replicas(
            self.id,
            directories,
            scheduler,
            lambda overrides: effective(overrides, self.config),
            Rules(float(self.config.replica_lag_time_max_ms)),
            Neighbours(self.assignments, self.moves, self.fetchers),
            tiering,
        )
        self.leader_throttle = LeaderThrottle(self.id, lambda: UNLIMITED)
        self.in_sync = InSyncKeeper(
            scheduler,
            lambda request, reply: world.asked_to_alter(self, request, reply),
            self.replicas,
            self.id,
            lambda: 7,
        )
        self.in_sync.start()
        self.applied = 0
        self.read_metadata()

    def read_metadata(self, until: int | None = None) -> None:
        """Apply what was committed and is not applied yet, as one change."""
        records = self.world.records[self.applied : until]
        self.applied += len(records)
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
        self.replicas.apply(self.image, delta)
        if delta.brokers:
            self.in_sync.brokers_changed()

    def handle(self, request: Any, call: Call) -> Any:
        """The answer of the node."""
        if call.api_key == api.API_VERSIONS:
            keys = [ApiVersion(api_key=key, min_version=low, max_version=high) for key, (low, high) in VERSIONS.items()]
            return ApiVersionsResponse(error_code=0, api_keys=keys, throttle_time_ms=0)
        if call.api_key == api.LIST_OFFSETS:
            return at_once(list_offsets.handle(self, request, call))  # type: ignore[arg-type]
        if call.api_key == api.OFFSET_FOR_LEADER_EPOCH:
            return at_once(offset_for_leader_epoch.handle(self, request, call))  # type: ignore[arg-type]
        return fetch.handle(self, request, call)  # type: ignore[arg-type]

    def stop(self) -> None:
        """A clean end."""
        self._end()
        self.replicas.checkpoint_high_watermarks()
        for directory in self.log_directories:
            directory.close()

    def kill(self, *, power_fails: bool = False) -> None:
        """The end of the process, or of the machine with what was not flushed."""
        self._end()
        for directory in self.log_directories:
            directory.abandon()
        self.disk = self.disk.after_power_failure() if power_fails else self.disk.after_process_death()

    def _end(self) -> None:
        self.is_up = False
        self.life += 1
        self.scheduler.is_over = True
        self.fetchers.stop()
        self.in_sync.stop()
        for way in list(self.world.ways):
            if self.id in (way.asked, way.asks):
                way.lose()

    # What it holds.

    def replica(self, index: int = 0) -> Replica:
        return self.replicas.find(TOPIC_ID, index)

    def log(self, index: int = 0) -> Log:
        return self.replica(index).held().log

    def high_watermark(self, index: int = 0) -> int:
        return self.replica(index).held().high_watermark.offset

    def produce(self, count: int = 1, index: int = 0, *, value_bytes: int = 20, **batch: Any) -> int:
        """Append a batch of records as the leader; the offset behind them."""
        replica = self.replica(index)
        leader: PartitionLeader = replica.led()
        now_ms = self.world.scheduler.now_ms()
        mark = f"{self.world.written}:{self.id}:{leader.epoch}:".encode()
        self.world.written += 1
        records = [
            Record(timestamp=now_ms, key=b"%d" % number, value=mark.ljust(value_bytes, b".")) for number in range(count)
        ]
        sent = memoryview(bytearray(build_batch(records, **batch)))
        transactional = bool(batch.get("transactional"))
        appended = leader.append(
            sent, replica.topic.validation, now_ms, transactional=transactional, is_verified=transactional
        )
        replica.changed()
        return appended[1]

    def end_transaction(self, producer_id: int, *, commit: bool, index: int = 0) -> int:
        """Append a marker; its offset."""
        replica = self.replica(index)
        marker = Marker(producer_id, 0, commit, 0)
        offset = replica.led().append_marker(marker, self.world.scheduler.now_ms())
        replica.changed()
        return offset


class World:
    """The nodes, the clock, the way between them, and what is committed of the metadata."""

    topic_name = TOPIC
    node_type: type[WorldNode] = WorldNode
    log_config = LogConfig()
    """The config of logs whose topic is not known yet."""

    def __init__(
        self,
        nodes: int = 2,
        *,
        partitions: int = 1,
        seed: int = 1,
        directories: int = 1,
        overrides: dict[str, str] | None = None,
        topic: dict[str, str] | None = None,
    ) -> None:
        """``overrides`` are configs of all nodes, ``topic`` those of the topic. Node 1 leads, all are in sync."""
        self.seed = seed
        self.directories = directories
        self.scheduler = ManualScheduler()
        self.overrides = overrides or {}
        self.delay_ms = DELAY_MS
        self.lines: list[str] = []
        """The lines that were reported."""
        self.written = self._granted = 0
        self._image = MetadataImage("cluster")
        self.requests: list[tuple[int, int, Any]] = []
        """(who asks, whom, what), of all that arrived."""
        self.ways: set[Way] = set()
        self.cut: set[tuple[int, int]] = set()
        """Ways that nothing passes, as (from, to)."""
        ids = list(range(1, nodes + 1))
        self.records: list[Any] = [
            FeatureLevelRecord(name="metadata.version", feature_level=25),
            *(self.registration(node_id) for node_id in ids),
            TopicRecord(name=self.topic_name, topic_id=TOPIC_ID),
            *(
                ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=self.topic_name, name=name, value=value)
                for name, value in (topic or {}).items()
            ),
            *(self.partition(index, ids) for index in range(partitions)),
        ]
        self.nodes = {node_id: self.node_type(self, node_id) for node_id in ids}
        for node in self.nodes.values():
            node.start()
        self.run()

    @staticmethod
    def registration(node_id: int, port: int = PORT) -> RegisterBrokerRecord:
        return RegisterBrokerRecord(
            broker_id=node_id,
            incarnation_id=bytes([node_id] * 16),
            broker_epoch=7,
            end_points=[BrokerEndpoint(name=LISTENER, host=f"node{node_id}", port=port, security_protocol=0)],
            features=[],
            rack=None,
            fenced=False,
            log_dirs=[directory_id(node_id, 0)],
        )

    @staticmethod
    def partition(index: int, replicas: list[int], leader: int | None = None) -> PartitionRecord:
        return PartitionRecord(
            topic_id=TOPIC_ID,
            partition_id=index,
            replicas=replicas,
            isr=replicas,
            removing_replicas=[],
            adding_replicas=[],
            leader=replicas[0] if leader is None else leader,
            leader_epoch=0,
            partition_epoch=0,
        )

    def tiering_of(self, node: WorldNode, directories: Directories) -> Tiering | None:  # noqa: ARG002
        """The tiered storage of a node, None where there is none."""
        return None

    # Between nodes.

    def is_open(self, asks: int, asked: int) -> bool:
        return (asks, asked) not in self.cut and self.nodes[asks].is_up and self.nodes[asked].is_up

    def connect_from(self, asks: int) -> Connect:
        def connect(host: str, _port: int, opened: Any, taken: Any, lost: Any) -> Link:
            asked = int(host.removeprefix("node"))
            way = Way(self, asks, asked, taken, lost)

            def made() -> None:
                if not way.is_closed and self.is_open(asks, asked) and self.is_open(asked, asks):
                    opened()
                else:
                    way.lose("nobody listens there")

            self.ways.add(way)
            self.scheduler.call_later(self.delay_ms, made)
            return way

        return connect

    # What the test does.

    def run(self, duration_ms: int = 0) -> None:
        self.scheduler.advance(duration_ms)

    def tell(self, *records: Any, only: tuple[int, ...] | None = None) -> None:
        """Commit records of the metadata; nodes that are up read them, or ``only`` these do for now."""
        self.records += records
        for node in self.nodes.values():
            if node.is_up and (only is None or node.id in only):
                node.read_metadata()

    def lead(self, leader: int, index: int = 0, *, only: tuple[int, ...] | None = None, **change: Any) -> None:
        """Elect another leader."""
        self.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, leader=leader, **change), only=only)

    def asked_to_alter(self, node: WorldNode, request: AlterPartitionRequest, reply: Callable[[Any], object]) -> None:
        """A leader proposes an in-sync set: granted where it leads in the newest epoch, and knows what holds."""
        life = node.life

        def answer() -> None:
            response = self._altered(node.id, request)
            for each in self.nodes.values():
                if each.is_up and each.applied == len(self.records) - self._granted:
                    each.read_metadata()
            self._granted = 0
            if node.life == life:
                reply(response)

        self.scheduler.call_later(self.delay_ms, answer)

    def _altered(self, leader: int, request: AlterPartitionRequest) -> AlterPartitionResponse:
        truth, answers = self.committed(), []
        for asked in [each for topic in request.topics for each in topic.partitions]:
            held = truth.topics_by_id[TOPIC_ID].partitions[asked.partition_index]
            isr = [each.broker_id for each in asked.new_isr_with_epochs]
            answer = AlterPartitionResponsePartitionData(
                partition_index=asked.partition_index,
                error_code=0,
                leader_id=leader,
                leader_epoch=held.leader_epoch,
                isr=isr,
                partition_epoch=held.partition_epoch + 1,
            )
            if held.leader != leader or asked.leader_epoch != held.leader_epoch:
                answer.error_code = error_codes.FENCED_LEADER_EPOCH
            elif asked.partition_epoch != held.partition_epoch:
                answer.error_code = error_codes.INVALID_UPDATE_VERSION
            elif not all(self.nodes[each].is_up for each in isr):
                answer.error_code = error_codes.INELIGIBLE_REPLICA
            else:
                index = asked.partition_index
                self.records.append(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=isr))
                self._granted += 1
            answers.append(answer)
        topics = [AlterPartitionResponseTopicData(topic_id=TOPIC_ID, partitions=answers)]
        return AlterPartitionResponse(throttle_time_ms=0, error_code=0, topics=topics)

    def committed(self) -> MetadataImage:
        """The metadata as they are, no matter which node has read them."""
        image = self._image
        for record in self.records[image.next_offset :]:
            image.apply(record, image.next_offset, MetadataDelta(image.next_offset))
        return image

    def settle(self, duration_ms: int = 3_000) -> None:
        """Long enough for everybody to have everything."""
        self.run(duration_ms)

    def contents(self, node_id: int, index: int = 0) -> bytes:
        """All bytes of a replica."""
        log = self.nodes[node_id].log(index)
        pieces = [segment.log.pread(segment.size, 0) for segment in log.segments]
        return b"".join(pieces)

    def assert_equal(self, index: int = 0) -> None:
        """All nodes that are up hold the same bytes, epochs, producers and offsets."""
        up = [node for node in self.nodes.values() if node.is_up]
        first, *others = up
        for other in others:
            assert self.contents(other.id, index) == self.contents(first.id, index), f"{first.id} and {other.id}"
            one, another = first.log(index), other.log(index)
            assert another.end.offset == one.end.offset
            assert another.log_start_offset == one.log_start_offset
            assert another.producers.snapshot() == one.producers.snapshot()
            assert other.high_watermark(index) == first.high_watermark(index)
