"""ShareGroupHeartbeat (KIP-932): a member joins, stays, changes its subscription, or leaves.

(Kafka: ``GroupMetadataManager.shareGroupHeartbeat``.) The order of the checks and of the records is Kafka's. A request
that is wrong in itself is refused before it comes here (``GroupCoordinatorService``).

A member gets its target at once: partitions are shared, so nobody has to give them up first. Partitions whose delivery
state is not initialised are named in the answer (`Initialize`).
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kpybroker.machines.groups.beats import BEATING_OFTEN, Beat, at_rest_ms
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import fenced, find_group, known_member
from kpybroker.machines.groups.epochs.member import JOINING_EPOCH, NOTHING, SESSION
from kpybroker.machines.groups.epochs.refused import RequestRefused, tell_refusal
from kpybroker.machines.groups.epochs.target import MemberTarget, is_same
from kpybroker.machines.groups.epochs.timeouts import cancel
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.record import GroupRecord
from kpybroker.machines.groups.resting import keep_answer
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.events import Initialize
from kpybroker.machines.groups.share.leave import fence
from kpybroker.machines.groups.share.member import STABLE, ShareMember
from kpybroker.machines.groups.share.records import current_record, epoch_record, states_record, subscription_record
from kpybroker.machines.groups.share.share_group import SHARE, ShareGroup
from kpybroker.machines.groups.share.state_topics import Initializations, StateTopic, StateTopics, merged
from kpybroker.machines.groups.share.target import assign, has_unassigned, may_assign, subscribed
from kpybroker.machines.groups.share.timeouts import renew_session
from kpybroker.machines.groups.stories import JOINED, LEFT
from kpywire import error_codes
from kpywire.messages.share_group_heartbeat import Assignment, ShareGroupHeartbeatResponse, TopicPartitions

UNINITIALIZED: Final = -1
"""The start offset of a state whose leader chooses where the group begins."""
FIRST_OFFSET: Final = 0


def share_group_heartbeat(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a heartbeat by an `Initialize`."""
    try:
        if request.message.member_epoch < JOINING_EPOCH:
            answer = Initialize(_leave(shard, request.message, decision), 0, {})
        else:
            answer = _stay(shard, request, decision)
    except RequestRefused as refused:
        tell_refusal(shard, request, refused, decision)
        answer = Initialize(heartbeat_error(refused.error_code, refused.text), 0, {})
    decision.reply(request.ticket, answer)


