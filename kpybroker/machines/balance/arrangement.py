"""An arrangement of replicas that a search changes: who has what, the load of each node, and its ceiling.

Invariant: ``load[r][n]`` is the sum over the replicas of node n of what each takes of resource r. A ceiling follows
from the totals alone, so no move changes it.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from kpybroker.machines.balance.goals import LED, SLACK, BalanceGoals, Resource
from kpybroker.machines.balance.model import BalanceModel

EMPTY: Final = 0.5
"""Numbers of replicas are sums of floating point; a node with fewer has none."""


class GoalVector(NamedTuple):
    """The state of each goal, the most important first; less is better, and all zero is balanced."""

    gone: int
    leaving: int
    narrow: int
    """Partitions on fewer racks than they could be."""
    full_bytes: float
    """Bytes above the limits of disks."""
    missing: float
    """The shares that new nodes lack."""
    uneven: tuple[float, ...]
    """For each resource the worst node's load above its ceiling, then the sum over nodes, as parts of ceilings."""


class Arrangement:
    """The replicas of a model, to be moved."""

    def __init__(self, model: BalanceModel, goals: BalanceGoals) -> None:
        self.model = model
        self.goals = goals
        self.replicas = model.replicas[:]
        count = len(model.nodes)
        leaving = {model.places[each] for each in goals.leaving if each in model.places}
        self.is_leaving = [place in leaving for place in range(count)]
        self.usable = [n for n, node in enumerate(model.nodes) if node.is_alive and n not in leaving]
        self.open = [n for n in self.usable if not model.nodes[n].is_cordoned]
        """The nodes that may get replicas."""
        self.is_usable = bytearray(n in set(self.usable) for n in range(count))
        racks = sorted({model.nodes[n].rack or "" for n in range(count)})
        self.rack = [racks.index(node.rack or "") for node in model.nodes]
        self.rack_count = len({self.rack[n] for n in self.usable})
        self.held: list[array[int]] = [array("i") for _ in range(count)]
        """The partitions of each node; some may have gone since, or stand there twice."""
        self.load: list[list[float]] = [[0.0] * count for _ in Resource]
        self.narrow: set[int] = set()
        """The partitions on fewer racks than they could be."""
        self._fill()
        self._factors = [end - begin for begin, end in pairwise(model.first)]
        self.shares = [self._share(resource) for resource in Resource]
        """The part of each resource that each node should have; 0 for one that should have nothing."""
        named = {model.places[each] for each in goals.joining if each in model.places}
        self.joining = named & set(self.open)
        """The nodes that are being filled, and those that were named."""
        self.ceiling = [self._ceilings(resource) for resource in Resource]
        self.room = self._rooms()
        self.is_uniform = [len({each[n] for n in self.usable}) < 2 for each in self.ceiling]
        """Whether the ceilings of all nodes are the same."""

    def _fill(self) -> None:
        model, replicas, held = self.model, self.replicas, self.held
        disk, into, out, leaders, counts = self.load
        first, size, rate_in, rate_out = model.first, model.size, model.rate_in, model.rate_out
        racks, has_racks = self.rack, self.rack_count > 1
        for partition in range(len(model)):
            begin = first[partition]
            for node in replicas[begin : first[partition + 1]]:
                held[node].append(partition)
                disk[node] += size[partition]
                into[node] += rate_in[partition]
                counts[node] += 1
            node = replicas[begin]
            out[node] += rate_out[partition]
            leaders[node] += 1
            end = first[partition + 1]
            if has_racks and len({racks[node] for node in replicas[begin:end]}) < end - begin:
                self._note_spread(partition)

    def new_nodes(self) -> list[int]:
        """The nodes that are to get their share: those that were named, those that are being filled, and those without
        a replica, if their share is one at least."""
        counts, shares = self.load[Resource.REPLICAS], self.shares[Resource.REPLICAS]
        empty = {n for n in self.open if counts[n] < EMPTY and shares[n] >= 1}
        return sorted(empty | self.joining)

    def _share(self, resource: Resource) -> list[float]:
        total, count = sum(self.load[resource]), len(self.usable)
        weights = [1.0] * len(self.model.nodes)
        if resource is Resource.DISK:
            sizes = [node.disk_bytes for node in self.model.nodes]
            if all(sizes[n] > 0 for n in self.usable):
                weights, count = [float(each) for each in sizes], 0
        whole = float(count) or sum(weights[n] for n in self.usable) or 1.0
        found = [total * weights[n] / whole if self.is_usable[n] else 0.0 for n in range(len(weights))]
        if self.rack_count > 1 and resource not in LED:
            of_each = self._of_each_rack(resource)
            for n in self.usable:
                in_rack = sum(weights[each] for each in self.usable if self.rack[each] == self.rack[n])
                found[n] = max(found[n], of_each * weights[n] / in_rack)
        return found

    def _of_each_rack(self, resource: Resource) -> float:
        """The load that every rack bears, however large it is: partitions with a replica in each rack."""
        model, count = self.model, self.rack_count
        wide = [partition for partition, factor in enumerate(self._factors) if factor >= count]
        if resource is Resource.REPLICAS:
            return float(len(wide))
        row: Sequence[float] = model.size if resource is Resource.DISK else model.rate_in
        return float(sum(row) if len(wide) == len(row) else sum(row[partition] for partition in wide))

    def _ceilings(self, resource: Resource) -> list[float]:
        goals, shares = self.goals, self.shares[resource]
        found = [each * (1 + goals.tolerance) for each in shares]
        for n in self.usable:
            if resource is Resource.DISK and self.model.nodes[n].disk_bytes > 0:
                found[n] = max(found[n], goals.idle_disk * self.model.nodes[n].disk_bytes)
            elif resource in (Resource.IN, Resource.OUT):
                found[n] = max(found[n], goals.idle_rate)
            elif resource in (Resource.LEADERS, Resource.REPLICAS):
                found[n] = max(found[n], float(-int(-shares[n] // 1)))
            found[n] = max(found[n], 1.0)
        return found

    def _rooms(self) -> list[float]:
        """The bytes of replicas that each disk may have in all; infinite where its size is unknown."""
        rooms = []
        for n, node in enumerate(self.model.nodes):
            if node.disk_bytes < 0:
                rooms.append(float("inf"))
                continue
            others = max(0.0, node.used_bytes - self.load[Resource.DISK][n]) if node.used_bytes >= 0 else 0.0
            rooms.append(self.goals.disk_limit * node.disk_bytes - others)
        return rooms

    # Reading

    def span(self, partition: int) -> range:
        """The places of a partition's replicas in ``replicas``."""
        return range(self.model.first[partition], self.model.first[partition + 1])

    def of(self, partition: int) -> Sequence[int]:
        """The nodes that have a partition."""
        return self.replicas[self.model.first[partition] : self.model.first[partition + 1]]

    def leads(self, node: int, partition: int) -> bool:
        """Whether a node is the preferred leader of a partition."""
        return self.replicas[self.model.first[partition]] == node

    def partitions_on(self, node: int) -> list[int]:
        """The partitions that a node has now and that may move, each once."""
        held = self.model.is_held
        found = [each for each in dict.fromkeys(self.held[node]) if not held[each] and node in self.of(each)]
        self.held[node] = array("i", found + [each for each in dict.fromkeys(self.held[node]) if held[each]])
        return found

    def taken(self, resource: Resource, partition: int, *, leads: bool) -> float:
        """The part of a resource that one replica takes."""
        if resource is Resource.DISK:
            return float(self.model.size[partition])
        if resource is Resource.IN:
            return self.model.rate_in[partition]
        if resource is Resource.REPLICAS:
            return 1.0
        if not leads:
            return 0.0
        return self.model.rate_out[partition] if resource is Resource.OUT else 1.0

    def all_taken(self, partition: int, *, leads: bool) -> tuple[float, ...]:
        """The parts of all resources that one replica takes."""
        model = self.model
        out, leaders = (model.rate_out[partition], 1.0) if leads else (0.0, 0.0)
        return float(model.size[partition]), model.rate_in[partition], out, leaders, 1.0

    def ratio(self, resource: Resource) -> Callable[[int], float]:
        """The load of nodes as a part of their ceilings."""
        load, ceiling = self.load[resource], self.ceiling[resource]
        return lambda node: load[node] / ceiling[node]

    def excess(self, resource: Resource, node: int) -> float:
        """The load of a node above its ceiling; 0 for one that is within it."""
        over = self.load[resource][node] - self.ceiling[resource][node]
        return over if over > SLACK * self.ceiling[resource][node] else 0.0

    def _note_spread(self, partition: int) -> None:
        nodes = self.of(partition)
        racks = {self.rack[n] for n in nodes if self.is_usable[n]}
        if len(racks) < min(len(nodes), self.rack_count):
            self.narrow.add(partition)
        else:
            self.narrow.discard(partition)

    def vector(self) -> GoalVector:
        """The state of all goals."""
        gone = leaving = 0
        counts = self.load[Resource.REPLICAS]
        for n in range(len(counts)):
            if self.is_leaving[n]:
                leaving += round(counts[n])
            elif not self.model.nodes[n].is_alive:
                gone += round(counts[n])
        disk = self.load[Resource.DISK]
        full = sum(max(0.0, disk[n] - self.room[n]) for n in self.usable)
        missing = sum(self.missing(n) for n in self.new_nodes())
        uneven: list[float] = []
        for resource in Resource:
            over = [self.excess(resource, n) / self.ceiling[resource][n] for n in self.usable] or [0.0]
            uneven += [round(max(over), 9), round(sum(over), 9)]
        return GoalVector(gone, leaving, len(self.narrow), round(full, 3), round(missing, 6), tuple(uneven))

    def missing(self, node: int) -> float:
        """The part of its share that a new node lacks, of the resource that it lacks most."""
        worst = 0.0
        for resource in (Resource.DISK, Resource.REPLICAS):
            share = self.shares[resource][node]
            floor = share * (1 - self.goals.tolerance)
            if share > 0 and self.load[resource][node] < floor:
                worst = max(worst, 1 - self.load[resource][node] / floor)
        return worst

    def moved_bytes(self) -> int:
        """The bytes that have to be copied to get here from the model."""
        return sum(self.model.size[partition] * len(self.added(partition)) for partition in self.changed())

    def changed(self) -> Iterator[int]:
        """The partitions whose replicas, or their order, differ from the model's."""
        before, after, first = self.model.replicas, self.replicas, self.model.first
        if before == after:
            return
        for partition in range(len(self.model)):
            begin, end = first[partition], first[partition + 1]
            if before[begin:end] != after[begin:end]:
                yield partition

    def added(self, partition: int) -> set[int]:
        """The nodes that get a replica of a partition."""
        return set(self.of(partition)) - set(self.model.replicas_of(partition))

    # Changing

    def move(self, partition: int, source: int, target: int) -> None:
        """Let another node have the replica of a node, with its place in the order."""
        place = self.replicas.index(source, self.model.first[partition], self.model.first[partition + 1])
        parts = self.all_taken(partition, leads=place == self.model.first[partition])
        for load, part in zip(self.load, parts, strict=True):
            load[source] -= part
            load[target] += part
        self.replicas[place] = target
        self.held[target].append(partition)
        if self.rack_count > 1:
            self._note_spread(partition)

    def lead(self, partition: int, node: int) -> None:
        """Let another of its nodes be the preferred leader of a partition."""
        begin = self.model.first[partition]
        place = self.replicas.index(node, begin, self.model.first[partition + 1])
        before = self.replicas[begin]
        self.replicas[begin], self.replicas[place] = node, before
        for resource in LED:
            part = self.taken(resource, partition, leads=True)
            self.load[resource][before] -= part
            self.load[resource][node] += part

    def put_back(self, partition: int) -> None:
        """Let a partition have the replicas of the model again."""
        self.set_replicas(partition, self.model.replicas_of(partition))

    def set_replicas(self, partition: int, replicas: Sequence[int]) -> None:
        """Let a partition have these replicas."""
        begin = self.model.first[partition]
        self._count(partition, -1)
        for place, node in enumerate(replicas, begin):
            self.replicas[place] = node
            self.held[node].append(partition)
        self._count(partition, 1)
        if self.rack_count > 1:
            self._note_spread(partition)

    def _count(self, partition: int, sign: int) -> None:
        for place in self.span(partition):
            parts = self.all_taken(partition, leads=place == self.model.first[partition])
            for load, part in zip(self.load, parts, strict=True):
                load[self.replicas[place]] += sign * part

    def copied(self) -> "Arrangement":
        """An arrangement with the same replicas, to be changed on its own."""
        found = Arrangement.__new__(Arrangement)
        found.__dict__.update(self.__dict__)
        found.replicas = self.replicas[:]
        found.narrow, found.joining = set(self.narrow), set(self.joining)
        found.held = [each[:] for each in self.held]
        found.load = [list(each) for each in self.load]
        return found
