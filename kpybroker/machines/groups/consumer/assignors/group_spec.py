"""The input of an assignor (Kafka: ``GroupSpec``), and its output."""

from collections.abc import Mapping
from typing import NamedTuple

from kpybroker.machines.groups.epochs.member import NOTHING, Target

Assignment = dict[str, Target]


class PartitionAssignorFailed(Exception):
    """The assignor has no answer to its input."""


class MemberSpec(NamedTuple):
    """A member as an assignor sees it."""

    instance_id: str | None
    topic_ids: Mapping[bytes, int]
    """The subscribed topics that exist, with the numbers of their partitions."""
    target: Target
    """The target that the member has had so far."""


class GroupSpec(NamedTuple):
    """A group as an assignor sees it. The order of members is that of Kafka's hash table."""

    members: Mapping[str, MemberSpec]
    is_homogeneous: bool
    """Whether all members subscribe to the same topics."""
    owners: Mapping[bytes, Mapping[int, str]]
    """By topic id and partition: the member whose target it has been."""

    def is_owned(self, topic_id: bytes, partition: int) -> bool:
        """Whether a partition has been in somebody's target."""
        return partition in self.owners.get(topic_id, NOTHING)
