"""From one generation of a classic group to the next (Kafka: ``GroupMetadataManager``, its classic part).

A rebalance waits until every known member has joined, or until the rebalance timeout of the slowest has passed. Then
all members that joined learn of the new generation, and have to sync within the same time. The first rebalance of an
empty group waits a moment for more members (KIP-134).

Invariant: a member that has been informed of a generation waits for nothing; one that waits is a member.
"""

from typing import Final

from kpybroker.machines.groups.classic.classic_group import ClassicGroup, ClassicGroupState
from kpybroker.machines.groups.classic.member import ClassicGroupMember, ParkedRequest
from kpybroker.machines.groups.classic.responses import join_error, join_result, sync_error
from kpybroker.machines.groups.classic.snapshot import group_record
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.stories import GENERATION, LATE_JOIN, LATE_SYNC, REBALANCE, SILENT
from kpybroker.machines.groups.timers import GroupTimer
from kpywire import error_codes

_CAN_REBALANCE: Final = (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.EMPTY)


def rebalance_or_complete(group: ClassicGroup, decision: GroupDecision) -> None:
    """React to a member that joined, changed or left: begin a rebalance, or end the one that waited for this."""
    if group.state in _CAN_REBALANCE:
        prepare_rebalance(group, decision)
    else:
        complete_if_all_joined(group, decision)


def prepare_rebalance(group: ClassicGroup, decision: GroupDecision) -> None:
    """Begin a rebalance: all members have to rejoin."""
    if group.state is ClassicGroupState.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_syncs(group, error_codes.REBALANCE_IN_PROGRESS, decision)
    group.pending_sync.clear()
    if group.sync_timer is not None:
        decision.timers.cancel(group.sync_timer)
    is_initial = group.state is ClassicGroupState.EMPTY
    decision.tell(group.group_id, REBALANCE)
    if is_initial:
        delay_ms = decision.settings.initial_rebalance_delay_ms
        _wait_for_joins(group, delay_ms, (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)), decision)
    group.enter(ClassicGroupState.PREPARING_REBALANCE, decision.timestamp_ms)
    if is_initial:
        return
    if group.has_all_joined:
        complete_join(group, decision)
    else:
        _wait_for_joins(group, group.rebalance_timeout_ms, None, decision)


def complete_if_all_joined(group: ClassicGroup, decision: GroupDecision) -> None:
    """End the rebalance if every member has joined. A first rebalance ends only by its timer."""
    if (
        group.state is ClassicGroupState.PREPARING_REBALANCE
        and group.previous_state is not ClassicGroupState.EMPTY
        and group.has_all_joined
    ):
        complete_join(group, decision)


def complete_join(group: ClassicGroup, decision: GroupDecision) -> None:
    """Begin the next generation with the members that joined. Static members (KIP-345) stay even if they did not
    join."""
    if group.join_timer is not None:
        decision.timers.cancel(group.join_timer)
    silent = [each for each in group.members.values() if each.awaiting_join is None and each.group_instance_id is None]
    for member in silent:
        decision.tell(group.group_id, LATE_JOIN, member)
        forget_member(group, member, decision)
    if group.members and not group.elect_leader():
        _wait_for_joins(group, group.rebalance_timeout_ms, None, decision)
        return
    group.begin_generation(decision.timestamp_ms)
    decision.tell(group.group_id, GENERATION, detail=f"{group.generation_id}, members: {len(group.members)}")
    if group.state is ClassicGroupState.EMPTY:
        decision.records.append(group_record(group, {}))
        return
    for member in group.members.values():
        parked = member.awaiting_join
        if parked is not None:
            decision.reply(parked.ticket, join_result(group, member.member_id, parked.api_version))
            member.awaiting_join = None
        decision.set_timer(member.session, member.session_timeout_ms)
        member.is_new = False
    group.pending_sync.update(group.members)
    group.awaiting_joins = 0
    if group.sync_timer is None:
        group.sync_timer = GroupTimer(_sync_over, group)
    decision.set_timer(group.sync_timer, group.rebalance_timeout_ms)


