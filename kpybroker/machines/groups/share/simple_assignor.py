"""The assignor ``simple``: members share partitions where they outnumber them (Kafka: ``SimpleAssignor``).

Each partition gets as many members as every other, and members keep what they have as far as that allows. If members
read different topics, each topic is balanced alone.

The answers are those of Kafka, which depend on the order of its hash tables.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import ceil
from typing import Any, Final, NamedTuple

from kpybroker.machines.groups.epochs.java_order import copied_set_capacity, identity, in_hash_order, uuid_hash
from kpybroker.machines.groups.epochs.member import Target

_MASK: Final = 0xFFFF_FFFF

Partition = tuple[bytes, int]
"""Topic id and partition."""


class ShareMemberSpec(NamedTuple):
    """A member as the assignor sees it."""

    topic_ids: Sequence[bytes]
    """The subscribed topics that exist, in the order of Kafka's table."""
    target: Target
    """The target that the member has had so far."""


def assign_simply(
    members: Mapping[str, ShareMemberSpec], assignable: Mapping[bytes, Sequence[int]], *, is_homogeneous: bool
) -> dict[str, Target]:
    """Give each member some of the assignable partitions. The order of members is that of Kafka's table."""
    specs = list(members.values())
    topic_ids = list(dict.fromkeys(i for s in specs for i in s.topic_ids))
    if not topic_ids:
        return {}
    if is_homogeneous:
        topic_ids = in_hash_order(topic_ids, uuid_hash, capacity=copied_set_capacity(len(topic_ids)))
    new = [{topic_id: dict.fromkeys(each) for topic_id, each in spec.target.items()} for spec in specs]
    if is_homogeneous:
        for mine in new:
            for topic_id in [each for each in mine if each not in topic_ids]:
                del mine[topic_id]
        everybody = list(range(len(specs)))
        _ShareBalance(new, everybody, _targets(topic_ids, assignable), topic_ids, is_whole=True).assign()
    else:
        for topic_id in topic_ids:
            readers = [number for number, spec in enumerate(specs) if topic_id in spec.topic_ids]
            _ShareBalance(new, readers, _targets([topic_id], assignable), [topic_id], is_whole=False).assign()
    return {
        member_id: {topic_id: tuple(each) for topic_id, each in mine.items()}
        for member_id, mine in zip(members, new, strict=True)
    }


def _targets(topic_ids: Sequence[bytes], assignable: Mapping[bytes, Sequence[int]]) -> list[Partition]:
    return [(topic_id, index) for topic_id in topic_ids for index in sorted(assignable.get(topic_id, ()))]


class _Table:
    """A ``HashMap`` or ``HashSet``: its keys come in its own order."""

    def __init__(self, hash_of: Callable[[Any], int], size: int | None = None) -> None:
        """``size`` is the number of keys that it is made for (``AssignorHelpers.newHashMap``)."""
        self._hash_of = hash_of
        self._capacity = 16 if size is None else 1 << int((size + 1) / 0.75).bit_length()
        self.values: dict[Any, Any] = {}

    def put(self, key: Any, value: Any = None) -> None:
        self.values[key] = value
        while len(self.values) > 0.75 * self._capacity:
            self._capacity *= 2

    def __iter__(self) -> Iterator[Any]:
        return iter(in_hash_order(list(self.values), self._hash_of, capacity=self._capacity))


def _partition_hash(partition: Partition) -> int:
    return 31 * uuid_hash(partition[0]) + partition[1] & _MASK


def _index_hash(partition: Partition) -> int:
    return partition[1]


class _ShareBalance:
    """The partitions of some topics, and the members that read them. Members are numbers."""

    def __init__(
        self,
        new: list[dict[bytes, dict[int, None]]],
        readers: Sequence[int],
        targets: Sequence[Partition],
        topic_ids: Sequence[bytes],
        *,
        is_whole: bool,
    ) -> None:
        """``new`` has the assignment of each member, and is changed. ``is_whole``: these are all topics."""
        self._new = new
        self._targets = targets
        self._readers = readers
        self._is_whole = is_whole
        self._hash_of = _partition_hash if is_whole else _index_hash
        self._sharing = -(-len(readers) // len(targets)) if targets else 0
        """The number of members that each partition should have."""
        precise = self._sharing * len(targets) / len(readers)
        self._wanted = [0] * len(new)
        for rank, number in enumerate(readers):
            self._wanted[number] = ceil(precise * (rank + 1)) - ceil(precise * rank)
        self._by_partition = _Table(self._hash_of, len(targets))
        self._by_member: dict[int, _Table] = {}
        self._unfilled = _Table(identity, len(new))
        for number, mine in enumerate(new):
            for topic_id in in_hash_order([each for each in mine if each in topic_ids], uuid_hash):
                for index in in_hash_order(
                    list(mine[topic_id]), identity, capacity=copied_set_capacity(len(mine[topic_id]))
                ):
                    self._link(number, (topic_id, index))

    def assign(self) -> None:
        """Take away what is too much, then give what is missing."""
        counts = [len(self._by_member[each].values) if each in self._by_member else 0 for each in range(len(self._new))]
        for number, count in enumerate(counts):
            if self._is_whole and count < self._wanted[number]:
                self._unfilled.put(number)
        self._revoke_from_members()
        self._revoke_from_partitions()
        for partition in self._targets:
            if partition not in self._by_partition.values:
                size = None if self._is_whole else len(self._readers)
                self._by_partition.put(partition, _Table(identity, size))
        if not self._is_whole:
            for number in self._readers:
                mine = self._by_member.get(number)
                if (0 if mine is None else len(mine.values)) < self._wanted[number]:
                    self._unfilled.put(number)
        self._give()

    def _link(self, number: int, partition: Partition) -> None:
        if partition not in self._by_partition.values:
            self._by_partition.put(partition, _Table(identity))
        self._by_partition.values[partition].put(number)
        if number not in self._by_member:
            self._by_member[number] = _Table(self._hash_of)
        self._by_member[number].put(partition)

    def _revoke(self, number: int, partition: Partition) -> None:
        del self._new[number][partition[0]][partition[1]]
        del self._by_partition.values[partition].values[number]
        del self._by_member[number].values[partition]

    def _revoke_from_members(self) -> None:
        for number, mine in self._by_member.items():
            for partition in list(mine)[: max(len(mine.values) - self._wanted[number], 0)]:
                self._revoke(number, partition)

    def _revoke_from_partitions(self) -> None:
        for partition in self._by_partition:
            members = self._by_partition.values[partition]
            for number in list(members)[: max(len(members.values) - self._sharing, 0)]:
                self._revoke(number, partition)
                if self._is_whole:
                    self._unfilled.put(number)

    def _give(self) -> None:
        """Walk over the partitions once, and over the members that want more again and again."""
        waiting, was_given = iter(list(self._unfilled)), False
        for partition in self._by_partition:
            members = self._by_partition.values[partition]
            missing = self._sharing - len(members.values)
            while missing > 0 and self._unfilled.values:
                number = next(waiting, None)
                if number is None:
                    if not was_given:
                        break
                    waiting, was_given = iter(list(self._unfilled)), False
                    continue
                if number in members.values:
                    continue
                self._new[number].setdefault(partition[0], {})[partition[1]] = None
                if number not in self._by_member:
                    self._by_member[number] = _Table(self._hash_of)
                self._by_member[number].put(partition)
                missing -= 1
                was_given = True
                if len(self._by_member[number].values) >= self._wanted[number]:
                    del self._unfilled.values[number]
            if not self._unfilled.values:
                break
