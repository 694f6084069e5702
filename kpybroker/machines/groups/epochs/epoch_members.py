"""A group whose members have epochs: of the consumer, share or streams protocol (KIP-848, 932, 1071).

What is asked of such a group is answered here: whether a member may commit offsets or get them, whether the group may
be deleted, and what is seen of it.
"""

from collections.abc import Iterable
from typing import Any, Final, TypeVar

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.java_order import in_timeline_order
from kpybroker.machines.groups.epochs.member import SESSION
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import MemberFacts, MembershipFacts
from kpybroker.machines.groups.group import DEAD, EMPTY, SINCE_COMMIT, Group, Membership, Timers
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes

_K = TypeVar("_K")

ASSIGNING: Final = "Assigning"
RECONCILING: Final = "Reconciling"
STABLE: Final = "Stable"
STATES: Final = (EMPTY, ASSIGNING, RECONCILING, STABLE, DEAD)
FIRST_EPOCH: Final = 1
"""The epoch of a group that has no record yet, and of its target, which is empty."""

NEVER_MS: Final = 0
"""The time of a target that nobody made: that of a group without members."""
_EPOCHS_FROM: Final = 9
"""The first version of OffsetCommit whose epoch may be that of a member (KIP-848)."""


class EpochMembers(Membership):
    """Members by their ids, and their target. Each kind of group has a subclass."""

    __slots__ = (
        "_most_members",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = self.assignment_epoch = FIRST_EPOCH
        self.metadata_hash = self.assignment_timestamp_ms = 0
        self.members: dict[str, Any] = {}
        self.target: dict[str, Any] = {}
        self._most_members = 0

    def ordered_members(self, *joining: str) -> list[str]:
        """The member ids in the order of Kafka's table, with those that are about to join."""
        ids = [*self.members, *joining]
        return in_timeline_order(ids, max(self._most_members, len(ids)))

    def replace(self, member: Any) -> Any | None:
        """Add or replace a member. Return the one that was replaced."""
        old = self.members.get(member.member_id)
        self._most_members = max(self._most_members, len(self.members) + 1)  # Kafka's table grows before it replaces
        self.members[member.member_id] = member
        return old

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

    def facts_in(self, state: str, kind: str) -> MembershipFacts:
        """The facts about a group of a kind, in this state."""
        return MembershipFacts(kind, state, kind, self.epoch, len(self.members))

    def member_facts(self) -> list[MemberFacts]:
        return [self.facts_of(each) for each in self.members.values()]

    def facts_of(self, member: Any) -> MemberFacts:
        """The facts about a member, which has partitions."""
        is_settled = member.is_reconciled_to(self.assignment_epoch)
        state = "" if is_settled else f"is at epoch {member.member_epoch} of {self.assignment_epoch}"
        instance_id, client_id, client_host = member.instance_id, member.client_id, member.client_host
        return MemberFacts(member.member_id, instance_id, client_id, client_host, state, member.assigned)

    def client_ids(self) -> Iterable[str]:
        return [each.client_id for each in self.members.values()]

    def sessions_of(self, timers: Timers, timeout_ms: int) -> dict[str, tuple[GroupTimer, int]]:
        """The sessions of its members, all with one timeout. Those of classic members have others."""
        sessions = {}
        for member_id, member in self.members.items():
            timer = timers.get((SESSION, self.group_id, member_id))
            if timer is not None and not self.is_classic(member):
                sessions[member_id] = timer, timeout_ms
        return sessions

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
