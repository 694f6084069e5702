"""A share group: its members, their target, its epochs, and what is asked of groups of every kind.

(Kafka: ``ShareGroup``.) Only records change it, except for soft state that is named so.

Invariant: counts follow from the members.
"""

from typing import Any, Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import FIRST_EPOCH, STABLE, add_counts
from kpybroker.machines.groups.epochs.java_order import in_timeline_order
from kpybroker.machines.groups.epochs.member import Target
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.group import EMPTY, Group, Membership
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.records import group_tombstones
from kpybroker.machines.groups.share.state_topics import StateTopics
from kpywire import error_codes

SHARE: Final = "share"


class ShareGroup(Membership):
    """The state of one group that the log holds."""

    __slots__ = (
        "_most_members",
        "assignment_epoch",
        "assignment_timestamp_ms",
        "by_name",
        "checked_version",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "states",
        "target",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = FIRST_EPOCH
        self.metadata_hash = 0
        self.assignment_epoch = FIRST_EPOCH
        self.assignment_timestamp_ms = 0
        self.members: dict[str, ShareMember] = {}
        self._most_members = 0
        self.target: dict[str, Target] = {}
        self.by_name: dict[str, int] = {}
        """How many members subscribe to each topic."""
        self.states: StateTopics | None = None
        """The topics whose delivery states the group has; None before the first."""
        self.checked_version: int | None = None
        """The version of the topics whose hash was last compared with the group's. Soft."""

    @property
    def state(self) -> str:
        """The state that ListGroups and ShareGroupDescribe show."""
        return STABLE if self.members else EMPTY

    def ordered_members(self, *joining: str) -> list[str]:
        """The member ids in the order of Kafka's table, with those that are about to join."""
        ids = [*self.members, *joining]
        return in_timeline_order(ids, max(self._most_members, len(ids)))

    def by_name_with(self, old: ShareMember, new: ShareMember | None) -> dict[str, int]:
        """The counts of subscribers with ``new`` in the place of ``old``."""
        counts = dict(self.by_name)
        add_counts(counts, old.topic_names, -1)
        if new is not None:
            add_counts(counts, new.topic_names, 1)
        return counts

    # How records change it

    def put(self, member: ShareMember) -> None:
        """Add or replace a member."""
        old = self.members.get(member.member_id)
        self._most_members = max(self._most_members, len(self.members) + 1)  # Kafka's table grows before it replaces
        self.members[member.member_id] = member
        if old is not None:
            add_counts(self.by_name, old.topic_names, -1)
        add_counts(self.by_name, member.topic_names, 1)

    def remove(self, member_id: str) -> None:
        """Remove a member, if it is there."""
        old = self.members.pop(member_id, None)
        if old is not None:
            add_counts(self.by_name, old.topic_names, -1)

    def set_target(self, member_id: str, target: Target | None) -> None:
        """Set or remove the target of a member."""
        if target is None:
            self.target.pop(member_id, None)
        else:
            self.target[member_id] = target

    # What is asked of groups of every kind

    @property
    def is_recorded(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self.members)

    def summary(self, _decision: GroupDecision) -> tuple[str, str, str]:
        return SHARE, self.state, SHARE

    def check_commit(self, _group: Group, _request: GroupRequest, _generation_id: int, _decision: GroupDecision) -> int:
        """Refuse: a share group keeps no offsets here."""
        return error_codes.GROUP_ID_NOT_FOUND

    def check_transactional_commit(
        self, _group: Group, _request: GroupRequest, _generation_id: int, _decision: GroupDecision
    ) -> int:
        return error_codes.GROUP_ID_NOT_FOUND

    def check_fetch(self, _message: Any) -> int:
        """Accept: there are no offsets."""
        return error_codes.NONE

    def check_deletion(self, _group: Group, _decision: GroupDecision) -> int:
        return error_codes.NON_EMPTY_GROUP if self.members else error_codes.NONE

    def check_offset_deletion(self, _group: Group, _decision: GroupDecision) -> int:
        return error_codes.GROUP_ID_NOT_FOUND

    def offsets_expire_since(self, _group: Group, _decision: GroupDecision) -> int | None:
        return None

    @property
    def may_expire(self) -> bool:
        return False

    def gives_way(self, _decision: GroupDecision) -> bool:
        return False

    def tombstones(self, group_id: str) -> list[GroupRecord]:
        return group_tombstones(group_id, self.ordered_members())
