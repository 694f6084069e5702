"""The goals about nodes, racks and disks: replicas leave nodes that go, partitions get as many racks as they can have,
disks fall below the limit, new nodes get their share.

Not here: the balance of resources (`kpybroker.machines.balance.search`).
"""

from collections.abc import Sequence

from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.goals import SLACK, MoveReason, Resource
from kpybroker.machines.balance.search import MoveSearch

_PLACED_BY = Resource.DISK


def vacate(search: MoveSearch, reason: MoveReason) -> None:
    """Move the replicas of nodes that are gone, or that are to leave, to others."""
    now = search.now
    for node in range(len(now.model.nodes)):
        is_gone = not now.model.nodes[node].is_alive
        is_leaving = now.is_leaving[node]
        if is_leaving if reason is MoveReason.LEAVING else is_gone and not is_leaving:
            for partition in sorted(now.partitions_on(node), key=lambda each: (-now.model.size[each], each)):
                _place(search, partition, node, reason)


def _place(search: MoveSearch, partition: int, source: int, reason: MoveReason) -> bool:
    """Move one replica to the node that it loads least, first within all ceilings, then within the disk alone."""
    now = search.now
    parts = now.all_taken(partition, leads=now.leads(source, partition))
    resource = _PLACED_BY if parts[_PLACED_BY] else Resource.REPLICAS
    for is_last in (False, True):
        for target in search.targets(partition, source, resource, everywhere=is_last and reason is not MoveReason.RACK):
            if search.fits(target, parts, None if not is_last else Resource.DISK, strict=not is_last):
                search.log.note(reason, partition, source, target)
                now.move(partition, source, target)
                return True
    return False


def widen(search: MoveSearch) -> None:
    """Move replicas that share a rack to other racks."""
    now = search.now
    if now.rack_count < 2:
        return
    for partition in sorted(now.narrow):
        while not now.model.is_held[partition] and partition in now.narrow:
            if not any(_place(search, partition, node, MoveReason.RACK) for node in _sharing(now, partition)):
                break


def _sharing(now: Arrangement, partition: int) -> list[int]:
    """The nodes of a partition that share their rack, those that follow and are fullest first."""
    nodes = [each for each in now.of(partition) if now.is_usable[each]]
    racks = [now.rack[each] for each in nodes]
    sharing = [each for each in nodes if racks.count(now.rack[each]) > 1]
    ratio = now.ratio(Resource.DISK)
    return sorted(sharing, key=lambda each: (now.leads(each, partition), -ratio(each)))


def make_room(search: MoveSearch) -> None:
    """Move replicas away from disks above the limit, the largest first."""
    now = search.now
    disk = now.load[Resource.DISK]
    for node in sorted(now.usable, key=lambda each: now.room[each] - disk[each]):
        if disk[node] <= now.room[node]:
            break
        size = now.model.size
        found = sorted((each for each in now.partitions_on(node) if size[each]), key=lambda each: (-size[each], each))
        for partition in found:
            if size[partition] < disk[node] - now.room[node]:
                _place(search, partition, node, MoveReason.FULL)
        for partition in reversed(found):
            if size[partition] >= disk[node] - now.room[node] > 0 and node in now.of(partition):
                _place(search, partition, node, MoveReason.FULL)


def fill(search: MoveSearch) -> None:
    """Move replicas to new nodes until each has its share."""
    now = search.now
    now.joining.update(now.new_nodes())
    for node in sorted(now.joining):
        by_size = any(now.shares[Resource.DISK])
        resource = Resource.DISK if by_size else Resource.REPLICAS
        sources: dict[int, list[int]] = {}
        tried: set[int] = set()
        while now.missing(node):
            givers = [each for each in now.usable if each != node and each not in tried]
            if not givers:
                break
            source = max(givers, key=now.ratio(resource))
            if now.load[resource][source] <= now.shares[resource][source] * (1 - now.goals.tolerance):
                break
            if source not in sources:
                sources[source] = now.partitions_on(source)[::-1]
            if not _given(search, source, node, sources[source]):
                tried.add(source)


def _keeps_floor(now: Arrangement, source: int, parts: Sequence[float]) -> bool:
    """Whether a node that gives a replica away still has about its share."""
    return all(
        now.load[each][source] - parts[each] >= now.shares[each][source] * (1 - now.goals.tolerance) * (1 - SLACK)
        for each in (Resource.DISK, Resource.REPLICAS)
    )


def _given(search: MoveSearch, source: int, target: int, left: list[int]) -> bool:
    """Move the next suitable replica of a node to a new one."""
    now = search.now
    while left:
        partition = left.pop()
        having = now.of(partition)
        if source not in having or target in having or not search.keeps_racks(partition, source, target):
            continue
        parts = now.all_taken(partition, leads=now.leads(source, partition))
        if _keeps_floor(now, source, parts) and search.fits(target, parts, None, strict=True):
            search.log.note(MoveReason.JOINING, partition, source, target)
            now.move(partition, source, target)
            return True
    return False
