"""The execution of a plan: which moves begin now, which are finished, and when leaders are elected.

The state is the cluster's own: partitions that move, and partitions that are where they are wanted. So an execution
that was killed is continued by another one with the same plan. Not here: requests
(`kpybroker.client.balance_execution`), the throttle (`kpybroker.machines.balance.pace`).

Invariant: a node takes part in moves of at most ``in_flight_bytes``, or in one larger move alone, and in at most
``in_flight_moves``; no move begins for which a disk has no room.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.balance.plan_file import WantedPartition

Place = tuple[str, int]
"""A topic and a partition's number."""
GIB: Final = 1024**3
LOOKS: Final = 3


class ExecutionLimits(NamedTuple):
    """The limits of what is under way at a time, for each node."""

    in_flight_bytes: int = 10 * GIB
    in_flight_moves: int = 5


class PresentPartition(NamedTuple):
    """A partition as it is: its replicas, those of them that come, and the bytes of one."""

    replicas: tuple[int, ...]
    leader: int
    size_bytes: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    @property
    def is_moving(self) -> bool:
        return bool(self.adding or self.removing)

    @property
    def staying(self) -> tuple[int, ...]:
        """The replicas when the present move is finished."""
        return tuple(each for each in self.replicas if each not in self.removing)


class NextSteps(NamedTuple):
    """The steps to take now."""

    begin: list[WantedPartition]
    """The moves that may begin; `Execution.began` hears of those that did."""
    finished: list[WantedPartition]
    """The moves that have been finished since the last time."""
    cancelled: list[WantedPartition]
    """The moves that somebody has cancelled: the execution is to end."""
    waiting: int
    under_way: int


class Execution:
    """One execution of a plan."""

    def __init__(
        self, wanted: Iterable[WantedPartition], limits: ExecutionLimits, free_bytes: Mapping[int, int] | None = None
    ) -> None:
        """``free_bytes``: the bytes that may still be written to the disks of nodes, where they are known."""
        self._left = {(each.topic, each.partition): each for each in wanted}
        self._limits = limits
        self._free = dict(free_bytes or {})
        self._begun: set[Place] = set()
        self._to_free: dict[Place, tuple[list[int], int]] = {}
        """The moves for which room is reserved: the nodes that lose a replica in the end, and its bytes."""
        self._stopped_looks: dict[Place, int] = {}
        """How often in a row a partition that moved was seen where it had been before."""

    @property
    def places(self) -> list[Place]:
        """The partitions that are not yet where they are wanted."""
        return list(self._left)

    @property
    def begun(self) -> set[Place]:
        """The partitions that move by this plan."""
        return set(self._begun)

    def began(self, wanted: Iterable[WantedPartition]) -> None:
        """Note that moves have begun: the controller has accepted them."""
        for each in wanted:
            self._begun.add((each.topic, each.partition))
            self._stopped_looks[each.topic, each.partition] = 0

    def next_steps(self, present: Mapping[Place, PresentPartition], *, may_begin: bool = True) -> NextSteps:
        """The steps that follow from the present state of the partitions. One that is missing has been deleted."""
        finished = [place for place, each in self._left.items() if self._is_finished(each, present.get(place))]
        done = [self._left.pop(place) for place in finished]
        self._begun.difference_update(finished)
        for place in finished:
            self._stopped_looks.pop(place, None)
            nodes, size_bytes = self._to_free.pop(place, ([], 0))
            for node in nodes:
                if node in self._free:
                    self._free[node] += size_bytes
        usage: dict[int, list[int]] = {}
        for place, partition in present.items():
            if partition.is_moving:
                _use(usage, _nodes_of(partition, partition.adding), partition.size_bytes)
                wanted = self._left.get(place)
                if wanted is not None and partition.staying == wanted.replicas:
                    self._begun.add(place)
                    self._stopped_looks[place] = 0
        cancelled = [self._left[place] for place in self._begun if self._is_cancelled(place, present)]
        may_begin = may_begin and not any(self._stopped_looks.values())
        begin = list(self._chosen(present, usage)) if may_begin else []
        under_way = len(self._begun) + len(begin)
        return NextSteps(begin, done, cancelled, len(self._left) - under_way, under_way)

    def _is_cancelled(self, place: Place, present: Mapping[Place, PresentPartition]) -> bool:
        """Whether a partition that began to move stays without its new replicas. A broker that answers may have heard
        less than the controller, so this is believed when it was seen several times."""
        partition, wanted = present[place], self._left[place]
        if partition.is_moving or {*wanted.replicas} <= {*partition.replicas}:
            return False
        self._stopped_looks[place] += 1
        return self._stopped_looks[place] >= LOOKS

    def _is_finished(self, wanted: WantedPartition, present: PresentPartition | None) -> bool:
        return present is None or (not present.is_moving and present.replicas == wanted.replicas)

    def _chosen(
        self, present: Mapping[Place, PresentPartition], usage: dict[int, list[int]]
    ) -> Iterable[WantedPartition]:
        """The moves that may begin, in the order of the plan; those that copy nothing wait for all others."""
        copying = False
        for place, wanted in self._left.items():
            partition = present[place]
            added = [each for each in wanted.replicas if each not in partition.replicas]
            if partition.is_moving or place in self._begun:
                copying = copying or partition.staying == wanted.replicas
                continue
            if not added:
                continue
            copying = True
            nodes = _nodes_of(partition, added)
            is_reserved = place in self._to_free
            if not (is_reserved or self._has_room(added, partition.size_bytes)):
                continue
            if not self._is_within(usage, nodes, partition):
                continue
            _use(usage, nodes, partition.size_bytes)
            for node in () if is_reserved else added:
                if node in self._free:
                    self._free[node] -= partition.size_bytes
            gone = [each for each in partition.replicas if each not in wanted.replicas]
            self._to_free[place] = gone, partition.size_bytes
            yield wanted
        if not copying:
            yield from (
                each for place, each in self._left.items() if not present[place].is_moving and place not in self._begun
            )

    def _has_room(self, nodes: Collection[int], size_bytes: int) -> bool:
        return all(self._free.get(node, size_bytes) >= size_bytes for node in nodes)

    def _is_within(self, usage: Mapping[int, list[int]], nodes: Collection[int], partition: PresentPartition) -> bool:
        for node in nodes:
            used, moves = usage.get(node, (0, 0))
            too_large = moves and used + partition.size_bytes > self._limits.in_flight_bytes
            if too_large or moves >= self._limits.in_flight_moves:
                return False
        return True


def _nodes_of(partition: PresentPartition, added: Iterable[int]) -> list[int]:
    """The nodes that a move loads: its leader, which sends, and the new replicas."""
    return sorted({partition.leader, *added} - {-1})


def _use(usage: dict[int, list[int]], nodes: Iterable[int], size_bytes: int) -> None:
    for node in nodes:
        used = usage.setdefault(node, [0, 0])
        used[0] += size_bytes
        used[1] += 1
