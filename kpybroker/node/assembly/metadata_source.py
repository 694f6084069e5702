"""The two sources of a node's metadata, as the node sees them: a KRaft quorum (`kraft_source`) or `zookeeper_source`.

A source connects, builds the roles of the node, takes part in the cluster, and leaves it. Not here: everything that is
the same with both, which is in `kpybroker.node`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.image import TOPIC_RESOURCE, MetadataImage
from kpybroker.machines.metadata.loader import Metadata
from kpybroker.node.assembly.replication import KeptLogs
from kpybroker.node.assembly.security import NodeSecurity
from kpybroker.node.assembly.storage import Identify, StoredNode
from kpybroker.requests.broker import Broker
from kpybroker.requests.controller_role import ControllerRole
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.server.listener import Server
from kpystorage.disk import Disk

if TYPE_CHECKING:
    from kpybroker.hosts.quorum.host import QuorumHost
    from kpybroker.machines.balance.standing import BalancerStanding
    from kpybroker.monitoring.console.sources import ShownBalancer
    from kpybroker.requests.dispatching.served import Intercept


class Opened(NamedTuple):
    """The parts that a node opens before it knows any metadata."""

    stored: StoredNode
    kept: KeptLogs | None
    """None on a node that is a controller only."""
    ports: Mapping[str, int]
    """The ports of the listeners, by their names."""


class Parts(NamedTuple):
    """The parts on which the roles of a node are built."""

    current: CurrentConfig
    security: NodeSecurity
    server: Server
    opened: Opened
    intercept: "Intercept | None"
    """Stands before the handlers of clients' requests."""


class Roles(NamedTuple):
    """The roles of a node, and what serves their requests."""

    broker: Broker | None
    shown: Broker | ControllerRole
    """The broker, or the controller of a node without one: the second port shows it."""
    clients: Dispatcher
    controllers: Dispatcher
    """It serves the listeners of controllers. In ZooKeeper mode there are none, and it is the one of clients."""
    balancer: "ShownBalancer | None" = None
    """The balancer of a node with a controller of KRaft."""

    def balancer_standing(self) -> "BalancerStanding | None":
        """The standing of the balancer; None where it does not run."""
        return None if self.balancer is None else self.balancer.standing

    @property
    def dispatchers(self) -> tuple[Dispatcher, ...]:
        """Both, or the only one."""
        return (self.clients,) if self.controllers is self.clients else (self.clients, self.controllers)


def refuse_tiered_topics(config: BrokerConfig, image: MetadataImage) -> None:
    """Raise StartRefused if a topic is tiered and this broker has tiered storage switched off, for all topics or for
    compacted ones."""
    is_tiering_on = config["remote.log.storage.system.enable"]
    if is_tiering_on and config["kpybroker.remote.compacted.enable"]:
        return
    for (kind, name), configs in image.configs.items():
        if kind == TOPIC_RESOURCE and configs.get("remote.storage.enable", "").lower() == "true":
            from kpybroker.config.tiering import COMPACTED_OFF, SWITCHED_OFF  # not of a plain start

            if not is_tiering_on or "compact" in configs.get("cleanup.policy", ""):
                raise StartRefused(f"{COMPACTED_OFF if is_tiering_on else SWITCHED_OFF}; topic {name} has it")


class MetadataSource(Protocol):
    """One source, in the order in which a node asks it."""

    refusals: tuple[type[Exception], ...]
    """The errors that refuse a start, in one line each."""

    @property
    def quorum(self) -> "QuorumHost | None":
        """This node's quorum; None before it was read from the disk, and in ZooKeeper mode."""

    @property
    def image(self) -> MetadataImage:
        """The metadata as this node knows them; available once it was started."""

    def known_image(self) -> MetadataImage | None:
        """The metadata; None before the users are among them."""

    async def connect(self, disk: Disk) -> BrokerConfig:
        """Find the cluster. Returns the configuration with this node's id."""

    @property
    def identify(self) -> Identify:
        """Finds out to which node log directories belong, and gives new ones to it."""

    def follow(self, opened: Opened) -> Metadata:
        """The metadata, which the parts of the node follow from now on."""

    def build(self, parts: Parts) -> Roles:
        """The roles."""

    async def join(self) -> None:
        """Take part in the cluster. When this returns clients are served."""

    async def leave(self, *, controlled: bool) -> None:
        """Give up leaderships before the node is gone, if the stop is ``controlled``."""

    async def stop(self, *, leave: bool) -> None:
        """End all work. Without ``leave``, as if the process had died."""

    def finish(self) -> int:
        """Write what is due before a clean stop. Returns the broker epoch that the directories note; -1 for none."""
