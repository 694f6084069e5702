"""A simulated Kafka client: finds leaders and coordinators, asks, and says what came of it. Not what to ask for.

It speaks through the production's own connections to other nodes, over the simulated network.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.network.peers import Peers, connect_over
from kpywire import error_codes
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest

from .loop import SimulatedLoop
from .network import Host, Network

if TYPE_CHECKING:
    from .world import World

GROUP, TRANSACTION = 0, 1
"""The kinds of coordinators (``key_type`` of FindCoordinator)."""
GROUPS, TRANSACTIONS = "__consumer_offsets", "__transaction_state"
"""Their topics."""
PORT = 9092


class NoAnswer(Exception):
    """A request whose outcome nobody knows: it may have had an effect or not."""


class Refused(Exception):
    """Kafka's error, which says that nothing was done."""

    def __init__(self, code: int, where: str = "") -> None:
        super().__init__(f"{error_codes.name(code)} {where}")
        self.code = code


class Topic(NamedTuple):
    """The metadata of a topic."""

    id: bytes
    leaders: dict[int, tuple[int, int]]
    """By partition: leader epoch, leader."""


class ClientScheduler:
    """The part of a scheduler that a `Peer` needs."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self.call_soon = loop.call_soon
        self.monotonic_ms = loop.host.monotonic_ms
        self._loop = loop

    def call_later(self, delay_ms: float, call: Any, *arguments: Any) -> Any:
        """Call it later, as a loop does, in ms."""
        return self._loop.call_later(delay_ms / 1000.0, call, *arguments)


class Client:
    """One client on a host of its own."""

    def __init__(
        self, world: "World", network: Network, name: str, nodes: Sequence[int], request_timeout_ms: float
    ) -> None:
        self.world = world
        self.name = name
        self.rng = world.stream(f"client {name}")
        self.host = network.hosts[name] = Host(world, name, self._defect)
        self.loop = SimulatedLoop(world, network, self.host, lambda: None)
        scheduler: Any = ClientScheduler(self.loop)
        self._peers = Peers(scheduler, connect_over(self.loop), name, request_timeout_ms)
        self.nodes = list(nodes)
        self.topics: dict[str, Topic] = {}
        self._known: dict[tuple[str, bytes, int], tuple[int, int]] = {}
        """By topic, its id and partition the newest leader epoch with its leader that anybody told of."""
        self.known_controller: Callable[[], int | None] = lambda: None
        """The controller, where only that one does what operators want."""
        self.adds_partitions = False
        """Whether it says which partitions a transaction has, as before transaction.version 2 (KIP-890)."""
        self.is_over = False
        """Whether it was asked to come to an end."""
        self.tasks = 0
        """The tasks that it still does."""

    def _defect(self, what: str, _error: Any) -> None:
        self.world.violated(f"client {self.name}: {what}")

    def run(self, work: Any) -> None:
        """Do something until its end."""

        def ended(task: "asyncio.Task[None]") -> None:
            self.tasks -= 1
            error = None if task.cancelled() else task.exception()
            if error is not None:
                from traceback import format_exception

                for line in "".join(format_exception(error)).splitlines():
                    self.world.tell(line)
                self.world.violated(f"client {self.name}: {error!r}")

        self.tasks += 1
        self.loop.create_task(work).add_done_callback(ended)

    @property
    def now_s(self) -> float:
        """The time of the world, which is that of all histories."""
        return self.world.now_ms / 1000.0

    # Asking

    def peer(self, node_id: int, port: int = PORT) -> Peer:
        """The connection to a node."""
        return self._peers.at(f"n{node_id}", port)

    async def ask(self, node_id: int, request: Any, *, newest: int | None = None, port: int = PORT) -> Any:
        """The answer. Raises NoAnswer."""
        answered: asyncio.Future[Any] = self.loop.create_future()

        def done(answer: Any) -> None:
            if not answered.done():
                answered.set_result(answer)

        self.peer(node_id, port).send(request, done, newest=newest)
        answer = await answered
        if isinstance(answer, NoResponse):
            raise NoAnswer(answer.reason)
        return answer

    def hang_up(self) -> None:
        """Close all connections."""
        self._peers.close()

    async def tell(self, node_id: int, request: Any) -> None:
        """Send what is not answered. Raises NoAnswer if there is no connection."""
        peer = self.peer(node_id)
        await self.ask(node_id, ApiVersionsRequest(client_software_name="sim", client_software_version="1"))
        peer.send(request, lambda _answer: None)
        if peer._sent:
            unanswered = peer._sent.pop()
            if unanswered.timer is not None:
                unanswered.timer.cancel()

    async def pause(self, most_ms: float) -> None:
        """Wait for a while."""
        await asyncio.sleep(self.rng.random() * most_ms / 1000.0)

    # Finding

    def any_node(self) -> int:
        """One of the nodes."""
        return self.rng.choice(self.nodes)

    def controller_or_any(self) -> int:
        """The node that does what only the controller does, or forwards it."""
        known = self.known_controller()
        return self.any_node() if known is None else known

    async def look(self) -> None:
        """Ask some node for the metadata. Raises NoAnswer."""
        answer = await self.ask(self.any_node(), MetadataRequest(topics=None))
        known, self.topics = self._known, {}
        for topic in answer.topics:
            if topic.name is None or topic.error_code != error_codes.NONE:
                continue
            leaders = {}
            for each in topic.partitions:
                place = (topic.name, topic.topic_id, each.partition_index)
                # Nodes that are cut off tell what was, which no client believes that knows better (KIP-320).
                leaders[each.partition_index] = known[place] = max(
                    known.get(place, (-1, -1)), (each.leader_epoch, each.leader_id)
                )
            self.topics[topic.name] = Topic(topic.topic_id, leaders)

    async def leader(self, topic: str, partition: int) -> int:
        """The leader of a partition, as far as this client knows. Raises NoAnswer or Refused."""
        if topic not in self.topics:
            await self.look()
        found = self.topics.get(topic)
        if found is None:
            raise Refused(error_codes.UNKNOWN_TOPIC_OR_PARTITION, topic)
        leader = found.leaders.get(partition, (-1, -1))[1]
        if leader < 0:
            self.topics.clear()
            raise Refused(error_codes.LEADER_NOT_AVAILABLE, topic)
        return leader

    def heard_of(self, topic: str, partition: int, epoch: int) -> None:
        """A position that was committed names an epoch: what is older is not believed (KIP-320)."""
        found = self.topics.get(topic)
        if found is not None:
            place = (topic, found.id, partition)
            found.leaders[partition] = self._known[place] = max(self._known.get(place, (-1, -1)), (epoch, -1))

    def forget(self) -> None:
        """Forget its metadata, which are out of date."""
        self.topics.clear()

    async def coordinator(self, key: str, kind: int) -> int:
        """The coordinator. Raises NoAnswer or Refused."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        answer = await self.ask(self.any_node(), request)
        (found,) = answer.coordinators
        if found.error_code:
            raise Refused(found.error_code, key)
        return int(found.node_id)
