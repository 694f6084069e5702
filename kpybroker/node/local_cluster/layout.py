"""The places and configurations of the nodes of a cluster on one machine. Pure.

The first three nodes are brokers and controllers, or the first alone where there are fewer than three; all others are
brokers. Every node has a directory of its own with its ``server.properties`` and its data.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from kpybroker.config.own_configs import HTTP_FIRST_PORT
from kpybroker.machines.endpoints import Address

CONTROLLER: Final = "CONTROLLER"
CONTROLLERS_OF_MANY: Final = 3
MOST_REPLICAS: Final = 3
PORTS_BETWEEN: Final = 1_000
"""The distance from the first broker's port to the first controller's."""
OWN_KEYS: Final = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "controller.listener.names",
        "controller.quorum.bootstrap.servers",
        "controller.quorum.voters",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "metadata.log.dir",
        "node.id",
        "process.roles",
    }
)
"""The configs that the layout decides and the user cannot set."""


class PlannedNode(NamedTuple):
    """A node: its number, and the addresses where clients and (for a controller) other nodes reach it."""

    id: int
    directory: Path
    clients: Address
    controller: Address | None

    @property
    def properties(self) -> Path:
        """The path of its ``server.properties``."""
        return self.directory / "server.properties"

    @property
    def data(self) -> Path:
        """The path of its log directory."""
        return self.directory / "data"


def controllers_of(count: int) -> range:
    """The nodes, of ``count``, that are controllers: the largest odd quorum of at most three."""
    return range(1, 1 + (CONTROLLERS_OF_MANY if count >= CONTROLLERS_OF_MANY else 1))


def nodes_of(directory: Path, host: str, ports: Sequence[int], controllers: Mapping[int, Address]) -> list[PlannedNode]:
    """A node for each of the brokers' ``ports``. ``controllers`` are the numbers of those that are controllers."""
    return [
        PlannedNode(number, directory / f"node-{number}", Address(host, port), controllers.get(number))
        for number, port in enumerate(ports, 1)
    ]


def properties_of(
    node: PlannedNode, nodes: Sequence[PlannedNode], given: Mapping[str, str], rack: str, first_console: int
) -> dict[str, str]:
    """The configuration of a node: ``given`` over the defaults of a small cluster, and its own place in it.
    ``first_console`` is the port of the first node's console; the others get the next ones."""
    replicas = min(MOST_REPLICAS, len(nodes))
    in_sync = min(2, replicas)
    defaults = {
        "broker.rack": rack,
        HTTP_FIRST_PORT: str(first_console + node.id - 1),
        "default.replication.factor": str(replicas),
        "min.insync.replicas": str(in_sync),
        "offsets.topic.replication.factor": str(replicas),
        "transaction.state.log.replication.factor": str(replicas),
        "transaction.state.log.min.isr": str(in_sync),
        "share.coordinator.state.topic.replication.factor": str(replicas),
        "share.coordinator.state.topic.min.isr": str(in_sync),
    }
    listeners = [f"PLAINTEXT://{_written(node.clients)}"]
    if node.controller is not None:
        listeners.append(f"{CONTROLLER}://{_written(node.controller)}")
    quorum = ",".join(_written(each.controller) for each in nodes if each.controller is not None)
    return {
        **defaults,
        **{key: value for key, value in given.items() if key not in OWN_KEYS},
        "process.roles": "broker" if node.controller is None else "broker,controller",
        "node.id": str(node.id),
        "listeners": ",".join(listeners),
        "controller.listener.names": CONTROLLER,
        "controller.quorum.bootstrap.servers": quorum,
        "log.dirs": str(node.data.absolute()),
    }


def _written(address: Address) -> str:
    host = f"[{address.host}]" if ":" in address.host else address.host
    return f"{host}:{address.port}"
