"""The reasons why a partition moves or stays where it is, goal by goal, as a plan has decided. Pure.

Not here: the reason of a move in one line (`kpybroker.machines.balance.ordering`), and the goals of the whole cluster
(`kpybroker.machines.balance.explaining`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.explaining import RESOURCES
from kpybroker.machines.balance.goals import LED, OF_RESOURCE, MoveReason, Resource
from kpybroker.machines.balance.move_log import MoveLog
from kpybroker.machines.balance.ordering import PlannedMove
from kpybroker.machines.balance.planner import BalancePlan
from kpybroker.machines.balance.search import MoveSearch
from kpybroker.machines.balance.words import size_words

NAMED: Final = 3
"""The number of brokers that are named for one obstacle."""
NO_ROOM: Final = "its disk would be above the limit"
STOPPED: Final = "it could, and the search has stopped before"


class PartitionGoal(NamedTuple):
    """The state of a partition as a goal sees it, now and after the plan."""

    name: str
    now: str
    after: str


class PlacedPartition(NamedTuple):
    """The decision about a partition and its reasons."""

    decision: str
    goals: list[PartitionGoal]
    obstacles: list[str]
    """For each of its brokers that stays above a ceiling, why no other takes this replica."""


def partition_of(plan: BalancePlan, topic: str, number: int) -> int | None:
    """The index of a partition in the model of a plan; None if it is not there."""
    model = plan.arrangement.model
    found = (
        each for each in range(len(model)) if model.number[each] == number and model.topics[model.topic[each]] == topic
    )
    return next(found, None)


def whereabouts(plan: BalancePlan, partition: int) -> PlacedPartition:
    """The decision of a plan about a partition, and what each goal says of it."""
    after = plan.arrangement
    before = _before(plan)
    names = [name for name, _ in _states(before, partition)]
    now, then = (dict(_states(each, partition)) for each in (before, after))
    goals = [PartitionGoal(name, now[name], then[name]) for name in names]
    obstacles = [] if after.model.is_held[partition] else list(_obstacles(after, partition))
    return PlacedPartition(_decision(plan, partition, is_content=not obstacles), goals, obstacles)


def _before(plan: BalancePlan) -> Arrangement:
    """The arrangement as it was. Ceilings and shares follow from totals, so they are the same."""
    before = plan.arrangement.copied()
    for partition in list(before.changed()):
        before.put_back(partition)
    before.load = [[load.before[resource] for load in plan.nodes] for resource in Resource]
    return before


def _decision(plan: BalancePlan, partition: int, *, is_content: bool) -> str:
    model = plan.arrangement.model
    move = _of(plan.moves, model.topics[model.topic[partition]], model.number[partition])
    if move is not None:
        return move.text
    deferred = _of(plan.deferred, model.topics[model.topic[partition]], model.number[partition])
    if deferred is not None:
        return f"It has to wait, since a disk has no room for it before other moves end. {deferred.text}"
    name, brokers = model.name(partition), ", ".join(map(str, model.ids(model.replicas_of(partition))))
    if model.is_held[partition]:
        return f"{name} is left alone on {brokers}: it moves already, or lacks a replica in sync"
    return f"{name} stays on {brokers}{': no goal asks for another place' if is_content else ''}"


def _of(moves: Iterable[PlannedMove], topic: str, number: int) -> PlannedMove | None:
    return next((each for each in moves if (each.topic, each.partition) == (topic, number)), None)


def _states(now: Arrangement, partition: int) -> Iterator[tuple[str, str]]:
    """The state of a partition as each goal sees it, the most important first."""
    nodes, model, having = now.model.nodes, now.model, now.of(partition)
    gone = [nodes[n].id for n in having if not nodes[n].is_alive]
    yield "brokers that are gone", _listed(gone, "none of its brokers", _GONE if gone and not _serves_gone(now) else "")
    yield "drained brokers", _listed([nodes[n].id for n in having if now.is_leaving[n]], "none of its brokers")
    racks = len({now.rack[n] for n in having if now.is_usable[n]})
    yield "racks", f"on {racks} of {min(len(having), max(now.rack_count, 1))} that it could be on"
    yield "limits of disks", "; ".join(_fill_words(now, n) for n in having)
    yield "new brokers", "; ".join(_new_words(now, n) for n in now.new_nodes()) or "none in the cluster"
    for resource, name in RESOURCES.items():
        if not now.taken(resource, partition, leads=True):
            yield name, "it takes none"
        else:
            bearing = having[:1] if resource in LED else having
            yield name, "; ".join(_load_words(now, resource, n) for n in bearing)
    if model.is_held[partition]:
        yield "moves and replicas out of sync", "it is left alone"


_GONE: Final = ", which keep their replicas: most come back"


def _serves_gone(now: Arrangement) -> bool:
    return MoveReason.GONE in now.goals.only


def _listed(ids: Sequence[int], none: str, further: str = "") -> str:
    return ", ".join(map(str, ids)) + further if ids else none


def _new_words(now: Arrangement, node: int) -> str:
    """``4 lacks 60 % of its share``."""
    missing = now.missing(node)
    return f"{now.model.nodes[node].id} {f'lacks {100 * missing:.0f} % of its share' if missing else 'has its share'}"


def _fill_words(now: Arrangement, node: int) -> str:
    """``1: 82 % of at most 85 %``."""
    broker, limit = now.model.nodes[node], now.goals.disk_limit
    if broker.disk_bytes <= 0:
        return f"{broker.id}: size unknown"
    used = now.load[Resource.DISK][node] + limit * broker.disk_bytes - now.room[node]
    return f"{broker.id}: {100 * used / broker.disk_bytes:.0f} % of at most {100 * limit:.0f} %"


def _load_words(now: Arrangement, resource: Resource, node: int) -> str:
    """``3: 39 MB/s of at most 26 MB/s``."""
    load, ceiling = (_amount(resource, row[resource][node]) for row in (now.load, now.ceiling))
    return f"{now.model.nodes[node].id}: {load} of at most {ceiling}"


def _amount(resource: Resource, count: float) -> str:
    if resource is Resource.DISK:
        return size_words(round(count))
    return f"{size_words(round(count))}/s" if resource in (Resource.IN, Resource.OUT) else f"{count:.0f}"


def _obstacles(now: Arrangement, partition: int) -> Iterator[str]:
    """For each goal that is not met, why no other broker takes a replica, or its lead."""
    search = MoveSearch(now, MoveLog())
    if partition in now.narrow:
        racks = {now.rack[each] for each in now.of(partition) if now.is_usable[each]}
        others = [each for each in now.open if now.rack[each] not in racks]
        whys = {each: _without_room(now, partition, each) for each in others}
        yield _line("It stays on fewer racks than it could be on", now, whys)
    for node in now.of(partition):
        leads, broker = now.leads(node, partition), now.model.nodes[node].id
        if now.is_usable[node] and now.load[Resource.DISK][node] > now.room[node]:
            whys = {
                each: _obstacle(search, partition, (node, each), Resource.DISK) for each in now.open if each != node
            }
            yield _line(f"The disk of broker {broker} stays above the limit", now, whys)
        for resource, name in RESOURCES.items():
            if not now.taken(resource, partition, leads=leads) or not now.is_usable[node]:
                continue
            if not now.excess(resource, node):
                continue
            above = f"Broker {broker} stays above its share of {name}"
            if OF_RESOURCE[resource] not in now.goals.only:
                yield f"{above}, which this plan does not serve."
                continue
            others = [*now.of(partition)] if resource is Resource.LEADERS else now.open
            whys = {each: _obstacle(search, partition, (node, each), resource) for each in others if each != node}
            yield _line(above, now, whys)


def _line(what: str, now: Arrangement, whys: Mapping[int, str]) -> str:
    """``Broker 3 stays above its share of leaders: to 4, 5: it would be no better off.``"""
    reasons: dict[str, list[int]] = {}
    for node, why in whys.items():
        reasons.setdefault(why, []).append(now.model.nodes[node].id)
    return f"{what}: {'; '.join(_to_words(ids, why) for why, ids in reasons.items()) or 'there is no other'}."


def _to_words(ids: Sequence[int], why: str) -> str:
    """``to 4, 5, 6 and 2 more: its rack has a replica``."""
    more = f" and {len(ids) - NAMED} more" if len(ids) > NAMED else ""
    return f"to {', '.join(map(str, ids[:NAMED]))}{more}: {why}"


def _obstacle(search: MoveSearch, partition: int, way: tuple[int, int], resource: Resource) -> str:
    """Why a replica, or its lead, does not go from one node to another."""
    now, (node, other) = search.now, way
    leads = now.leads(node, partition)
    is_lead = other in now.of(partition)
    if is_lead and not (leads and resource in LED):
        return "it has a replica already"
    parts = list(now.all_taken(partition, leads=leads))
    if is_lead:
        parts = [part if each in LED else 0.0 for each, part in zip(Resource, parts, strict=True)]
    elif not search.keeps_racks(partition, node, other):
        return "its rack has a replica already"
    if not search.eases(resource, node, other, parts[resource]):
        return "it would be no better off"
    if not is_lead and now.load[Resource.DISK][other] + parts[Resource.DISK] > now.room[other]:
        return NO_ROOM
    for each in Resource:
        if each < resource and parts[each] and not search.fits(other, _alone(parts, each), None, strict=True):
            return f"it would be above its share of {RESOURCES[each]}"
    return STOPPED


def _without_room(now: Arrangement, partition: int, node: int) -> str:
    is_full = now.load[Resource.DISK][node] + now.model.size[partition] > now.room[node]
    return NO_ROOM if is_full else STOPPED


def _alone(parts: Sequence[float], resource: Resource) -> list[float]:
    """One of the parts, and nothing of all others."""
    return [part if each == resource else 0.0 for each, part in zip(Resource, parts, strict=True)]
