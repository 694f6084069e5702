"""A group whose members have epochs, and offsets that it commits: of the consumer or streams protocol (KIP-848, 1071).

What is asked of such a group is answered here: whether a member may commit offsets or get them, and whether the group
may be deleted.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import SINCE_COMMIT, Group, Membership
from kpywire import error_codes

_K = TypeVar("_K")

ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
FIRST_EPOCH: Final = 1
"""The epoch of a group that has no record yet, and of its target, which is empty."""

NEVER_MS: Final = 0
"""The time of a target that nobody made: that of a group without members."""
_EPOCHS_FROM: Final = 9
"""The first version of OffsetCommit whose epoch may be that of a member (KIP-848)."""


class EpochMembers(Membership):
    """Members by their ids. Each kind of group has a subclass."""

    __slots__ = ()

    members: dict[str, Any]

    def is_classic(self, _member: Any) -> bool:
        """Whether a member speaks the classic protocol, whose errors have other names."""
        return False

    def granted_epoch(self, _member: Any, _topic: str, _partition: int, _decision: GroupDecision) -> int | None:
        """The epoch at which a member got a partition that it has, or has to give up."""
        return None

    @property
    def is_recorded(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self.members)

    def check_commit(self, _group: Group, request: GroupRequest, generation_id: int, decision: GroupDecision) -> int:
        """Check the epoch of a member that commits. An old epoch will do for partitions that it has had since then."""
        message = request.message
        if generation_id < 0 and not self.members:
            return error_codes.NONE
        member = self.members.get(message.member_id)
        if member is None:
            return error_codes.UNKNOWN_MEMBER_ID
        if not self.is_classic(member) and request.api_version < _EPOCHS_FROM:
            return error_codes.UNSUPPORTED_VERSION
        return self._check_epoch(member, generation_id, message.topics, decision)

    def check_transactional_commit(
        self, _group: Group, request: GroupRequest, generation_id: int, decision: GroupDecision
    ) -> int:
        """Check the epoch of a producer's member."""
        message = request.message
        if generation_id < 0 and not self.members:
            return error_codes.NONE
        if generation_id == -1 and not message.member_id and message.group_instance_id is None:
            return error_codes.NONE
        member = self.members.get(message.member_id)
        if member is None:
            return error_codes.UNKNOWN_MEMBER_ID
        return self._check_epoch(member, generation_id, message.topics, decision)

    def _check_epoch(self, member: Any, epoch: int, topics: Iterable[Any], decision: GroupDecision) -> int:
        if epoch == member.member_epoch:
            return error_codes.NONE
        if epoch > member.member_epoch:
            return self._stale(member)
        for topic in topics:
            for partition in topic.partitions:
                granted = self.granted_epoch(member, topic.name, partition.partition_index, decision)
                if granted is None or epoch < granted:
                    return self._stale(member)
        return error_codes.NONE

    def check_fetch(self, message: Any) -> int:
        """Check the member epoch, if the sender is a member."""
        if message.member_id is None and message.member_epoch < 0:
            return error_codes.NONE
        member = self.members.get(message.member_id)
        if member is None:
            return error_codes.UNKNOWN_MEMBER_ID
        return error_codes.NONE if message.member_epoch == member.member_epoch else self._stale(member)

    def check_deletion(self, _group: Group, _decision: GroupDecision) -> int:
        return error_codes.NON_EMPTY_GROUP if self.members else error_codes.NONE

    def offsets_expire_since(self, _group: Group, _decision: GroupDecision) -> int | None:
        return SINCE_COMMIT

    @property
    def may_expire(self) -> bool:
        return not self.members

    def gives_way(self, _decision: GroupDecision) -> bool:
        return not self.members

    def _stale(self, member: Any) -> int:
        return error_codes.ILLEGAL_GENERATION if self.is_classic(member) else error_codes.STALE_MEMBER_EPOCH


def add_counts(counts: dict[_K, int], keys: Iterable[_K], by: int) -> None:
    """Count keys in or out. A count of 0 is left out."""
    for key in keys:
        count = counts.get(key, 0) + by
        if count > 0:
            counts[key] = count
        else:
            counts.pop(key, None)
