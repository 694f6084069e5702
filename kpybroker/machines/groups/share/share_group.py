"""A share group: its members, their target, its epochs, and what is asked of groups of every kind.

(Kafka: ``ShareGroup``.) Only records change it, except for soft state that is named so.

Invariant: counts follow from the members.
"""

from typing import Any, Final

from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.epoch_members import STABLE, EpochMembers, add_counts
from kpybroker.machines.groups.epochs.member import Target
from kpybroker.machines.groups.events import DeleteGroup, GroupRequest
from kpybroker.machines.groups.facts import MembershipFacts
from kpybroker.machines.groups.group import EMPTY, Group, Timers
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.settings import GroupSettings
from kpybroker.machines.groups.share.events import DeleteStates
from kpybroker.machines.groups.share.member import ShareMember
from kpybroker.machines.groups.share.records import group_tombstones, states_record
from kpybroker.machines.groups.share.state_topics import StateTopics
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.messages.delete_groups import DeletableGroupResult

SHARE: Final = "share"


class ShareGroup(EpochMembers):
    """The state of one group that the log holds."""

    __slots__ = (
        "by_name",
        "checked_version",
        "states",
    )

    members: dict[str, ShareMember]
    target: dict[str, Target]

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
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
        old = self.replace(member)
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

    def facts(self) -> MembershipFacts:
        return self.facts_in(self.state, SHARE)

    def sessions(self, timers: Timers, settings: GroupSettings) -> dict[str, tuple[GroupTimer, int]]:
        return self.sessions_of(timers, settings.share_session_timeout_ms)

    @property
    def keeps_offsets(self) -> bool:
        return False

    def begin_deletion(self, request: GroupRequest, decision: GroupDecision) -> DeleteStates | None:
        """Note that all states of an empty group are being deleted, and name them."""
        message: DeleteGroup = request.message
        if message.states_deleted or self.members or self.states is None:
            return None
        names, doomed = self.states.doomed(decision.topics)
        decision.records.append(states_record(self.group_id, StateTopics(deleting=names)))
        if not doomed:
            return None
        result = DeletableGroupResult(group_id=message.group_id, error_code=error_codes.NONE)
        return DeleteStates(result, {topic_id: sorted(each) for topic_id, each in doomed.items()})

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
