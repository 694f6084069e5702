"""The assignor ``uniform``: all members get the same number of partitions, and keep what they have as far as possible.

(Kafka: ``UniformAssignor``, ``UniformHomogeneousAssignmentBuilder``.) Members that read different topics are another
problem, which is in `kpybroker.machines.groups.consumer.assignors.uniform_heterogeneous`.
"""

from collections.abc import Iterable

from kpybroker.machines.groups.consumer.assignors.group_spec import Assignment, GroupSpec, PartitionAssignorFailed
from kpybroker.machines.groups.consumer.assignors.uniform_heterogeneous import assign_heterogeneous
from kpybroker.machines.groups.epochs.java_order import copied_set_capacity, identity, in_hash_order, uuid_hash

Partition = tuple[bytes, int]


def assign_uniformly(spec: GroupSpec) -> Assignment:
    """Assign all topics."""
    if not spec.members:
        return {}
    return _assign_homogeneous(spec) if spec.is_homogeneous else assign_heterogeneous(spec)


def _assign_homogeneous(spec: GroupSpec) -> Assignment:
    sizes = next(iter(spec.members.values())).topic_ids
    if not sizes:
        return {}
    topic_ids = in_hash_order(list(sizes), uuid_hash, capacity=copied_set_capacity(len(sizes)))
    unassigned = [
        (topic_id, index)
        for topic_id in topic_ids
        for index in range(sizes[topic_id])
        if not spec.is_owned(topic_id, index)
    ]
    quota, extras = divmod(sum(sizes.values()), len(spec.members))
    kept: dict[str, dict[bytes, list[int]]] = {}
    unfilled: list[tuple[str, int]] = []
    for number, (member_id, member) in enumerate(spec.members.items()):
        has_extra = extras > 0
        room, mine = quota + has_extra, {}
        for topic_id in in_hash_order(list(member.target), uuid_hash):
            if topic_id not in sizes:
                continue
            had = member.target[topic_id]
            if len(had) > room:
                ordered = in_hash_order(had, identity, capacity=copied_set_capacity(len(had)))
                had = tuple(ordered[:room])
                unassigned += [(topic_id, index) for index in ordered[room:]]
            room -= len(had)
            if had:
                mine[topic_id] = list(had)
        if room > 0 and has_extra and len(spec.members) - number > extras:
            room -= 1
            has_extra = False
        if room > 0:
            unfilled.append((member_id, room))
        extras -= has_extra
        kept[member_id] = mine
    _fill(kept, unfilled, unassigned)
    return {
        member_id: {topic_id: tuple(indexes) for topic_id, indexes in mine.items()} for member_id, mine in kept.items()
    }


def _fill(
    kept: dict[str, dict[bytes, list[int]]], unfilled: Iterable[tuple[str, int]], unassigned: list[Partition]
) -> None:
    """Give the partitions that nobody keeps to the members that have room."""
    begin = 0
    for member_id, room in unfilled:
        for topic_id, index in unassigned[begin : begin + room]:
            kept[member_id].setdefault(topic_id, []).append(index)
        begin += room
    if begin < len(unassigned):
        raise PartitionAssignorFailed("Partitions were left unassigned")
