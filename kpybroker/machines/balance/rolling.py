"""Which nodes may stop together: for rolling restarts, a rack at a time where that is safe.

A set of nodes is safe if every partition keeps ``min.insync.replicas`` replicas in sync without them, the controllers
keep a majority, and all of them are in one rack. A partition that has no replica to spare, such as one with a single
replica, is unavailable whenever its node stops: it is named, and delays nobody.

Not here: stopping anything. Invariant: a set of `roll_plan` is safe if all nodes of the sets before it are back in
sync.
"""

from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from kpybroker.machines.balance.model import BalanceModel


class ControllersState(NamedTuple):
    """The controllers: ids of the voters, of those that have the log, and of the one that leads."""

    voters: frozenset[int] = frozenset()
    caught_up: frozenset[int] = frozenset()
    leader: int = -1

    @property
    def has_spare(self) -> bool:
        """Whether a majority remains without one of them, if all others have the log."""
        return len(self.voters) not in (1, 2)

    def spares(self, nodes: Collection[int]) -> bool:
        """Whether a majority remains without these nodes. A quorum of two at most has none to spare at any time, and
        delays no node."""
        if not self.has_spare or not self.voters & frozenset(nodes):
            return True
        return len(self.caught_up - frozenset(nodes)) > len(self.voters) // 2


class RollPlan(NamedTuple):
    """Sets of nodes, by id, that may stop one after another, each set together."""

    sets: list[tuple[int, ...]]
    waiting: list[tuple[int, str]]
    """The nodes that may not stop now, with the reason."""
    unspared: list[str]
    """Partitions without a replica to spare; they are unavailable while their nodes are away."""


class Leaving:
    """The partitions that are short of a replica when nodes stop. Nodes are ids."""

    def __init__(self, model: BalanceModel, quorum: ControllersState, away: Iterable[int] = ()) -> None:
        """``away``: nodes that have been allowed to stop, or will stop in any case."""
        self.model = model
        self.quorum = quorum
        self.unspared: list[str] = []
        self._spare: dict[int, int] = {}
        self._in_sync_on: dict[int, list[int]] = {node.id: [] for node in model.nodes}
        """The partitions in whose ISR a node is."""
        for partition in range(len(model)):
            self._read(partition)
        self._quorum_away: set[int] = set()
        for each in away:
            self.stop(each)

    def _read(self, partition: int) -> None:
        model = self.model
        needed = max(1, model.min_in_sync[model.topic[partition]])
        replicas, in_sync = model.replicas_of(partition), model.in_sync_of(partition)
        if len(replicas) <= needed:
            self.unspared.append(model.name(partition))
            return
        self._spare[partition] = len(in_sync) - needed
        for each in in_sync:
            self._in_sync_on[model.nodes[each].id].append(partition)

    def objection(self, node: int) -> str | None:
        """The reason why a node may not stop; None if it may."""
        if not self.quorum.spares(self._quorum_away | {node}):
            return "the controllers would lose their majority"
        short = [each for each in self._in_sync_on.get(node, ()) if self._spare[each] < 1]
        if not short:
            return None
        more = f" and {len(short) - 1} more" * (len(short) > 1)
        return f"{self.model.name(short[0])}{more} would have fewer replicas in sync than min.insync.replicas"

    def stop(self, node: int) -> None:
        """Count a node as stopped."""
        self._quorum_away.add(node)
        for each in self._in_sync_on.get(node, ()):
            self._spare[each] -= 1


def objections(
    model: BalanceModel, quorum: ControllersState, wanted: Iterable[int], away: Iterable[int] = ()
) -> dict[int, str | None]:
    """For nodes in their order: the reason why each may not stop together with those before it that may; None for one
    that may. The first that may decides the rack."""
    leaving = Leaving(model, quorum, away)
    racks = {node.id: node.rack for node in model.nodes}
    rack: str | None = None
    found: dict[int, str | None] = {}
    is_first = True
    for node in wanted:
        reason = leaving.objection(node)
        if reason is None and not is_first and (rack is None or racks.get(node) != rack):
            reason = "nodes of another rack stop" if rack is not None else "another node stops, and racks are unknown"
        if reason is None:
            leaving.stop(node)
            rack, is_first = racks.get(node), False
        found[node] = reason
    return found


def roll_plan(model: BalanceModel, quorum: ControllersState, nodes: Iterable[int] | None = None) -> RollPlan:
    """The sets in which nodes, all by default, may stop: few and large ones, the leader of the controllers last."""
    alive = {node.id for node in model.nodes if node.is_alive} | quorum.voters
    wanted = sorted(alive if nodes is None else alive & set(nodes))
    racks = {node.id: node.rack or "" for node in model.nodes}
    left = sorted(wanted, key=lambda each: (each == quorum.leader, each in quorum.voters, racks.get(each, ""), each))
    whole = _whole(model)
    sets: list[tuple[int, ...]] = []
    waiting: list[tuple[int, str]] = []
    now = objections_alone(model, quorum, left)
    waiting += [(each, reason) for each, reason in now.items() if reason is not None]
    left = [each for each in left if now[each] is None]
    recovered = quorum._replace(caught_up=quorum.voters)
    while left:
        found = objections(whole, recovered, _one_rack(left, racks))
        together = tuple(each for each, reason in found.items() if reason is None)
        if not together:
            waiting += [(each, reason or "") for each, reason in found.items()]
            together = tuple(found)
        else:
            sets.append(together)
        left = [each for each in left if each not in together]
    return RollPlan(sets, sorted(waiting), Leaving(model, quorum).unspared)


def objections_alone(model: BalanceModel, quorum: ControllersState, nodes: Iterable[int]) -> dict[int, str | None]:
    """The reason for each node why it may not stop alone."""
    leaving = Leaving(model, quorum)
    return {each: leaving.objection(each) for each in nodes}


def _one_rack(nodes: Sequence[int], racks: dict[int, str]) -> list[int]:
    """The first node, and those that share its rack."""
    return [each for each in nodes if racks.get(each, "") == racks.get(nodes[0], "")]


def _whole(model: BalanceModel) -> BalanceModel:
    """The same cluster when all replicas on nodes that live are in sync."""
    whole = model.moved(model.replicas)
    for place, node in enumerate(whole.replicas):
        whole.is_in_sync[place] = model.nodes[node].is_alive
    return whole
