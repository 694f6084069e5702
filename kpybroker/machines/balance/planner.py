"""The planner: from a model and goals to a plan. It is pure and deterministic, so the same cluster has the same plan.

It searches until a whole round changes nothing; small clusters are searched in several ways, and the best result
counts. A planned cluster therefore needs no further plan. Not here: the order of the moves
(`kpybroker.machines.balance.ordering`).
"""

from typing import Final, NamedTuple

from kpybroker.machines.balance import repair
from kpybroker.machines.balance.arrangement import Arrangement, GoalVector
from kpybroker.machines.balance.goals import LED, OF_RESOURCE, SLACK, BalanceGoals, MoveReason, Resource
from kpybroker.machines.balance.hot import HotPartition, hot_partitions
from kpybroker.machines.balance.model import BalanceModel
from kpybroker.machines.balance.move_log import MoveLog, Reasons
from kpybroker.machines.balance.ordering import PlannedMove, in_order
from kpybroker.machines.balance.search import MoveSearch

ROUNDS: Final = 16
"""The most rounds of a search."""
SMALL: Final = 2_000
"""A cluster with fewer partitions is searched in every way."""


class NodeLoad(NamedTuple):
    """The loads of a node, by resource."""

    id: int
    before: tuple[float, ...]
    after: tuple[float, ...]
    ceilings: tuple[float, ...]


class BalancePlan(NamedTuple):
    """The moves in their order, and the state of the goals before and after."""

    moves: list[PlannedMove]
    deferred: list[PlannedMove]
    """Moves for which there is no room before others are finished."""
    before: GoalVector
    after: GoalVector
    nodes: list[NodeLoad]
    hot: list[HotPartition]
    arrangement: Arrangement
    """The replicas after the plan."""

    @property
    def moved_bytes(self) -> int:
        """The bytes that the plan copies."""
        return sum(each.copied_bytes for each in self.moves)


def plan(model: BalanceModel, goals: BalanceGoals | None = None) -> BalancePlan:
    """The plan for a cluster."""
    goals = goals or BalanceGoals()
    start = Arrangement(model, goals)
    before, loads_before = start.vector(), [list(each) for each in start.load]
    ways = (False, True) if len(model) < SMALL else (False,)
    best, reasons = start, Reasons()
    vector = before
    while True:
        found = [_searched(goals, best, reasons, covers_first=way) for way in ways]
        candidate, its_reasons = min(found, key=lambda each: (each[0].vector(), each[0].moved_bytes()))
        if candidate.vector() >= vector:
            break
        best, reasons, vector = candidate, its_reasons, candidate.vector()
    moves, deferred = _ordered(best, reasons, loads_before, before)
    if deferred:
        vector = best.vector()
    nodes = [
        NodeLoad(
            node.id,
            tuple(loads[n] for loads in loads_before),
            tuple(loads[n] for loads in best.load),
            tuple(each[n] for each in best.ceiling),
        )
        for n, node in enumerate(model.nodes)
    ]
    return BalancePlan(moves, deferred, before, vector, nodes, hot_partitions(best), best)


def _ordered(
    now: Arrangement, reasons: Reasons, loads_before: list[list[float]], before: GoalVector
) -> tuple[list[PlannedMove], list[PlannedMove]]:
    """The moves in their order, and those for which there is no room, without the moves that only the latter needed."""
    deferred: list[PlannedMove] = []
    while True:
        moves, left = in_order(now, reasons, loads_before)
        deferred += left
        if not left:
            return moves, deferred
        _take_back(now)
        if now.vector() >= before:
            for partition in list(now.changed()):
                now.put_back(partition)


def _searched(
    goals: BalanceGoals, begin: Arrangement, reasons: Reasons, *, covers_first: bool
) -> tuple[Arrangement, Reasons]:
    """The result of one search that begins with an arrangement."""
    now = begin.copied()
    log = MoveLog()
    search = MoveSearch(now, log, covers_first=covers_first)
    for _ in range(ROUNDS):
        if not _round(search, goals):
            break
    _take_back(now)
    found = log.reasons()
    return now, {each: [*reasons.get(each, ()), *found.get(each, ())] for each in {**reasons, **found}}


def _round(search: MoveSearch, goals: BalanceGoals) -> bool:
    """Serve all goals once, in their order. Return whether anything changed."""
    before = len(search.log)
    if MoveReason.GONE in goals.only:
        repair.vacate(search, MoveReason.GONE)
    if MoveReason.LEAVING in goals.only:
        repair.vacate(search, MoveReason.LEAVING)
    if MoveReason.RACK in goals.only:
        repair.widen(search)
    if MoveReason.FULL in goals.only:
        repair.make_room(search)
    if MoveReason.JOINING in goals.only:
        repair.fill(search)
    if {MoveReason.OUT, MoveReason.LEADERS} <= goals.only:
        search.free_leaders()
    for resource in Resource:
        if OF_RESOURCE[resource] in goals.only:
            search.relieve(resource)
    return len(search.log) > before


def _take_back(now: Arrangement) -> None:
    """Take back moves without which every goal stands as well: others have made them unnecessary."""
    vector = now.vector()
    for partition in sorted(now.changed(), key=lambda each: (-now.model.size[each] * len(now.added(each)), each)):
        before, after = now.model.replicas_of(partition), tuple(now.of(partition))
        if not all(now.is_usable[each] for each in before) or _fills(now, partition):
            continue
        touched = set(after) ^ set(before) | {after[0], before[0]}
        excess = _excesses(now, touched)
        was_narrow = partition in now.narrow
        now.put_back(partition)
        is_worse = any(one > two for one, two in zip(_excesses(now, touched), excess, strict=True))
        if is_worse or (partition in now.narrow and not was_narrow) or (now.joining and now.vector() > vector):
            now.set_replicas(partition, after)


def _fills(now: Arrangement, partition: int) -> bool:
    """Whether a node would be above a ceiling if it got back what it has lost of a partition."""
    before, after = now.model.replicas_of(partition), now.of(partition)
    for place, node in enumerate(before):
        if node in after and (place or after[0] == node):
            continue
        parts = now.all_taken(partition, leads=not place)
        for resource in LED if node in after else Resource:
            ceiling = now.ceiling[resource][node] * (1 + SLACK)
            if parts[resource] and now.load[resource][node] + parts[resource] > ceiling:
                return True
    return False


def _excesses(now: Arrangement, nodes: set[int]) -> list[float]:
    disk = now.load[Resource.DISK]
    found = [max(0.0, disk[n] - now.room[n]) for n in sorted(nodes)]
    return found + [now.excess(resource, n) for resource in Resource for n in sorted(nodes)]
