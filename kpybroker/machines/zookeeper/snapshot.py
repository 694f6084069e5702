"""A copy of a cluster's znodes, and their values. Pure."""

from typing import Any, Final, NamedTuple

from kpybroker.machines.zookeeper.client.operations import Stat
from kpybroker.machines.zookeeper.tree import kinds, paths
from kpybroker.machines.zookeeper.tree.brokers import Registration
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.machines.zookeeper.tree.controller import ElectedController
from kpybroker.machines.zookeeper.tree.topics import LeaderIsrAndControllerEpoch, TopicAssignment

HIDDEN: Final = "[hidden]"


class ReadZnode(NamedTuple):
    """One znode as it was read."""

    data: bytes | None
    stat: Stat

    def shown(self, path: str) -> str:
        """The content for people, without secrets."""
        if not self.data:
            return ""
        if any(path.startswith(f"{each}/") for each in paths.SENSITIVE):
            return HIDDEN
        return self.data.decode("utf-8", "replace")


class TreeSnapshot:
    """The znodes of one moment, nearly: they are read one after the other while the cluster works."""

    def __init__(self, nodes: dict[str, ReadZnode], server: str = "") -> None:
        self.nodes = nodes
        self.server = server
        """The server of ZooKeeper that answered."""
        self.faults: list[str] = []
        """The znodes that cannot be understood."""
        self.values: dict[str, Any] = {}
        for path, node in nodes.items():
            kind = kinds.kind_of(path)
            if kind is None:
                continue
            try:
                self.values[path] = kind.decode(path, node.data)
            except InvalidZnode as error:
                self.faults.append(str(error))

    @property
    def brokers(self) -> dict[int, Registration]:
        """The brokers that are alive."""
        found = (value for value in self.values.values() if isinstance(value, Registration))
        return {each.broker_id: each for each in found}

    @property
    def controller_id(self) -> int | None:
        """The broker that is the controller; None if there is none."""
        elected = self.values.get(paths.CONTROLLER)
        return elected.broker_id if isinstance(elected, ElectedController) else None

    @property
    def controller_epoch(self) -> int | None:
        """The number of elections; None before the first one."""
        value: int | None = self.values.get(paths.CONTROLLER_EPOCH)
        return value

    @property
    def topics(self) -> list[TopicAssignment]:
        """The assignments of all topics."""
        return [value for value in self.values.values() if isinstance(value, TopicAssignment)]

    def state(self, topic: str, partition: int) -> LeaderIsrAndControllerEpoch | None:
        """The state of a partition; None if it has none yet."""
        found = self.values.get(paths.partition_state(topic, partition))
        return found if isinstance(found, LeaderIsrAndControllerEpoch) else None
