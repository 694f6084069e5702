"""The first page: the nodes of the cluster, its health in one line, and the partitions that are not well. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.moves import MOST_MOVES, MoveRow, ThrottleRow, is_moving
from kpybroker.machines.console.nodes import ALIVE, FENCED, SILENT, NodeView
from kpybroker.machines.console.plots import TimePlots
from kpybroker.machines.console.wording import counted
from kpybroker.machines.metadata.broker import BrokerRegistration as RegisteredBroker
from kpybroker.machines.metadata.topic import Partition

GOOD, WARNING, BAD = "good", "warning", "bad"
NO_LEADER, UNDER_REPLICATED = "without a leader", "under-replicated"
WORKING, CORDONED, FAILED, UNKNOWN = "working", "cordoned", "failed", "unknown"
"""The states of a log directory."""
MOST_TROUBLES: Final = 200
"""The most partitions that are listed; the others are counted."""
LEAST_FREE_SHARE: Final = 0.05
"""A disk with less free space is nearly full."""


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the cluster: ``good``, ``warning`` or ``bad``, and the reason in one line."""

    state: str
    line: str


@dataclass(frozen=True, slots=True)
class DiskView:
    """A log directory of a node. The sizes are None if it failed; those of logs are known of this node alone."""

    node: int
    path: str
    total_bytes: int | None
    usable_bytes: int | None
    log_bytes: int | None
    logs: int | None
    state: str
    """``working``, ``cordoned``, ``failed``, or ``unknown`` with the reason as the path."""


@dataclass(frozen=True, slots=True)
class PartitionTrouble:
    """A partition that is not well, and why."""

    topic: str
    partition: int
    state: str
    leader: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ClusterView:
    """The cluster as one node sees it."""

    cluster_id: str
    node_id: int
    metadata_version: str
    quorum_leader: int | None
    health: Health
    nodes: tuple[NodeView, ...]
    disks: tuple[DiskView, ...]
    topics: int
    partitions: int
    without_leader: int
    under_replicated: int
    troubles: tuple[PartitionTrouble, ...]
    troubles_left_out: int
    moves: tuple[MoveRow, ...]
    moves_left_out: int
    throttles: tuple[ThrottleRow, ...]
    may_change: bool
    """Whether this console may change the cluster, and the viewer too."""
    history: TimePlots


@dataclass(frozen=True, slots=True)
class Totals:
    """The sums of one walk over all partitions."""

    partitions: int
    without_leader: int
    under_replicated: int
    leaders: Mapping[int, int]
    replicas: Mapping[int, int]
    troubles: tuple[PartitionTrouble, ...]
    """At most `MOST_TROUBLES`, those without a leader first."""
    waiting: Mapping[int, int]
    """The partitions without a leader that wait for a broker."""
    moving: tuple[tuple[str, int, Partition], ...]
    """At most `MOST_MOVES` partitions whose replicas move."""
    moves: int


class Tally:
    """Counts partitions, one after the other."""

    def __init__(self, brokers: Mapping[int, RegisteredBroker]) -> None:
        self._brokers = brokers
        self._partitions = self._without_leader = self._under_replicated = 0
        self._leaders: Counter[int] = Counter()
        self._replicas: Counter[int] = Counter()
        self._waiting: Counter[int] = Counter()
        self._moving: list[tuple[str, int, Partition]] = []
        self._moves = 0
        self._lost: list[PartitionTrouble] = []
        self._thin: list[PartitionTrouble] = []

    def add(self, topic: str, index: int, partition: Partition) -> None:
        """Count a partition."""
        self._partitions += 1
        self._leaders[partition.leader] += 1
        self._replicas.update(partition.replicas)
        if partition.leader < 0:
            self._without_leader += 1
            self._waiting.update(partition.isr or partition.elr)
            self._list(self._lost, (topic, index, partition), NO_LEADER)
        elif is_under_replicated(partition):
            self._under_replicated += 1
            self._list(self._thin, (topic, index, partition), UNDER_REPLICATED)
        if is_moving(partition):
            self._moves += 1
            if len(self._moving) < MOST_MOVES:
                self._moving.append((topic, index, partition))

    def _list(self, troubles: list[PartitionTrouble], which: tuple[str, int, Partition], state: str) -> None:
        if len(troubles) < MOST_TROUBLES:
            topic, index, partition = which
            leader = partition.leader if partition.leader >= 0 else None
            reason = reason_of(partition, self._brokers)
            replicas, in_sync = tuple(partition.replicas), tuple(partition.isr)
            troubles.append(PartitionTrouble(topic, index, state, leader, replicas, in_sync, reason))

    def totals(self) -> Totals:
        """The sums so far."""
        troubles = tuple([*self._lost, *self._thin][:MOST_TROUBLES])
        counts = self._partitions, self._without_leader, self._under_replicated
        led = self._leaders, self._replicas, troubles
        return Totals(*counts, *led, self._waiting, tuple(self._moving), self._moves)


