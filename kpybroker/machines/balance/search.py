"""The bounded local search for a better arrangement: leaders first, which move without data, then single replicas by
relief per byte, then exchanges of two.

A change is made only if no node gets above its ceiling of a resource that comes first, and if the node that is relieved
stays the higher one of the two. So the vector of goals falls with every change, and the search ends.

Not here: the goals about nodes and racks (`kpybroker.machines.balance.repair`), the rounds
(`kpybroker.machines.balance.planner`).
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kpybroker.machines.balance.arrangement import Arrangement
from kpybroker.machines.balance.goals import LED, OF_RESOURCE, SLACK, MoveReason, Resource
from kpybroker.machines.balance.move_log import MoveLog

TARGETS: Final = 48
"""The most nodes that are tried for one replica."""
EXCHANGED: Final = 48
"""The most replicas of a node that are tried in exchanges."""
RESORTED: Final = 16
"""Nodes are sorted again after this number of changes; before, only those that have changed are."""
PARTNERS: Final = 12
"""The most replicas of another node that are tried in exchange for one."""


class MoveSearch:
    """The changes of one arrangement. ``covers_first``: begin with one replica that relieves a node at once."""

    def __init__(self, arrangement: Arrangement, log: MoveLog, *, covers_first: bool = False) -> None:
        self.now = arrangement
        self.log = log
        self.covers_first = covers_first
        self._open = set(arrangement.open)
        self._orders: dict[Resource, tuple[int, list[int]]] = {}
        """The nodes by their load, and the length of the log at that time."""

    # Where to

    def fits(self, node: int, parts: Sequence[float], spared: Resource | None, *, strict: bool) -> bool:
        """Whether a node stays within its ceilings with these further parts: of what comes before the spared resource,
        or if ``strict`` of all others."""
        now = self.now
        if now.load[Resource.DISK][node] + parts[Resource.DISK] > now.room[node]:
            return False
        for other in Resource:
            is_later = spared is not None and other > spared
            if other == spared or (is_later and not strict) or parts[other] <= 0:
                continue
            if now.load[other][node] + parts[other] > now.ceiling[other][node] * (1 + SLACK):
                return False
        return True

    def eases(self, resource: Resource, source: int, target: int, part: float) -> bool:
        """Whether a part that goes from one node to another makes things better: the target stays within its ceiling,
        or lower than the source was by more than a trifle."""
        now = self.now
        before = now.load[resource][source] / now.ceiling[resource][source] if now.ceiling[resource][source] else 2.0
        after = (now.load[resource][target] + part) / now.ceiling[resource][target]
        return after <= max(1.0 + SLACK, before - now.goals.least_gain)

    def targets(self, partition: int, source: int, resource: Resource, *, everywhere: bool = False) -> Iterator[int]:
        """The nodes that may get the replica of a node, the least loaded first. No rack is lost, and a partition that
        could be on more racks gets one, except ``everywhere``."""
        now = self.now
        having = now.of(partition)
        racks = {now.rack[each] for each in having if each != source and now.is_usable[each]}
        is_free = now.rack[source] in racks or not now.is_usable[source]
        if is_free and not everywhere and len(racks) < now.rack_count and partition in now.narrow:
            is_free = False
        tried = 0
        for node in self._order(resource):
            if node in having or not (is_free or now.rack[node] not in racks):
                continue
            yield node
            tried += 1
            if tried >= TARGETS:
                return

    def _order(self, resource: Resource) -> list[int]:
        """The nodes that may get replicas, the least loaded first. Those that have changed since are put in again."""
        at, order = self._orders.get(resource, (-RESORTED, list(self.now.open)))
        moves = self.log.moves
        if at != len(moves):
            ratio = self.now.ratio(resource)
            if len(moves) - at >= RESORTED:
                order.sort(key=ratio)
            else:
                changed = {node for move in moves[at:] for node in (move.source, move.target)}
                order = [node for node in order if node not in changed]
                for node in changed & self._open:
                    insort(order, node, key=ratio)
            self._orders[resource] = len(moves), order
        return order

    def move(self, partition: int, source: int, resource: Resource, reason: MoveReason, *, strict: bool) -> bool:
        """Move the replica of a node to the best other node. Return whether there is one."""
        now = self.now
        parts = now.all_taken(partition, leads=now.leads(source, partition))
        for target in self.targets(partition, source, resource):
            if not self.eases(resource, source, target, parts[resource]):
                if now.is_uniform[resource]:
                    return False  # all others are fuller
            elif self.fits(target, parts, resource, strict=strict):
                self.log.note(reason, partition, source, target)
                now.move(partition, source, target)
                return True
        return False

    # Passes over the nodes above their ceilings

    def over(self, resource: Resource) -> list[int]:
        """The nodes above their ceilings, the worst first."""
        now = self.now
        found = [node for node in now.usable if now.excess(resource, node)]
        return sorted(found, key=now.ratio(resource), reverse=True)

    def relieve(self, resource: Resource) -> None:
        """Relieve all nodes above their ceilings of a resource."""
        for node in self.over(resource):
            if resource in LED:
                self._hand_over(node, resource)
            if resource is Resource.LEADERS:
                continue
            for strict in (True, False):
                self._send_away(node, resource, strict=strict)
            is_left = self.now.excess(resource, node) and node in self._open
            if is_left and resource is not Resource.REPLICAS:
                self._exchange(node, resource)

    def free_leaders(self) -> None:
        """Relieve nodes by leaders alone, which move without data."""
        for resource in LED:
            for node in self.over(resource):
                self._hand_over(node, resource)

    def _candidates(self, node: int, resource: Resource) -> list[tuple[float, int]]:
        """The replicas of a node that take something of a resource, and how much."""
        now = self.now
        found = []
        for partition in now.partitions_on(node):
            part = now.taken(resource, partition, leads=now.leads(node, partition))
            if part > 0:
                found.append((part, partition))
        return found

    def _in_turn(
        self, node: int, resource: Resource, found: Iterable[tuple[float, int]]
    ) -> Iterator[tuple[float, int]]:
        """The candidates of a node in the order in which to try them, as long as it is above its ceiling: those that
        relieve it most per byte and are not too large, then the cheapest that relieves it at once."""
        now, size = self.now, self.now.model.size
        by_cost = sorted(found, key=lambda each: (size[each[1]] / each[0], -each[0], each[1]))
        covering = sorted(by_cost, key=lambda each: (size[each[1]], each[1]))
        for is_covering in (self.covers_first, not self.covers_first):
            for part, partition in covering if is_covering else by_cost:
                excess = now.excess(resource, node)
                if not excess:
                    return
                if (part >= excess * (1 - SLACK)) == is_covering or part == excess:
                    yield part, partition

    def _hand_over(self, node: int, resource: Resource) -> None:
        """Let others lead partitions of a node."""
        now = self.now
        led = [each for each in self._candidates(node, resource) if now.leads(node, each[1])]
        ratio = now.ratio(resource)
        for part, partition in self._in_turn(node, resource, led):
            others = [each for each in now.of(partition) if now.is_usable[each] and each != node]
            if not now.leads(node, partition) or not others:
                continue
            target = min(others, key=lambda each: (ratio(each), each))
            parts = [0.0] * len(Resource)
            for each in LED:
                parts[each] = now.taken(each, partition, leads=True)
            if self.eases(resource, node, target, part) and self.fits(target, parts, resource, strict=False):
                self.log.note(OF_RESOURCE[resource], partition, node, target)
                now.lead(partition, target)

    def _send_away(self, node: int, resource: Resource, *, strict: bool) -> None:
        """Move replicas of a node to other nodes."""
        if not self.now.excess(resource, node):
            return
        for _, partition in self._in_turn(node, resource, self._candidates(node, resource)):
            if node in self.now.of(partition):
                self.move(partition, node, resource, OF_RESOURCE[resource], strict=strict)

    def _exchange(self, node: int, resource: Resource) -> None:
        """Exchange large replicas of a node for small ones of others."""
        now = self.now
        tried = sorted(self._candidates(node, resource), key=lambda each: (-each[0], each[1]))[:EXCHANGED]
        theirs: dict[int, list[tuple[float, int]]] = {}
        for part, partition in tried:
            if not now.excess(resource, node):
                return
            for other in self.targets(partition, node, resource):
                small = theirs.get(other)
                if small is None:
                    small = theirs[other] = sorted(self._candidates(other, resource))
                if self._exchanged(resource, node, other, (part, partition), small):
                    theirs.clear()
                    break

    def _exchanged(
        self,
        resource: Resource,
        node: int,
        other: int,
        large: tuple[float, int],
        small: Sequence[tuple[float, int]],
    ) -> bool:
        """Exchange one replica for the first suitable one of another node, if there is one."""
        now = self.now
        part, partition = large
        lowest = part - max(0.0, now.ceiling[resource][other] - now.load[resource][other])
        begin = bisect_left(small, (lowest, 0))
        for start in (begin, 0) if begin else (0,):
            for back, partner in small[start : start + PARTNERS]:
                if back >= part or partner == partition:
                    break
                if self._may_exchange(resource, node, other, large, (back, partner)):
                    self.log.note(OF_RESOURCE[resource], partition, node, other)
                    now.move(partition, node, other)
                    self.log.note(MoveReason.ROOM, partner, other, node)
                    now.move(partner, other, node)
                    return True
        return False

    def _may_exchange(
        self, resource: Resource, node: int, other: int, large: tuple[float, int], small: tuple[float, int]
    ) -> bool:
        now = self.now
        (part, partition), (back, partner) = large, small
        if node in now.of(partner) or other in now.of(partition) or other not in now.of(partner):
            return False
        gain = part - back
        if gain < now.goals.least_gain * now.ceiling[resource][node] and gain < now.excess(resource, node):
            return False
        if not self.eases(resource, node, other, gain) or not self.keeps_racks(partner, other, node):
            return False
        given = now.all_taken(partition, leads=now.leads(node, partition))
        taken = now.all_taken(partner, leads=now.leads(other, partner))
        there = [one - two for one, two in zip(given, taken, strict=True)]
        here = [-each for each in there]
        return self.fits(other, there, resource, strict=False) and self.fits(node, here, resource, strict=False)

    def keeps_racks(self, partition: int, source: int, target: int) -> bool:
        """Whether a partition loses no rack by a move."""
        now = self.now
        racks = {now.rack[each] for each in now.of(partition) if each != source and now.is_usable[each]}
        return now.rack[source] in racks or now.rack[target] not in racks