def refuse_heartbeat(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a heartbeat with an error."""
    decision.reply(request.ticket, Initialize(heartbeat_error(error_code), 0, {}))


def heartbeat_error(error_code: int, text: str | None = None) -> ShareGroupHeartbeatResponse:
    """The response with an error."""
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0, error_code=error_code, error_message=text, member_epoch=0, heartbeat_interval_ms=0
    )


def find_or_make(shard: GroupShard, group_id: str, *, makes: bool) -> ShareGroup:
    """The share group of this id, or a new one that is not in the shard. Raises Refused."""
    if group_id in shard.groups:
        return find_group(shard, group_id, ShareGroup, SHARE)
    if not makes:
        raise RequestRefused(error_codes.GROUP_ID_NOT_FOUND, f"Share group {group_id} not found.")
    return ShareGroup(group_id)


def _leave(shard: GroupShard, message: Any, decision: GroupDecision) -> ShareGroupHeartbeatResponse:
    group = find_group(shard, message.group_id, ShareGroup, SHARE)
    member = known_member(group.group_id, group.members, message.member_id)
    decision.tell(group.group_id, LEFT, member)
    fence(group, member, decision)
    cancel(shard, SESSION, message.group_id, message.member_id, decision)
    return ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        member_id=message.member_id,
        member_epoch=message.member_epoch,
        heartbeat_interval_ms=0,
    )


def _stay(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> Initialize:
    message, records = request.message, decision.records
    group = find_or_make(shard, message.group_id, makes=message.member_epoch == JOINING_EPOCH)
    settings = decision.settings_of(group.group_id)
    if len(group.members) >= settings.share_max_size and message.member_id not in group.members:
        text = f"The share group has reached its maximum capacity of {settings.share_max_size} members."
        raise RequestRefused(error_codes.GROUP_MAX_SIZE_REACHED, text)
    member = _member(group, message)
    updated = _updated(member, request)
    if updated != member:
        records.append(subscription_record(group.group_id, updated))
    if updated.member_id not in group.members:
        decision.tell(group.group_id, JOINED, updated)
    bumps = updated.topic_names != member.topic_names
    if group.assignment_epoch >= group.epoch:
        bumps |= has_unassigned(group)
    epoch, by_name, bumps = _next_epoch(group, member, updated, records, decision, bumps=bumps)
    if may_assign(group, epoch, decision):
        everybody = len(group.members) + (updated.member_id not in group.members)
        homogeneous = all(count == everybody for count in by_name.values())
        target = assign(group, epoch, updated, records, decision, homogeneous=homogeneous)
    else:
        target = MemberTarget(group.assignment_epoch, group.target.get(updated.member_id, NOTHING))
    moved = _reconciled(updated, target, decision, subscription_changed=bumps)
    if moved != updated:
        records.append(current_record(group.group_id, moved))
    renew_session(shard, group.group_id, updated.member_id, decision)
    offsets = _initialize(shard, group, by_name, decision)
    is_sent = message.member_epoch == JOINING_EPOCH or message.subscribed_topic_names is not None
    usual_ms, unsettled_ms = settings.share_heartbeat_interval_ms, settings.share_unsettled_heartbeat_interval_ms
    at_rest = usual_ms, unsettled_ms if request.software in BEATING_OFTEN else 0
    rests = not offsets and target.epoch == epoch and not (group.states and group.states.initializing)
    response = ShareGroupHeartbeatResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        member_id=updated.member_id,
        member_epoch=moved.member_epoch,
        heartbeat_interval_ms=at_rest_ms(*at_rest, shard.members_of_node())
        if rests
        else min(usual_ms, unsettled_ms or usual_ms),
        assignment=_assignment(moved) if is_sent or not is_same(moved.assigned, member.assigned) else None,
    )
    if rests and not is_sent:
        session = (SESSION, group.group_id, updated.member_id)
        keep_answer(shard, message, response, Beat(session, settings.share_session_timeout_ms, *at_rest), decision)
    return Initialize(response, epoch, offsets)


def _member(group: ShareGroup, message: Any) -> ShareMember:
    """The member that sends a heartbeat. Raises Refused if it is unknown, or at another epoch."""
    epoch = message.member_epoch
    if epoch == JOINING_EPOCH:
        return group.members.get(message.member_id) or ShareMember(message.member_id)
    member = known_member(group.group_id, group.members, message.member_id)
    if epoch > member.member_epoch:
        raise fenced(SHARE, epoch, member.member_epoch)
    if epoch < member.member_epoch and epoch != member.previous_member_epoch:
        more = f", and it does not match the previous member epoch ({member.previous_member_epoch})"
        raise fenced(SHARE, epoch, member.member_epoch, more)
    return member


def _updated(member: ShareMember, request: GroupRequest) -> ShareMember:
    """The member with what the request changes. A field that is null stays as it is."""
    message = request.message
    changes: dict[str, Any] = {"client_id": request.client_id, "client_host": request.client_host}
    if message.rack_id is not None:
        changes["rack_id"] = message.rack_id
    if message.subscribed_topic_names is not None:
        changes["topic_names"] = frozenset(message.subscribed_topic_names)
    return member._replace(**changes)


def _next_epoch(
    group: ShareGroup,
    member: ShareMember,
    updated: ShareMember,
    records: list[GroupRecord],
    decision: GroupDecision,
    *,
    bumps: bool,
) -> tuple[int, Mapping[str, int], bool]:
    """Move the group to its next epoch if subscriptions, topics or states changed. Return the epoch, the subscribers of
    each topic, and whether the epoch is new."""
    epoch, by_name, checked = group.epoch, group.by_name_with(member, updated), group.checked_version
    if bumps or checked is None or decision.topics.has_changed(group.by_name, checked):
        metadata_hash = decision.topics.group_hash(by_name)
        bumps |= metadata_hash != group.metadata_hash
        if bumps:
            epoch += 1
            records.append(epoch_record(group.group_id, epoch, metadata_hash))
            decision.counts.count_rebalance(SHARE)
        group.checked_version = decision.topics.version
    return epoch, by_name, bumps


def _reconciled(
    member: ShareMember, target: MemberTarget, decision: GroupDecision, *, subscription_changed: bool
) -> ShareMember:
    """The member with its target (Kafka: ``ShareGroupAssignmentBuilder``)."""
    if target.epoch != member.member_epoch:
        return member._replace(
            state=STABLE,
            assigned=subscribed(target.target, member, decision),
            member_epoch=target.epoch,
            previous_member_epoch=member.member_epoch,
        )
    if subscription_changed:
        return member._replace(assigned=subscribed(target.target, member, decision))
    return member


def _assignment(member: ShareMember) -> Assignment:
    return Assignment(
        topic_partitions=[
            TopicPartitions(topic_id=topic_id, partitions=list(indexes))
            for topic_id, indexes in member.assigned.items()
        ]
    )


# States of share partitions


def _initialize(
    shard: GroupShard, group: ShareGroup, names: Iterable[str], decision: GroupDecision
) -> dict[bytes, dict[int, int]]:
    """Note that subscribed partitions without a state will get one, and return them with their start offsets.

    Partitions that a topic gets later are read from their beginning, so that no record is missed. A state that has been
    waiting for long is initialised again.
    """
    states = group.states or StateTopics()
    since_ms = shard.notes(Initializations).get(group.group_id, decision.loaded_ms)
    is_fresh = decision.now_ms - since_ms < decision.settings.share_initialize_retry_interval_ms
    known = merged(states.initialized, states.initializing) if is_fresh else states.initialized
    new: dict[bytes, StateTopic] = {}
    for name in names:
        topic = decision.topics.by_name.get(name)
        if topic is None:
            continue
        has = known[topic.id].partitions if topic.id in known else frozenset()
        if len(has) < len(topic.partitions):
            new[topic.id] = StateTopic(name, frozenset(topic.partitions) - has)
    if new:
        write_states(shard, group, states.with_initializing(new, decision.topics), decision)
    before = states.initialized.keys() | states.initializing.keys()
    return {
        topic_id: dict.fromkeys(sorted(topic.partitions), FIRST_OFFSET if topic_id in before else UNINITIALIZED)
        for topic_id, topic in new.items()
    }


def write_states(shard: GroupShard, group: ShareGroup, states: StateTopics, decision: GroupDecision) -> None:
    """Write the topics whose states a group has."""
    decision.records.append(states_record(group.group_id, states))
    shard.notes(Initializations)[group.group_id] = decision.now_ms
