"""Classic groups of which only the record is known, as after a load: they wake when a request needs their members."""

from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember
from kpybroker.machines.groups.classic.rebalance import end_session, prepare_rebalance
from kpybroker.machines.groups.classic.snapshot import restore
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.facts import MembershipFacts
from kpybroker.machines.groups.group import CLASSIC_TYPE, NO_MEMBERS, SINCE_COMMIT, Group, Membership
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes
from kpywire.group_records.group_metadata import GroupMetadataValue


class AsleepGroup(Membership):
    """A classic group as its last record holds it. Questions about its members wake it."""

    __slots__ = ("recorded",)

    def __init__(self, recorded: GroupMetadataValue) -> None:
        self.recorded = recorded

    @property
    def is_recorded(self) -> bool:
        return True

    @property
    def size(self) -> int:
        return len(self.recorded.members)

    def facts(self) -> MembershipFacts:
        value = self.recorded
        state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        return MembershipFacts(
            CLASSIC_TYPE, state.value, value.protocol_type, value.generation, len(value.members), value.protocol or ""
        )

    def check_commit(self, group: Group, request: GroupRequest, generation_id: int, decision: GroupDecision) -> int:
        if generation_id < 0 and not self.recorded.members:
            return error_codes.NONE
        return wake(group, decision).check_commit(group, request, generation_id, decision)

    def check_transactional_commit(
        self, group: Group, request: GroupRequest, generation_id: int, decision: GroupDecision
    ) -> int:
        return wake(group, decision).check_transactional_commit(group, request, generation_id, decision)

    def check_deletion(self, group: Group, decision: GroupDecision) -> int:
        return wake(group, decision).check_deletion(group, decision)

    def check_offset_deletion(self, group: Group, decision: GroupDecision) -> int:
        return wake(group, decision).check_offset_deletion(group, decision)

    def offsets_expire_since(self, group: Group, decision: GroupDecision) -> int | None:
        if self.recorded.members:
            return wake(group, decision).offsets_expire_since(group, decision)
        return self.recorded.current_state_timestamp if self.recorded.protocol_type else SINCE_COMMIT


def find_classic(shard: GroupShard, group_id: str, decision: GroupDecision) -> ClassicGroup | None:
    """The classic group of this name, awake; None if there is none, or one of another kind."""
    group = shard.groups.get(group_id)
    if group is None:
        return None
    membership = group.membership
    if type(membership) is ClassicGroup:
        return membership
    return wake(group, decision) if membership is NO_MEMBERS or isinstance(membership, AsleepGroup) else None


def wake(group: Group, decision: GroupDecision) -> ClassicGroup:
    """Load the members of a group from its record. Their sessions begin now. If there are too many, they have to
    rejoin."""
    asleep = group.membership
    classic = group.membership = ClassicGroup(group.group_id, decision.timestamp_ms)
    if not isinstance(asleep, AsleepGroup):
        return classic
    value = classic.recorded = asleep.recorded
    for recorded in value.members:
        session = GroupTimer(end_session, classic, recorded.member_id)
        timeout_ms = recorded.session_timeout
        member = ClassicGroupMember(
            recorded.member_id,
            recorded.group_instance_id,
            recorded.client_id,
            recorded.client_host,
            recorded.rebalance_timeout if recorded.rebalance_timeout != -1 else timeout_ms,
            timeout_ms,
            ((value.protocol or "", recorded.subscription),),
            session,
            recorded.assignment,
        )
        classic.add(member)
        decision.set_timer(session, timeout_ms)
    restore(classic, value)
    classic.remember_subscriptions()
    if len(classic.members) > decision.settings.max_size:
        prepare_rebalance(classic, decision)
    return classic


def wake_loaded(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
    """Wake a group that was just loaded, so that the sessions of its members begin."""
    group = shard.groups.get(group_id)
    if group is not None and isinstance(group.membership, AsleepGroup):
        wake(group, decision)
    return True
