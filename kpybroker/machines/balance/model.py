"""A cluster as the planner sees it: nodes with racks and disks, partitions with replicas, sizes and rates.

Partitions are rows of flat arrays, since a cluster has hundreds of thousands of them: there is no object per replica.
Not here: how it was measured (`kpybroker.client.cluster_load`), and what is wanted of it
(`kpybroker.machines.balance.goals`).

Invariant: ``replicas[first[p]:first[p + 1]]`` are different indexes into ``nodes``, the preferred leader first.
"""

from array import array
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

UNKNOWN = -1


class BalanceNode(NamedTuple):
    """A broker. Sizes are -1 where they are unknown."""

    id: int
    rack: str | None = None
    is_alive: bool = True
    is_cordoned: bool = False
    """Whether it gets no new replicas (KIP-1066); it keeps those that it has."""
    disk_bytes: int = UNKNOWN
    """The capacity of all its disks."""
    used_bytes: int = UNKNOWN
    """The used part of it, by Kafka and by anything else."""


class PartitionLoad(NamedTuple):
    """The load of a partition."""

    size: int = 0
    """The bytes of a replica."""
    rate_in: float = 0.0
    """Bytes a second that producers write."""
    rate_out: float = 0.0
    """Bytes a second that the leader sends, to consumers and followers."""
    is_held: bool = False
    """Whether it has to stay as it is: it moves already, or lacks a replica that is alive. One without a replica in
    sync stays in any case."""


NO_LOAD = PartitionLoad()


class BalanceModel:
    """Nodes and partitions. It grows by `add_topic` and `add_partition` and does not change afterwards."""

    __slots__ = (
        *("first", "is_held", "is_in_sync", "leader", "min_in_sync", "nodes", "number", "places", "rate_in"),
        *("rate_out", "replicas", "size", "topic", "topics"),
    )

    def __init__(self, nodes: Iterable[BalanceNode]) -> None:
        self.nodes = sorted(nodes, key=lambda each: each.id)
        self.places = {node.id: place for place, node in enumerate(self.nodes)}
        """The index of each node, by its id."""
        self.topics: list[str] = []
        self.min_in_sync: list[int] = []
        """``min.insync.replicas`` of each topic."""
        self.topic = array("i")
        self.number = array("i")
        self.first = array("i", [0])
        self.replicas = array("i")
        self.is_in_sync = array("b")
        """Whether each of ``replicas`` is in the ISR."""
        self.leader = array("i")
        """The index of the node that leads, -1 for none."""
        self.size = array("q")
        self.rate_in = array("d")
        self.rate_out = array("d")
        self.is_held = bytearray()

    def __len__(self) -> int:
        return len(self.topic)

    def add_topic(self, name: str, min_in_sync: int = 1) -> int:
        """Add a topic; return its index."""
        self.topics.append(name)
        self.min_in_sync.append(min_in_sync)
        return len(self.topics) - 1

    def add_partition(
        self,
        topic: int,
        number: int,
        replicas: Sequence[int],
        *,
        in_sync: Collection[int] | None = None,
        leader: int | None = None,
        load: PartitionLoad = NO_LOAD,
    ) -> None:
        """Add a partition of a topic. ``replicas``, ``in_sync`` and ``leader`` are ids; an unknown id is a node that is
        gone. Without ``in_sync`` all replicas that live are in sync, without ``leader`` the first of them leads."""
        for each in replicas:
            if each not in self.places:
                self.places[each] = len(self.nodes)
                self.nodes.append(BalanceNode(each, is_alive=False))
        places = [self.places[each] for each in replicas]
        if in_sync is None:
            in_sync = [each for each in replicas if self.nodes[self.places[each]].is_alive]
        if leader is None:
            leader = next((each for each in replicas if each in in_sync), UNKNOWN)
        self.topic.append(topic)
        self.number.append(number)
        self.replicas.extend(places)
        self.is_in_sync.extend(each in in_sync for each in replicas)
        self.first.append(len(self.replicas))
        self.leader.append(self.places.get(leader, UNKNOWN))
        self.size.append(load.size)
        self.rate_in.append(load.rate_in)
        self.rate_out.append(load.rate_out)
        self.is_held.append(load.is_held or not any(each in in_sync for each in replicas))

    def name(self, partition: int) -> str:
        """``orders-17``."""
        return f"{self.topics[self.topic[partition]]}-{self.number[partition]}"

    def ids(self, replicas: Iterable[int]) -> tuple[int, ...]:
        """The ids of nodes given by index."""
        return tuple(self.nodes[each].id for each in replicas)

    def replicas_of(self, partition: int) -> Sequence[int]:
        """The indexes of the nodes that have a partition."""
        return self.replicas[self.first[partition] : self.first[partition + 1]]

    def in_sync_of(self, partition: int) -> list[int]:
        """The indexes of the nodes whose replica of a partition is in sync."""
        span = range(self.first[partition], self.first[partition + 1])
        return [self.replicas[each] for each in span if self.is_in_sync[each]]

    def moved(self, replicas: "array[int]") -> "BalanceModel":
        """The same cluster after all replicas have moved here, and their preferred leaders lead."""
        found = BalanceModel(self.nodes)
        found.nodes = list(self.nodes)
        found.places = dict(self.places)
        found.topics, found.min_in_sync = list(self.topics), list(self.min_in_sync)
        for name in ("topic", "number", "first", "size", "rate_in", "rate_out"):
            setattr(found, name, getattr(self, name)[:])
        found.is_held = bytearray(self.is_held)
        gained = array("q", [0]) * len(self.nodes)
        found.replicas, found.is_in_sync = replicas[:], array("b", [0]) * len(replicas)
        for partition in range(len(self)):
            start, end = self.first[partition], self.first[partition + 1]
            before, after = self.replicas[start:end], replicas[start:end]
            lagging = {self.replicas[place] for place in range(start, end) if not self.is_in_sync[place]}
            for place in range(start, end):
                found.is_in_sync[place] = replicas[place] not in lagging
            for each in after:
                gained[each] += self.size[partition] * (each not in before)
            for each in before:
                gained[each] -= self.size[partition] * (each not in after)
            found.leader.append(next((each for each in after if each not in lagging), UNKNOWN))
        found.nodes = [
            node if node.used_bytes < 0 else node._replace(used_bytes=node.used_bytes + gained[place])
            for place, node in enumerate(self.nodes)
        ]
        return found
