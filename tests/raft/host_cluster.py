"""Several nodes' ControllerHosts in one thread: the production shell on virtual time, simulated disks and frames.

Everything random comes from one seed. A node that crashes loses what its disk had not synced; what its incarnation
still had to do never happens. Connections carry Kafka's frames, in order, and are lost whole. After every publication
it is checked that all nodes publish the same records, and that an epoch has one active controller.
"""

from collections.abc import Callable, Iterator, Sequence
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.network.outgoing import NoListener
from kpybroker.hosts.network.peer import Link
from kpybroker.hosts.network.peers import Peers
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.hosts.quorum.host import QuorumConfig, QuorumHost, QuorumIdentity, Timings
from kpybroker.hosts.quorum.membership import QuorumMembership
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.reign import ControllerParts
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpybroker.machines.controller.state import StaticSettings
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.timing import Timing
from kpybroker.machines.raft.voters import Voter, VoterEndpoint, voter_set
from kpybroker.runtime.io.scheduler import Pieces
from kpystorage import quorum_state
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.quorum_state import StoredQuorumState
from kpystorage.sim_disk import SimDisk
from kpywire import api, codec, error_codes
from kpywire.header import decode_request_header, encode_response_header
from kpywire.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kpywire.messages.api_versions import ApiVersion, ApiVersionsResponse, SupportedFeatureKey
from kpywire.messages.controller_registration import ControllerRegistrationRequest, Feature
from kpywire.messages.remove_raft_voter import RemoveRaftVoterRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kpywire.messages.vote import VoteRequest, VoteResponse

PATH = "/node/data"
CLUSTER_ID = "c" * 22
WALL_MS = 1_700_000_000_000
REQUEST_TIMEOUT_MS = 2000
TIMING = Timing(fetch_snapshot_max_bytes=700)
POLICY = SnapshotPolicy(max_new_record_bytes=2_000, delay_ms=0, retention_bytes=4_000)
SERVED = (
    api.VOTE, api.BEGIN_QUORUM_EPOCH, api.END_QUORUM_EPOCH, api.FETCH, api.FETCH_SNAPSHOT, api.UPDATE_RAFT_VOTER,
)  # fmt: skip

CONTROLLER, SAFE = "CONTROLLER", "SAFE_CONTROLLER"
SAFE_PORTS = 1000
"""The second listener of each node has a port of these, and speaks another protocol than the first."""


class Faults(NamedTuple):
    """How bad the world is. Probabilities per message or per event."""

    loss: float = 0.0
    """The chance that a connection is lost, at each frame."""
    most_delay_ms: float = 5.0
    crash: float = 0.0
    blackout: float = 0.0
    partition: float = 0.0
    most_sync_ms: float = 4.0
    most_restart_ms: float = 3000.0
    clock_jump: float = 0.0

    @classmethod
    def drawn(cls, rng: Random) -> "Faults":
        """A world of its own kind."""
        return cls(
            loss=rng.choice((0.0, 0.002, 0.03)),
            most_delay_ms=rng.choice((2.0, 40.0, 200.0)),
            crash=rng.choice((0.0, 0.0005, 0.004)),
            blackout=rng.choice((0.0, 0.0005, 0.002)),
            partition=rng.choice((0.0, 0.001, 0.005)),
            most_sync_ms=rng.choice((1.0, 20.0, 300.0)),
            most_restart_ms=rng.choice((5.0, 300.0, 3000.0)),
            clock_jump=rng.choice((0.0, 0.01)),
        )


