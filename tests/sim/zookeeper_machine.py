"""A machine whose node is a broker in ZooKeeper mode, and how such nodes are configured."""

import re
from typing import TYPE_CHECKING, Any

from .ensemble import PORT as ZOOKEEPER_PORT
from .ensemble import SERVERS
from .layout import CHANGING, COMMON, DIRECTORY, QUICK
from .machine import Machine
from .processor import with_randomness

with with_randomness():
    import kpybroker.node.assembly.zookeeper_source  # noqa: F401 - a node imports it when it starts

if TYPE_CHECKING:
    from random import Random

    from kpystorage.disk import Disk

    from .kind import Kind
    from .loop import SimulatedLoop
    from .network import Network
    from .world import World

PORT = 9092
CHROOT = "/kafka"
OF_KRAFT = (
    "controller.listener.names",
    "initial.broker.registration.timeout.ms",
    "broker.heartbeat.interval.ms",
    "broker.session.timeout.ms",
    "controller.quorum.fetch.timeout.ms",
    "controller.quorum.request.timeout.ms",
)


STRANGER = re.compile(r"node already exists and owner '(-?\d+)'")
"""A registration that is refused."""


class ZooKeeperLayout:
    """The configuration of every node, by its id. Nothing is formatted: a node's first start does that."""

    is_quick = False

    def __init__(self, world: "World", kind: "Kind") -> None:
        self.kind = kind
        rng: Random = world.stream("layout")
        self.flushes_every_message = rng.random() < 0.3
        servers = ",".join(f"zk{number + 1}:{ZOOKEEPER_PORT}" for number in range(SERVERS))
        replicas = str(min(len(kind.roles), 3))
        own = {name: value for name, value in {**COMMON, **QUICK, **CHANGING}.items() if name not in OF_KRAFT}
        own |= {
            "zookeeper.connect": servers + CHROOT,
            "zookeeper.session.timeout.ms": rng.choice(("600", "1500", "4000")),
            "zookeeper.connection.timeout.ms": "60000",
            "controller.socket.timeout.ms": "1000",
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": str(min(2, len(kind.roles))),
            "replica.lag.time.max.ms": rng.choice(("300", "800")),
            "controlled.shutdown.retry.backoff.ms": "200",
            "leader.imbalance.check.interval.seconds": "2",
        }
        if self.flushes_every_message:
            own["log.flush.interval.messages"] = "1"
        self.settings = {
            node_id: {
                **own,
                "broker.id": str(node_id),
                "listeners": f"PLAINTEXT://n{node_id}:{PORT}",
                "log.dirs": DIRECTORY,
            }
            for node_id in kind.roles
        }

    def format(self, node_id: int, disk: "Disk") -> None:
        """Nothing."""


class ZooKeeperMachine(Machine):
    """A broker's machine. Its broker may be the controller."""

    def __init__(self, world: "World", network: "Network", node_id: int, layout: Any) -> None:
        super().__init__(world, network, node_id, layout)
        # A controller does not wait for the answer, neither Kafka's nor ours.
        self.may_keep_moved = layout.kind.reassigns

    def _gave_up(self, loop: "SimulatedLoop", line: str) -> None:
        refused, client = STRANGER.search(line), None if self.node is None else self.node.source.client
        if refused is not None and client is not None and int(refused[1]) == client.session.session_id:
            self.world.violated(f"{self} takes its own session for a stranger's: {line}")
        super()._gave_up(loop, line)

    @property
    def _event_queue(self) -> Any:
        """The controller at work; None before there is one."""
        built = None if self.node is None else self.node.source.built
        return None if built is None else built.controlling.event_queue

    @property
    def controller(self) -> Any:
        """The controller of its broker, active or not; None before there is one."""
        return None if self._event_queue is None else self._event_queue.controller

    @property
    def is_controller(self) -> bool:
        """Whether its controller reigns, as far as it knows."""
        return self.controller is not None and self.controller.is_active

    @property
    def is_at_work(self) -> bool:
        """Whether its controller handles an event."""
        return self._event_queue is not None and bool(self._event_queue._is_working)

    @property
    def image(self) -> Any:
        """The metadata that its broker knows; None if it is not the controller, whose metadata are the newest."""
        broker = None if self.node is None else self.node.broker
        return broker.image if broker is not None and self.is_controller else None