def is_under_replicated(partition: Partition) -> bool:
    """Whether replicas are missing from those in sync. Replicas that are being added are not missed yet."""
    return len(partition.isr) < len(partition.replicas) - len(partition.adding_replicas)


def reason_of(partition: Partition, brokers: Mapping[int, RegisteredBroker]) -> str:
    """Why a partition has no leader, or too few replicas in sync."""
    if partition.leader < 0:
        waits_for = ", ".join(_with_state(broker, partition, brokers) for broker in partition.isr or partition.elr)
        if waits_for:
            return f"only its last replicas in sync may lead: {waits_for}"
        return "no replica is known to have all records; an unclean election would lose some"
    missing = [replica for replica in partition.replicas if replica not in partition.isr]
    return "; ".join(_with_state(broker, partition, brokers) for broker in missing)


def _with_state(broker: int, partition: Partition, brokers: Mapping[int, RegisteredBroker]) -> str:
    found = brokers.get(broker)
    if found is None:
        return f"broker {broker} is not registered"
    if found.fenced:
        return f"broker {broker} does not answer the controller"
    if not found.can_use(partition.directory_of(broker)):
        return f"the log directory of broker {broker} failed"
    if found.in_controlled_shutdown:
        return f"broker {broker} is stopping"
    return f"broker {broker} is behind" if partition.leader >= 0 else f"broker {broker} is alive"


def health_of(
    nodes: Sequence[NodeView], totals: Totals, disks: Sequence[DiskView], quorum_leader: int | None, unready: str | None
) -> Health:
    """The worst thing that is known, in one line."""
    failed = [disk for disk in disks if disk.state == FAILED]
    away = [node.id for node in nodes if node.state == FENCED]
    silent = [node.id for node in nodes if node.state == SILENT]
    full = [disk for disk in disks if _is_full(disk)]
    if unready is not None:
        return Health(BAD, f"this node does not serve clients: {unready}")
    if quorum_leader is None:
        return Health(BAD, "no controller leads the quorum, so nothing about topics and configs can change")
    if totals.without_leader:
        why = f" ({_all_of('broker', away, 'is', 'are')} away)" if away else ""
        return Health(BAD, f"{counted(totals.without_leader, 'partition has', 'partitions have')} no leader{why}")
    if failed:
        return Health(BAD, f"log directory {failed[0].path} of node {failed[0].node} failed")
    if totals.under_replicated:
        why = f" ({_all_of('broker', away, 'is', 'are')} away)" if away else ""
        lacking = counted(totals.under_replicated, "partition lacks", "partitions lack")
        return Health(WARNING, f"{lacking} replicas in sync{why}")
    if away:
        return Health(WARNING, f"{_all_of('broker', away, 'does', 'do')} not answer the controller")
    if silent:
        return Health(WARNING, f"{_all_of('controller', silent, 'does', 'do')} not follow the quorum's leader")
    if full:
        return Health(WARNING, f"log directory {full[0].path} of node {full[0].node} is nearly full")
    alive = sum(node.state == ALIVE for node in nodes)
    brokers = f"{counted(alive, 'broker is', 'brokers are')} alive"
    if not totals.partitions:
        return Health(GOOD, f"{brokers}; there is no topic yet")
    led = "is led and in sync" if totals.partitions == 1 else "are all led and in sync"
    return Health(GOOD, f"{counted(totals.partitions, 'partition')} {led}; {brokers}")


def _all_of(role: str, ids: Sequence[int], one: str, more: str) -> str:
    """Nodes and their verb: ``broker 3 is``, ``brokers 1, 2 and 3 are``."""
    *others, last = map(str, ids)
    return f"{role}s {', '.join(others)} and {last} {more}" if others else f"{role} {last} {one}"


def _is_full(disk: DiskView) -> bool:
    if disk.total_bytes is None or disk.usable_bytes is None or disk.total_bytes <= 0:
        return False
    return disk.usable_bytes < disk.total_bytes * LEAST_FREE_SHARE
