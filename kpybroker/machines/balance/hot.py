"""Hot partitions: one alone takes more of a resource than a node should have, so that no placement helps."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.goals import Resource

MOST: Final = 20
"""The most hot partitions that are named."""
_HEATED: Final = (Resource.DISK, Resource.IN, Resource.OUT)


class HotPartition(NamedTuple):
    """A partition that is too large for any node's share."""

    name: str
    node: int
    """The id of a node that has to bear it."""
    resource: Resource
    part: float
    """Bytes, or bytes a second."""
    ceiling: float
    """The most that the node should have in all."""
    of_node: float
    """The part of the node's load that it makes."""


def hot_partitions(now: Arrangement) -> list[HotPartition]:
    """The hot partitions, the hottest first, each with the resource that it needs most of."""
    model = now.model
    found = []
    rows: tuple[Sequence[float], ...] = (model.size, model.rate_in, model.rate_out)
    for resource, row in zip(_HEATED, rows, strict=True):
        ceilings = [now.ceiling[resource][n] for n in now.usable]
        if not ceilings or not row or max(row) <= max(ceilings):
            continue
        for partition in range(len(model)):
            if row[partition] > max(ceilings):
                node = now.of(partition)[0]
                part, load = float(row[partition]), now.load[resource][node]
                ceiling = now.ceiling[resource][node]
                name = model.name(partition)
                found.append(HotPartition(name, model.nodes[node].id, resource, part, ceiling, part / load))
    worst: dict[str, HotPartition] = {}
    for each in sorted(found, key=lambda each: each.ceiling / each.part):
        worst.setdefault(each.name, each)
    return list(worst.values())[:MOST]
