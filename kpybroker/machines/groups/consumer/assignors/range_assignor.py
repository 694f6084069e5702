"""The assignor ``range``: each topic alone is cut into ranges, one for each of its members (Kafka: ``RangeAssignor``).

Topics with as many partitions are cut alike, so their records can be joined by partition. It keeps nothing of what a
member had.
"""

from kpybroker.machines.groups.consumer.assignors.group_spec import Assignment, GroupSpec
from kpybroker.machines.groups.epochs.java_order import string_key


def assign_ranges(spec: GroupSpec) -> Assignment:
    """Assign all topics. Static members come first, so they get the same ranges when they return under another id."""
    members = spec.members

    def place(member_id: str) -> tuple[bool, bytes]:
        instance_id = members[member_id].instance_id
        return instance_id is None, string_key(member_id if instance_id is None else instance_id)

    ordered = sorted(members, key=place)
    subscribers: dict[bytes, list[str]] = {}
    sizes: dict[bytes, int] = {}
    for member_id in ordered:
        reader = ordered[0] if spec.is_homogeneous else member_id
        for topic_id, size in members[reader].topic_ids.items():
            subscribers.setdefault(topic_id, []).append(member_id)
            sizes[topic_id] = size
    assigned: dict[str, dict[bytes, tuple[int, ...]]] = {member_id: {} for member_id in ordered}
    for topic_id, readers in subscribers.items():
        quota, extra = divmod(sizes[topic_id], len(readers))
        begin = 0
        for number, member_id in enumerate(readers):
            end = begin + quota + (number < extra)
            if begin < end:
                assigned[member_id][topic_id] = tuple(range(begin, end))
            begin = end
    return dict(assigned)