class NodeScheduler:
    """Time for one incarnation of a node; nothing of it happens once that is over."""

    def __init__(self, world: "HostCluster", node: "Node") -> None:
        self._world = world
        self._node = node
        self._incarnation = node.incarnation
        self.in_pieces: Callable[[Iterator[object]], None] = Pieces(self.call_soon, lambda: 0).begin

    def now_ms(self) -> int:
        return WALL_MS + int(self._world.now_ms) + self._node.clock_skew_ms

    def monotonic_ms(self) -> float:
        return self._world.now_ms

    def call_soon(self, callback: Callable[..., object], *arguments: Any) -> None:
        self.call_later(0, callback, *arguments)

    call_soon_threadsafe = call_soon

    def call_later(self, delay_ms: float, callback: Callable[..., object], *arguments: Any) -> "Alarm":
        alarm = Alarm()

        def due() -> None:
            if not alarm.is_cancelled and self._node.incarnation == self._incarnation:
                callback(*arguments)

        self._world.later(delay_ms, due)
        return alarm

    def submit_blocking(self, work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
        def run() -> None:
            try:
                result = work()
            except Exception as error:
                done(None, error)
            else:
                done(result, None)

        self.call_later(self._world.rng.uniform(0, self._world.faults.most_sync_ms), run)

    submit_urgent = submit_waiting = submit_flush = submit_upkeep = submit_blocking


class Alarm:
    """A timer."""

    def __init__(self) -> None:
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True


class Wire:
    """One connection: frames in order, each request answered before the next is read, as Kafka's servers do."""

    def __init__(
        self,
        world: "HostCluster",
        sender: "Node",
        receiver: "Node",
        taken: Callable[[bytes], object],
        lost: Any,
        listener_name: str,
    ) -> None:
        self._world = world
        self._listener_name = listener_name
        self._ends = (sender, receiver)
        self._incarnations = (sender.incarnation, receiver.incarnation)
        self._taken = taken
        self._lost = lost
        self._waiting: list[bytes] = []
        self._is_serving = self.is_closed = False
        self._last_ms = 0.0

    def carry(self, to: int, deliver: Callable[[], None]) -> None:
        """Deliver something at one end after a while, behind what went before; or lose the connection."""
        world = self._world
        if world.rng.random() < world.faults.loss or world.are_cut_off(*self._ends):
            world.later(world.rng.uniform(0, REQUEST_TIMEOUT_MS / 2), self.lose)
            self._is_serving = True  # nothing more gets through
            return
        self._last_ms = max(world.now_ms + world.rng.uniform(0, world.faults.most_delay_ms), self._last_ms)

        def due() -> None:
            if not self.is_closed and self._ends[to].incarnation == self._incarnations[to]:
                deliver()

        world.later(self._last_ms - world.now_ms, due)

    def lose(self) -> None:
        if not self.is_closed:
            self.is_closed = True
            if self._ends[0].incarnation == self._incarnations[0]:
                self._lost("lost")

    def close(self) -> None:
        self.is_closed = True

    def send(self, frame: bytes) -> None:
        self.carry(1, lambda: self._arrived(frame))

    def _arrived(self, frame: bytes) -> None:
        self._waiting.append(frame)
        self._next()

    def _next(self) -> None:
        if self._waiting and not self._is_serving:
            self._is_serving = True
            frame = self._waiting.pop(0)
            header = decode_request_header(frame)

            def answer(response: Any) -> None:
                if isinstance(response, VoteResponse):
                    self._ends[1].check_what_backs_it(request, response)
                self._is_serving = False
                head = encode_response_header(header.api_key, header.api_version, header.correlation_id)
                body = bytes(codec.encode(response, header.api_version))
                self.carry(0, lambda: self._taken(head + body))
                self._next()

            request = codec.decode(api.request_class(header.api_key), header.api_version, frame, header.end)
            if header.api_key == api.API_VERSIONS:
                answer(API_VERSIONS)
            else:
                self._ends[1].serve(request, answer, self._listener_name)


API_VERSIONS = ApiVersionsResponse(
    error_code=0,
    api_keys=[
        ApiVersion(api_key=key, min_version=api.API_KEYS[key].min_version, max_version=api.API_KEYS[key].max_version)
        for key in (*SERVED, api.API_VERSIONS)
    ],
    supported_features=[SupportedFeatureKey(name="kraft.version", min_version=0, max_version=1)],
    throttle_time_ms=0,
)


class Node:
    """One node: its host while it runs, its disk always."""

    def __init__(self, world: "HostCluster", node_id: int, disk: SimDisk, static: Sequence[Voter]) -> None:
        self.world = world
        self.id = node_id
        self.disk = disk
        self.static = static
        self.listener_names = (CONTROLLER,)
        """Its listeners. It uses the first one to talk to others."""
        self.incarnation = 0
        self.clock_skew_ms = 0
        self.host: QuorumHost | None = None
        self.has_caught_up = False
        self.directory: LogDirectory | None = None
        self.published_offset = -1

    @property
    def is_up(self) -> bool:
        return self.host is not None

    def start(self) -> None:
        """A new process on what the disk holds."""
        world = self.world
        self.incarnation += 1
        self.has_caught_up = False
        self.published_offset = -1
        scheduler: Any = NodeScheduler(world, self)
        config = world.config(self.id)
        directory = self.directory = LogDirectory(PATH, self.disk, world.rng, world.noted.append, LogConfig())
        directory.open(scheduler.now_ms())
        list(directory.recover())
        log = MetadataLog(directory, LogConfig(segment_bytes=1_500), scheduler.now_ms())
        endpoints = tuple(world.endpoint(self.id, name) for name in self.listener_names)
        voter = Voter(self.id, world.directory_ids[self.id], endpoints)
        is_controller = self.id in world.controllers
        used = self.listener_names[0]
        static = [each._replace(endpoints=(world.endpoint(each.id, used),)) for each in self.static]
        identity = QuorumIdentity(CLUSTER_ID, voter, static, world.bootstrap, used, is_controller)
        self.host = QuorumHost(
            scheduler,
            log,
            identity,
            ControllerParts(
                StaticSettings(self.id, configured_voters=tuple([voter.id for voter in self.static])),
                BrokerConfigRules(config),
                world.rng,
                world.bootstrap_records,
                Timings(500, 0, 0, 0),
            ),
            QuorumConfig(TIMING, 0, POLICY),
            Peers(scheduler, self.connect, f"node-{self.id}", REQUEST_TIMEOUT_MS),
            lambda line: world.fail(f"node {self.id}: {line}"),
        )
        QuorumMembership(scheduler, self.host, identity, world.ask_controller, world.rng)
        self.host.subscribe(self.published)
        self.host.start(self.caught_up)

    def caught_up(self) -> None:
        self.has_caught_up = True

    def crash(self) -> None:
        """The machine loses power."""
        assert self.directory is not None
        self.host = None
        self.incarnation += 1
        self.disk = self.disk.after_power_failure()

    def published(self, image: MetadataImage, delta: MetadataDelta) -> None:
        assert image.next_offset >= self.published_offset, "what was published is published again"
        self.published_offset = image.next_offset
        self.world.published(self, image, delta)

    def check_what_backs_it(self, request: VoteRequest, response: VoteResponse) -> None:
        """A vote that was given is on disk, or a later epoch."""
        asked, given = request.topics[0].partitions[0], response.topics[0].partitions[0]
        if not given.vote_granted or asked.pre_vote:
            return
        state = quorum_state.read(self.disk, f"{PATH}/__cluster_metadata-0/quorum-state") or StoredQuorumState()
        is_saved = (state.leader_epoch, state.voted_id) == (given.leader_epoch, asked.replica_id)
        if not is_saved and state.leader_epoch <= given.leader_epoch:
            self.world.fail(f"node {self.id} says what a crash would make it forget")

    def serve(self, request: Any, answer: Callable[[Any], object], listener_name: str) -> None:
        if self.host is not None:
            self.host.asked(request, answer, listener_name)

    def connect(self, _host: str, port: int, opened: Any, taken: Any, lost: Any) -> Link:
        world, receiver = self.world, self.world.nodes[port % SAFE_PORTS]
        listener_name = SAFE if port > SAFE_PORTS else CONTROLLER
        wire = Wire(world, self, receiver, taken, lost, listener_name)
        if not receiver.is_up or listener_name not in receiver.listener_names:
            world.later(1, lambda: None if wire.is_closed else lost(NoListener("refused")))
            return wire
        if listener_name != self.listener_names[0]:
            world.misled += 1
            world.later(1, lambda: None if wire.is_closed else lost("the TLS handshake failed"))
            return wire
        wire.carry(0, opened)
        world.wires.append(wire)
        return wire


class HostCluster:
    """All of them. Nodes have their ids as ports."""

    def __init__(
        self,
        seed: int,
        size: int = 3,
        observers: int = 0,
        *,
        dynamic: bool,
        faults: Faults | None = None,
        spare: int = 0,
    ) -> None:
        """``spare`` controllers are no voters at first, but may become some."""
        self.rng = Random(seed)
        self.faults = Faults()
        self.now_ms = 0.0
        first_voters = set(range(1, size + 1))
        self.controllers = set(range(1, size + spare + 1))
        self.bootstrap = [("node", 1), ("node", 2)] if dynamic else []
        self.failures: list[str] = []
        self.misled = 0
        """The number of connections from a node to a listener that speaks another protocol."""
        self.noted: list[str] = []
        """The notes of recovery."""
        self.wires: list[Wire] = []
        self.cut_off: set[frozenset[int]] = set()
        self.acknowledged: set[int] = set()
        self.history: dict[int, tuple[Any, ...]] = {}
        """By offset: what the image published there says."""
        self.active: dict[int, int] = {}
        self._events: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = count()
        self._registered = count(1000)
        self.asked = 0
        """The number of the last write that was asked for."""
        ids = range(1, size + spare + observers + 1)
        self.directory_ids: dict[int, bytes] = {}
        levels = choose_levels(None, {}, dynamic_quorum=dynamic)
        self.bootstrap_records: Sequence[Any] = ()
        voters = [Voter(each, self.rng.randbytes(16), (self.endpoint(each),)) for each in sorted(first_voters)]
        self.nodes: dict[int, Node] = {}
        for node_id in ids:
            disk = SimDisk(self.rng)
            initial = voter_set(voters) if dynamic and node_id in first_voters else None
            self.format(disk, node_id, levels, initial)
            static = () if dynamic else [voter._replace(directory_id=bytes(16)) for voter in voters]
            self.nodes[node_id] = Node(self, node_id, disk, static)
        for node in self.nodes.values():
            node.start()
        self.faults = faults or Faults()

    def format(self, disk: SimDisk, node_id: int, levels: Any, voters: Any) -> None:
        from kpybroker.hosts.quorum.first_start import identify
        from kpybroker.hosts.quorum.formatter import read_bootstrap_records

        format_directories(disk, Formatting(CLUSTER_ID, node_id, [PATH], PATH, levels, voters), self.rng, WALL_MS)
        identity = identify(self.config(node_id), disk, [PATH], PATH, self.rng, WALL_MS)
        self.directory_ids[node_id] = identity.voter.directory_id
        self.bootstrap_records = read_bootstrap_records(disk, PATH) or self.bootstrap_records

    def config(self, node_id: int) -> BrokerConfig:
        voters = ",".join(f"{each}@node:{each}" for each in sorted(self.controllers))
        return BrokerConfig.load(
            None,
            {
                "log.dirs": PATH,
                "node.id": str(node_id),
                "process.roles": "controller" if node_id in self.controllers else "broker,controller",
                "controller.quorum.voters": voters if node_id in self.controllers else f"{voters},{node_id}@node:1",
                "controller.listener.names": "CONTROLLER",
                "listeners": f"CONTROLLER://node:{node_id}"
                + ("" if node_id in self.controllers else ",PLAINTEXT://node:9092"),
            },
        )

    @staticmethod
    def endpoint(node_id: int, listener_name: str = CONTROLLER) -> VoterEndpoint:
        return VoterEndpoint(listener_name, "node", node_id if listener_name == CONTROLLER else SAFE_PORTS + node_id)

    def fail(self, line: str) -> None:
        self.failures.append(line)

    # Time.

    def later(self, delay_ms: float, work: Callable[[], object]) -> None:
        heappush(self._events, (self.now_ms + max(delay_ms, 0), next(self._numbers), work))

    def run(self, duration_ms: float, until: Callable[[], bool] = lambda: False) -> bool:
        """Let time pass; whether ``until`` came true."""
        end_ms = self.now_ms + duration_ms
        while self._events and self._events[0][0] <= end_ms:
            self.now_ms, _, work = heappop(self._events)
            work()
            self._misfortune()
            assert not self.failures, self.failures
            if until():
                return True
        self.now_ms = max(self.now_ms, end_ms)
        return until()

    def _misfortune(self) -> None:
        faults, rng = self.faults, self.rng
        if rng.random() < faults.crash:
            self.crash(rng.choice(list(self.nodes.values())))
        if rng.random() < faults.blackout:
            for node in self.nodes.values():
                self.crash(node)
        if rng.random() < faults.partition:
            if self.cut_off and rng.random() < 0.5:
                self.cut_off.clear()
            else:
                self.isolate(rng.choice(list(self.nodes.values())))
        if rng.random() < faults.clock_jump:
            rng.choice(list(self.nodes.values())).clock_skew_ms = rng.randint(-1_000_000, 1_000_000)

    def crash(self, node: Node) -> None:
        if node.is_up:
            node.crash()
            for wire in self.wires:
                self.later(self.rng.uniform(0, 50), wire.lose) if node in wire._ends else None
            self.wires = [wire for wire in self.wires if not wire.is_closed]
            self.later(self.rng.uniform(1, self.faults.most_restart_ms), node.start)

    def isolate(self, node: Node) -> None:
        self.cut_off |= {frozenset((node.id, other)) for other in self.nodes if other != node.id}

    def are_cut_off(self, one: Node, other: Node) -> bool:
        return frozenset((one.id, other.id)) in self.cut_off

    def heal(self) -> None:
        """No more faults; nodes that are down come back."""
        self.faults = Faults()
        self.cut_off.clear()

    # What clients do, and what must hold.

    @property
    def leader(self) -> Node | None:
        """A node whose controller is active."""
        active = [node for node in self.nodes.values() if node.host is not None and node.host.is_active]
        return max(active, key=lambda node: node.host._quorum.epoch if node.host else -1, default=None)

    def write(self) -> None:
        """Ask every active controller for something that it has to write."""
        for node in self.nodes.values():
            if node.host is not None and node.host.is_active:
                self._register(node.host)

    def _register(self, host: QuorumHost) -> None:
        number = self.asked = next(self._registered)

        def answered(response: Any) -> None:
            if response.error_code == error_codes.NONE:
                self.acknowledged.add(number)

        request = ControllerRegistrationRequest(
            controller_id=number,
            incarnation_id=self.rng.randbytes(16),
            zk_migration_ready=False,
            listeners=[],
            features=[Feature(name="kraft.version", min_supported_version=0, max_supported_version=1)],
        )
        host.send(request, answered)

    def raise_kraft_version(self) -> list[Any]:
        """Ask the active controller for ``kraft.version`` 1; the list gets the answer."""
        answers: list[Any] = []
        leader = self.leader
        if leader is not None and leader.host is not None:
            wanted = FeatureUpdateKey(feature="kraft.version", max_version_level=1)
            request = UpdateFeaturesRequest(timeout_ms=1_000, feature_updates=[wanted])
            leader.host.send(request, answers.append, api_version=2)
        return answers

    def ask_controller(self, request: Any, reply: Callable[[Any], object]) -> None:
        """A node asks the active controller, by a connection of its own."""
        leader = self.leader
        if leader is not None and leader.host is not None:
            leader.host.send(request, reply)
        else:
            self.later(20, lambda: reply(None))

    def change_voters(self) -> None:
        """Ask every active controller to add a controller that does not vote, or to remove a voter."""
        for node in self.nodes.values():
            if node.host is None or not node.host.is_active:
                continue
            voters = node.host._quorum.history.voters
            spare = sorted(self.controllers - set(voters))
            if spare and (len(voters) < 3 or self.rng.random() < 0.5):
                self.add_voter(node.host, self.rng.choice(spare))
            elif len(voters) > 2:
                self.remove_voter(node.host, self.rng.choice(sorted(voters)))

    def add_voter(self, host: QuorumHost, node_id: int) -> list[Any]:
        """Ask for it; the list gets the answer."""
        answers: list[Any] = []
        here = self.endpoint(node_id)
        request = AddRaftVoterRequest(
            cluster_id=CLUSTER_ID,
            timeout_ms=1_000,
            voter_id=node_id,
            voter_directory_id=self.directory_ids[node_id],
            listeners=[Listener(name=here.name, host=here.host, port=here.port)],
        )
        host.send(request, answers.append)
        return answers

    def remove_voter(self, host: QuorumHost, node_id: int) -> list[Any]:
        """Ask for it; the list gets the answer."""
        answers: list[Any] = []
        request = RemoveRaftVoterRequest(
            cluster_id=CLUSTER_ID, voter_id=node_id, voter_directory_id=self.directory_ids[node_id]
        )
        host.send(request, answers.append)
        return answers

    def published(self, node: Node, image: MetadataImage, _delta: MetadataDelta) -> None:
        """All nodes say the same of the same offset, whenever they come to it."""
        assert node.host is not None
        says = (frozenset(image.controllers), image.metadata_version, image.epoch)
        known = self.history.setdefault(image.next_offset, says)
        assert known == says, f"nodes differ at offset {image.next_offset}: {known[1:]} {says[1:]} {known[0] ^ says[0]}"
        for each in self.nodes.values():
            if each.host is not None and each.host.is_active:
                epoch = each.host._reign.epoch if each.host._reign else -1
                assert self.active.setdefault(epoch, each.id) == each.id, f"two active controllers in epoch {epoch}"

    def agreed(self) -> bool:
        """Whether all nodes run, know the same leader and have published all that it has."""
        leader = self.leader
        if leader is None or leader.host is None:
            return False
        end = leader.host._quorum.next_offset
        return all(
            node.host is not None
            and node.has_caught_up
            and node.host.controller_id == leader.id
            and node.host.image.next_offset == end
            for node in self.nodes.values()
        )

    def check(self) -> None:
        """Everything acknowledged is there, everywhere."""
        images = [node.host.image for node in self.nodes.values() if node.host is not None]
        for image in images:
            assert self.acknowledged <= set(image.controllers), "an acknowledged record is lost"
            assert image.state() == images[0].state()
