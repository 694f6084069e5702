"""From one generation of a classic group to the next (Kafka: ``GroupMetadataManager``, its classic part).

A rebalance waits until every known member has joined, or until the slowest may be waited for no longer; then all who
joined learn of the new generation, and have to sync before the same time has passed again. The first rebalance of an
empty group waits a moment for more members (KIP-134).

Invariant: a member that is told of a generation waits for nothing; one that waits is a member.
"""

from kpybroker.groups.classic_group import ClassicGroup, State
from kpybroker.groups.decision import Decision
from kpybroker.groups.member import Member, Parked
from kpybroker.groups.responses import join_error, join_result, sync_error
from kpybroker.groups.snapshot import group_record
from kpybroker.groups.timers import Timer
from kpywire import error_codes

_CAN_REBALANCE = (State.STABLE, State.COMPLETING_REBALANCE, State.EMPTY)


def rebalance_or_complete(group: ClassicGroup, decision: Decision) -> None:
    """Somebody joined, changed or left: begin a rebalance, or end the one that waited for just that."""
    if group.state in _CAN_REBALANCE:
        prepare_rebalance(group, decision)
    else:
        complete_if_all_joined(group, decision)


def prepare_rebalance(group: ClassicGroup, decision: Decision) -> None:
    """All members have to join again."""
    if group.state is State.COMPLETING_REBALANCE:
        for member in group.members.values():
            member.assignment = b""
        refuse_syncs(group, error_codes.REBALANCE_IN_PROGRESS, decision)
    group.pending_sync.clear()
    if group.sync_timer is not None:
        decision.timers.cancel(group.sync_timer)
    is_initial = group.state is State.EMPTY
    if is_initial:
        delay_ms = decision.settings.initial_rebalance_delay_ms
        _wait_for_joins(group, delay_ms, (delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0)), decision)
    group.enter(State.PREPARING_REBALANCE, decision.timestamp_ms)
    if is_initial:
        return
    if group.has_all_joined:
        complete_join(group, decision)
    else:
        _wait_for_joins(group, group.rebalance_timeout_ms, None, decision)


def complete_if_all_joined(group: ClassicGroup, decision: Decision) -> None:
    """End the rebalance if nobody is missing. A first one ends by its timer alone."""
    if group.state is State.PREPARING_REBALANCE and group.previous_state is not State.EMPTY and group.has_all_joined:
        complete_join(group, decision)


def complete_join(group: ClassicGroup, decision: Decision) -> None:
    """Begin the next generation with those who joined. Static members (KIP-345) stay also if they did not."""
    if group.join_timer is not None:
        decision.timers.cancel(group.join_timer)
    silent = [each for each in group.members.values() if each.awaiting_join is None and each.group_instance_id is None]
    for member in silent:
        forget_member(group, member, decision)
    if group.members and not group.elect_leader():
        _wait_for_joins(group, group.rebalance_timeout_ms, None, decision)
        return
    group.begin_generation(decision.timestamp_ms)
    if group.state is State.EMPTY:
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
        group.sync_timer = Timer(_sync_over, group)
    decision.set_timer(group.sync_timer, group.rebalance_timeout_ms)


def remove_member(group: ClassicGroup, member: Member, decision: Decision) -> None:
    """A member's session is over: the others share what it had."""
    forget_member(group, member, decision)
    if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
        prepare_rebalance(group, decision)
    else:
        _stop_waiting(group, decision)


def forget_member(group: ClassicGroup, member: Member, decision: Decision) -> None:
    """Take a member out and refuse what it waits for. Whether the group rebalances is the caller's business."""
    decision.timers.cancel(member.session)
    group.remove(member.member_id)
    refuse_waiting(member, error_codes.UNKNOWN_MEMBER_ID, decision)


def refuse_waiting(member: Member, error_code: int, decision: Decision, member_id: str = "") -> None:
    """Answer what a member, who is none any more, waits for."""
    join, sync = member.awaiting_join, member.awaiting_sync
    member.awaiting_join = member.awaiting_sync = None
    if join is not None:
        decision.reply(join.ticket, join_error(join.api_version, error_code, member_id))
    if sync is not None:
        decision.reply(sync.ticket, sync_error(error_code))


def refuse_syncs(group: ClassicGroup, error_code: int, decision: Decision) -> None:
    """Answer every sync that waits with an error. Those members are alive."""
    for member in group.members.values():
        parked = member.awaiting_sync
        if parked is not None:
            member.awaiting_sync = None
            decision.reply(parked.ticket, sync_error(error_code))
            decision.set_timer(member.session, member.session_timeout_ms)


def park_join(group: ClassicGroup, member: Member, parked: Parked, decision: Decision) -> None:
    """Let a member wait for the next generation. It has given up an earlier request of the same kind."""
    before, member.awaiting_join = member.awaiting_join, parked
    if before is None:
        group.awaiting_joins += 1
    else:
        decision.reply(before.ticket, join_error(before.api_version, error_codes.REBALANCE_IN_PROGRESS))


def end_session(group: ClassicGroup, member_id: str, decision: Decision) -> None:
    """No heartbeat came in time."""
    member = group.members.get(member_id)
    if member is not None and not member.is_alive:
        remove_member(group, member, decision)


def end_pending(group: ClassicGroup, member_id: str, decision: Decision) -> None:
    """Somebody was given an id and did not come back with it."""
    if group.pending_members.pop(member_id, None) is not None:
        _stop_waiting(group, decision)


def _stop_waiting(group: ClassicGroup, decision: Decision) -> None:
    """Nobody is waited for any more, perhaps. A first rebalance of members alone ends early, too."""
    if group.state is State.PREPARING_REBALANCE and group.has_all_joined:
        complete_join(group, decision)


def _wait_for_joins(
    group: ClassicGroup, delay_ms: int, initial_delay: tuple[int, int] | None, decision: Decision
) -> None:
    group.initial_delay = initial_delay
    if group.join_timer is None:
        group.join_timer = Timer(_joins_over, group)
    decision.set_timer(group.join_timer, delay_ms)


def _joins_over(group: ClassicGroup, decision: Decision) -> None:
    """The wait is over, unless a first rebalance goes on for members that came while it waited."""
    if group.state is not State.PREPARING_REBALANCE:
        return
    if group.initial_delay is not None:
        delay_ms, remaining_ms = group.initial_delay
        if group.new_member_added and remaining_ms:
            group.new_member_added = False
            next_delay_ms = min(decision.settings.initial_rebalance_delay_ms, remaining_ms)
            _wait_for_joins(group, next_delay_ms, (next_delay_ms, max(remaining_ms - delay_ms, 0)), decision)
            return
    complete_join(group, decision)


def _sync_over(group: ClassicGroup, decision: Decision) -> None:
    """Members that did not sync in time are out (KAFKA-13435)."""
    if group.state not in (State.COMPLETING_REBALANCE, State.STABLE) or not group.pending_sync:
        return
    for member_id in sorted(group.pending_sync):
        member = group.members.get(member_id)
        if member is not None:
            forget_member(group, member, decision)
    prepare_rebalance(group, decision)