def remove_member(group: ClassicGroup, member: ClassicGroupMember, decision: GroupDecision) -> None:
    """Remove a member whose session is over. A rebalance gives its share to the others."""
    forget_member(group, member, decision)
    if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
        prepare_rebalance(group, decision)
    else:
        _stop_waiting(group, decision)


def forget_member(group: ClassicGroup, member: ClassicGroupMember, decision: GroupDecision) -> None:
    """Remove a member and refuse the request it waits for. Whether the group rebalances is up to the caller."""
    decision.timers.cancel(member.session)
    group.remove(member.member_id)
    refuse_waiting(member, error_codes.UNKNOWN_MEMBER_ID, decision)


def refuse_waiting(member: ClassicGroupMember, error_code: int, decision: GroupDecision, member_id: str = "") -> None:
    """Refuse the request that a former member waits for."""
    join, sync = member.awaiting_join, member.awaiting_sync
    member.awaiting_join = member.awaiting_sync = None
    if join is not None:
        decision.reply(join.ticket, join_error(join.api_version, error_code, member_id))
    if sync is not None:
        decision.reply(sync.ticket, sync_error(error_code))


def refuse_syncs(group: ClassicGroup, error_code: int, decision: GroupDecision) -> None:
    """Answer every waiting sync with an error. Those members count as alive."""
    for member in group.members.values():
        parked = member.awaiting_sync
        if parked is not None:
            member.awaiting_sync = None
            decision.reply(parked.ticket, sync_error(error_code))
            decision.set_timer(member.session, member.session_timeout_ms)


def park_join(group: ClassicGroup, member: ClassicGroupMember, parked: ParkedRequest, decision: GroupDecision) -> None:
    """Let a member wait for the next generation. An earlier request of the same kind counts as given up."""
    before, member.awaiting_join = member.awaiting_join, parked
    if before is None:
        group.awaiting_joins += 1
    else:
        decision.reply(before.ticket, join_error(before.api_version, error_codes.REBALANCE_IN_PROGRESS))


def end_session(group: ClassicGroup, member_id: str, decision: GroupDecision) -> None:
    """Remove a member that sent no heartbeat in time."""
    member = group.members.get(member_id)
    if member is not None and not member.is_alive:
        decision.tell(group.group_id, SILENT, member)
        remove_member(group, member, decision)


def end_pending(group: ClassicGroup, member_id: str, decision: GroupDecision) -> None:
    """Forget a member id that was given out and not used in time."""
    if group.pending_members.pop(member_id, None) is not None:
        _stop_waiting(group, decision)


def _stop_waiting(group: ClassicGroup, decision: GroupDecision) -> None:
    """End the wait if every member has joined by now. This ends a first rebalance early, too."""
    if group.state is ClassicGroupState.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(group, decision)


def _wait_for_joins(
    group: ClassicGroup, delay_ms: int, initial_delay: tuple[int, int] | None, decision: GroupDecision
) -> None:
    group.initial_delay = initial_delay
    if group.join_timer is None:
        group.join_timer = GroupTimer(_joins_over, group)
    decision.set_timer(group.join_timer, delay_ms)


def _joins_over(group: ClassicGroup, decision: GroupDecision) -> None:
    """End the wait for joins, unless a first rebalance is extended for members that joined during the wait."""
    if group.state is not ClassicGroupState.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None:
        delay_ms, remaining_ms = group.initial_delay
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(decision.settings.initial_rebalance_delay_ms, remaining_ms)
            _wait_for_joins(group, next_delay_ms, (next_delay_ms, max(remaining_ms - delay_ms, 0)), decision)
            return
    complete_join(group, decision)


def _sync_over(group: ClassicGroup, decision: GroupDecision) -> None:
    """Remove the members that did not sync in time (KAFKA-13435)."""
    if group.state not in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE) or not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        member = group.members.get(member_id)
        if member is not None:
            decision.tell(group.group_id, LATE_SYNC, member)
            forget_member(group, member, decision)
    prepare_rebalance(group, decision)
