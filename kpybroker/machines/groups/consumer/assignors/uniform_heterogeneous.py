"""The assignor ``uniform`` for members that read different topics (Kafka: ``UniformHeterogeneousAssignmentBuilder``).

Members keep what they may. What nobody has goes to the subscriber with the least. Then topic by topic, partitions move
from the subscribers with the most to those with the least, until no topic can be balanced better or some rounds have
passed.
"""

from collections.abc import Iterable, Sequence

from kpybroker.machines.groups.consumer.assignors.group_spec import Assignment, GroupSpec
from kpybroker.machines.groups.epochs.java_order import uuid_key

MOST_ROUNDS = 16
NO_OWNER = -1


def assign_heterogeneous(spec: GroupSpec) -> Assignment:
    """Assign all topics."""
    balance = _Balance(spec)
    if not balance.sizes:
        return {}
    balance.keep()
    balance.assign_rest()
    balance.even_out()
    return balance.assignment()


class _Balance:
    """The owner of each partition, by its place in the list of members, and how many partitions each member has."""

    def __init__(self, spec: GroupSpec) -> None:
        self._spec = spec
        self._member_ids = list(spec.members)
        self.sizes: dict[bytes, int] = {}
        self._subscribers: dict[bytes, list[int]] = {}
        for number, member in enumerate(spec.members.values()):
            for topic_id, size in member.topic_ids.items():
                self.sizes[topic_id] = size
                self._subscribers.setdefault(topic_id, []).append(number)
        self._owners = {topic_id: [NO_OWNER] * size for topic_id, size in self.sizes.items()}
        self._loads = [0] * len(self._member_ids)

    def keep(self) -> None:
        """Let members keep the partitions of the topics that they still read."""
        for number, member in enumerate(self._spec.members.values()):
            for topic_id, indexes in member.target.items():
                if topic_id in member.topic_ids:
                    self._loads[number] += len(indexes)
                    for index in indexes:
                        self._owners[topic_id][index] = number

    def assign_rest(self) -> None:
        """Give each partition that nobody has to the subscriber with the least."""
        for topic_id in self._ordered(self.sizes):
            free = [index for index, owner in enumerate(self._owners[topic_id]) if owner == NO_OWNER]
            if not free:
                continue
            ranks = _Ranks(self._loads, self._subscribers[topic_id])
            for index in free:
                self._move(topic_id, index, ranks.next_least())

    def even_out(self) -> None:
        """Move partitions until a whole round over the topics has moved none."""
        shared = self._ordered(topic_id for topic_id in self.sizes if len(self._subscribers[topic_id]) > 1)
        last_changed = -1
        for _ in range(MOST_ROUNDS):
            for number, topic_id in enumerate(shared):
                if number == last_changed:
                    return
                if self._even_out_topic(topic_id) or last_changed == -1:
                    last_changed = number

    def _even_out_topic(self, topic_id: bytes) -> int:
        """Move partitions of one topic. Return how many."""
        ranks = _Ranks(self._loads, self._subscribers[topic_id])
        if ranks.imbalance <= 1:
            return 0
        theirs: dict[int, list[int]] = {}
        for index, owner in enumerate(self._owners[topic_id]):
            theirs.setdefault(owner, []).append(index)
        moved = 0
        while not ranks.is_balanced():
            giver = ranks.next_most()
            while giver != NO_OWNER and not theirs.get(giver):
                ranks.exclude_most()
                giver = ranks.next_most()
            if giver == NO_OWNER:
                break
            index = theirs[giver].pop()
            taker = ranks.next_least()
            if ranks.is_balanced():
                break
            self._move(topic_id, index, taker)
            moved += 1
        return moved

    def assignment(self) -> Assignment:
        """The target of each member."""
        assigned: list[dict[bytes, list[int]]] = [{} for _ in self._member_ids]
        for topic_id, owners in self._owners.items():
            for index, owner in enumerate(owners):
                if owner != NO_OWNER:
                    assigned[owner].setdefault(topic_id, []).append(index)
        return {
            member_id: {topic_id: tuple(indexes) for topic_id, indexes in mine.items()}
            for member_id, mine in zip(self._member_ids, assigned, strict=True)
        }

    def _ordered(self, topic_ids: Iterable[bytes]) -> list[bytes]:
        """Topics with many partitions for each subscriber come first, then those with few subscribers."""

        def place(topic_id: bytes) -> tuple[float, int, tuple[int, int]]:
            readers = len(self._subscribers[topic_id])
            return -self.sizes[topic_id] / readers, readers, uuid_key(topic_id)

        return sorted(topic_ids, key=place)

    def _move(self, topic_id: bytes, index: int, owner: int) -> None:
        owners = self._owners[topic_id]
        if owners[index] != NO_OWNER:
            self._loads[owners[index]] -= 1
        owners[index] = owner
        self._loads[owner] += 1


class _Ranks:
    """Members ordered by load, with a range of the least and one of the most loaded (``MemberAssignmentBalancer``).

    Each range is walked once before it grows: its members differ by one partition at most.
    """

    def __init__(self, loads: list[int], members: Sequence[int]) -> None:
        self._loads = loads
        self._members = sorted(members, key=lambda member: (loads[member], member))
        self._least_end = 0
        self._least_load = loads[self._members[0]] - 1
        self._next_least = 0
        self._most_begin = self._most_end = len(self._members)
        self._most_load = loads[self._members[-1]] + 1
        self._next_most = len(self._members) - 1
        self.imbalance = loads[self._members[-1]] - loads[self._members[0]]

    def is_balanced(self) -> bool:
        """Whether moving another partition would not help."""
        return self._most_load - self._least_load <= 1

    def next_least(self) -> int:
        """The member that gets the next partition."""
        if self._next_least >= self._least_end:
            self._least_load += 1
            while self._least_end < len(self._members) and self._load_at(self._least_end) == self._least_load:
                self._least_end += 1
            self._next_least = 0
        self._next_least += 1
        return self._members[self._next_least - 1]

    def next_most(self) -> int:
        """The member that gives up the next partition; NOBODY if there is none."""
        if self._next_most < self._most_begin:
            if self._most_end <= self._most_begin and self._most_begin > 0:
                self._most_load = self._load_at(self._most_begin - 1)
            else:
                self._most_load -= 1
            while self._most_begin > 0 and self._load_at(self._most_begin - 1) == self._most_load:
                self._most_begin -= 1
            self._next_most = self._most_end - 1
        if self._next_most < 0:
            return NO_OWNER
        self._next_most -= 1
        return self._members[self._next_most + 1]

    def exclude_most(self) -> None:
        """Take the last member of `next_most` out of the range, since it has nothing of the topic to give up."""
        at, last = self._next_most + 1, self._most_end - 1
        self._members[at], self._members[last] = self._members[last], self._members[at]
        self._most_end -= 1

    def _load_at(self, rank: int) -> int:
        return self._loads[self._members[rank]]
