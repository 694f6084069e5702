"""The goals of a plan, in their order: nodes that go, racks, full disks, new nodes, then resource by resource.

A plan never gives up something that comes first for something that comes later; the bytes that it moves come last.
Not here: the search (`kpybroker.machines.balance.search`).
"""

from enum import IntEnum
from typing import Final, NamedTuple


class Resource(IntEnum):
    """The resources of a node, the most important first: a later one is never served at the cost of an earlier one."""

    DISK = 0
    IN = 1
    OUT = 2
    LEADERS = 3
    REPLICAS = 4


class MoveReason(IntEnum):
    """The reason of a change, the most important first."""

    GONE = 0
    LEAVING = 1
    RACK = 2
    FULL = 3
    JOINING = 4
    DISK = 5
    IN = 6
    OUT = 7
    LEADERS = 8
    REPLICAS = 9
    ROOM = 10
    """It makes room for another replica."""


OF_RESOURCE: Final = {
    Resource.DISK: MoveReason.DISK,
    Resource.IN: MoveReason.IN,
    Resource.OUT: MoveReason.OUT,
    Resource.LEADERS: MoveReason.LEADERS,
    Resource.REPLICAS: MoveReason.REPLICAS,
}
LED: Final = (Resource.OUT, Resource.LEADERS)
"""Resources that leaders alone use: these move without data."""
SLACK: Final = 1e-9
"""The relative size of differences that are rounding."""


class BalanceGoals(NamedTuple):
    """The state of a cluster that is wanted."""

    tolerance: float = 0.1
    """The part by which a node may be above its share of a resource."""
    disk_limit: float = 0.85
    """The part of a disk that a plan fills at most, at every step."""
    idle_disk: float = 0.2
    """A disk that is filled less than that is no reason for a move."""
    idle_rate: float = 1024 * 1024
    """A node with less traffic, in bytes a second, is no reason for a move."""
    least_gain: float = 0.02
    """The least relief of a node above its share that is worth a move, as a part of the share."""
    leaving: frozenset[int] = frozenset()
    """The ids of nodes that lose all replicas."""
    joining: frozenset[int] = frozenset()
    """The ids of nodes that get their share, in addition to nodes without a replica."""
    only: frozenset[MoveReason] = frozenset(MoveReason)
    """The goals to serve; others are left alone."""
