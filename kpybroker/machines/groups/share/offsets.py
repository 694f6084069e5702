"""The start offsets of share groups, as administrators alter and delete them (KIP-932).

Offsets are part of the states that the share coordinator keeps. Here is noted for which topics there are some, before
and after the share coordinator is asked.
"""

from typing import Any

from kpybroker.machines.coordination.events import MetadataChanged
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.epochs.finding import find_group
from kpybroker.machines.groups.epochs.refused import RequestRefused
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.events import (
    DeleteStates,
    Initialize,
    InitializedPartitions,
    OffsetsDeleted,
    StatesInitialized,
)
from kpybroker.machines.groups.share.heartbeat import find_or_make, write_states
from kpybroker.machines.groups.share.share_group import SHARE, ShareGroup
from kpybroker.machines.groups.share.state_topics import StateTopic, StateTopics, named
from kpywire import error_codes
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kpywire.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kpywire.uuid import ZERO_UUID

NOTHING_TO_DELETE = "There is no offset information to delete."
_UNKNOWN = error_codes.UNKNOWN_TOPIC_OR_PARTITION


def states_initialized(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Note which states were initialised, or could not be."""
    message: StatesInitialized = request.message
    share = shard.find(message.group_id, ShareGroup)
    if share is not None:
        states, view = share.states or StateTopics(), decision.topics
        if message.error_code == error_codes.NONE:
            write_states(shard, share, states.with_initialized(message.partitions, view), decision)
        elif states.initializing:
            write_states(shard, share, states.with_failed(message.partitions, view), decision)
    decision.reply(request.ticket, message.error_code)


def initialized_partitions(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer an `InitializedPartitions`."""
    message: InitializedPartitions = request.message
    share = shard.find(message.group_id, ShareGroup)
    states = None if share is None else share.states
    found = {} if states is None else states.initialized
    decision.reply(request.ticket, {topic_id: sorted(topic.partitions) for topic_id, topic in found.items()})


# Altering


def alter_offsets(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer an AlterShareGroupOffsets by an `Initialize`. The group has no members; it may be new."""
    message = request.message
    try:
        group = find_or_make(shard, message.group_id, makes=True)
        _check_empty(group)
    except RequestRefused as refused:
        decision.reply(request.ticket, Initialize(alter_error(refused.error_code, refused.text), 0, {}))
        return
    new: dict[bytes, StateTopic] = {}
    offsets: dict[bytes, dict[int, int]] = {}
    responses = []
    for topic in message.topics:
        known = decision.topics.by_name.get(topic.topic_name)
        count = 0 if known is None else len(known.partitions)
        valid = {each.partition_index: each.start_offset for each in topic.partitions if each.partition_index < count}
        if known is not None:
            new[known.id] = StateTopic(topic.topic_name, frozenset(valid))
            if valid:
                offsets[known.id] = valid
        responses.append(
            AlterShareGroupOffsetsResponseTopic(
                topic_name=topic.topic_name,
                topic_id=ZERO_UUID if known is None else known.id,
                partitions=[
                    _altered(each.partition_index, error_codes.NONE if each.partition_index < count else _UNKNOWN)
                    for each in topic.partitions
                ],
            )
        )
    if new:
        states = group.states or StateTopics()
        write_states(shard, group, states.with_initializing(new, decision.topics), decision)
    response = AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=error_codes.NONE, responses=responses)
    decision.reply(request.ticket, Initialize(response, group.epoch, offsets))


def refuse_alteration(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer an AlterShareGroupOffsets with an error."""
    decision.reply(request.ticket, Initialize(alter_error(error_code), 0, {}))


def alter_error(error_code: int, text: str | None = None) -> AlterShareGroupOffsetsResponse:
    """The response with an error."""
    text = error_codes.message(error_code) if text is None else text
    return AlterShareGroupOffsetsResponse(throttle_time_ms=0, error_code=error_code, error_message=text, responses=[])


def _altered(index: int, code: int) -> AlterShareGroupOffsetsResponsePartition:
    return AlterShareGroupOffsetsResponsePartition(
        partition_index=index, error_code=code, error_message=error_codes.message(code) if code else None
    )


def _check_empty(group: ShareGroup) -> None:
    if group.members:
        raise RequestRefused(error_codes.NON_EMPTY_GROUP, error_codes.message(error_codes.NON_EMPTY_GROUP))


# Deleting


def delete_offsets(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Answer a DeleteShareGroupOffsets by a `DeleteStates`. Its response has the topics that are refused;
    `OffsetsDeleted` adds the others."""
    message = request.message
    try:
        group = find_group(shard, message.group_id, ShareGroup, SHARE)
        _check_empty(group)
    except RequestRefused as refused:
        decision.reply(request.ticket, DeleteStates(delete_error(refused.error_code, refused.text), {}))
        return
    partitions: dict[bytes, list[int]] = {}
    refusals: list[DeleteShareGroupOffsetsResponseTopic] = []
    states = group.states
    if states is not None:
        initialized, deleting = dict(states.initialized), list(states.deleting)
        for topic in message.topics:
            known = decision.topics.by_name.get(topic.topic_name)
            if known is None:
                refusals.append(_not_deleted(topic.topic_name, error_codes.message(_UNKNOWN)))
            elif known.id in initialized:
                partitions[known.id] = sorted(initialized.pop(known.id).partitions)
                deleting.append(known.id)
            elif known.id in deleting:
                partitions[known.id] = list(range(len(known.partitions)))
            else:
                refusals.append(_not_deleted(topic.topic_name, NOTHING_TO_DELETE))
        view = decision.topics
        left = states._replace(initialized=initialized, deleting=named(deleting, view))
        write_states(shard, group, left, decision)
    decision.reply(request.ticket, DeleteStates(deleted(refusals), partitions))


def offsets_deleted(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Note that the states of topics were deleted."""
    message: OffsetsDeleted = request.message
    share = shard.find(message.group_id, ShareGroup)
    topics = []
    if share is not None and share.states is not None:
        states = share.states
        left = [topic_id for topic_id in states.deleting if topic_id not in message.topics]
        write_states(shard, share, states._replace(deleting=named(left, decision.topics)), decision)
        topics = [
            DeleteShareGroupOffsetsResponseTopic(topic_id=topic_id, topic_name=name, error_code=error_codes.NONE)
            for topic_id, name in message.topics.items()
        ]
    decision.reply(request.ticket, topics)


def refuse_offset_deletion(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer a DeleteShareGroupOffsets with an error."""
    decision.reply(request.ticket, DeleteStates(delete_error(error_code), {}))


def deleted(topics: list[Any]) -> DeleteShareGroupOffsetsResponse:
    """The response with these topics."""
    return DeleteShareGroupOffsetsResponse(throttle_time_ms=0, error_code=error_codes.NONE, responses=topics)


def delete_error(error_code: int, text: str | None = None) -> DeleteShareGroupOffsetsResponse:
    """The response with an error."""
    text = error_codes.message(error_code) if text is None else text
    return DeleteShareGroupOffsetsResponse(throttle_time_ms=0, error_code=error_code, error_message=text, responses=[])


def _not_deleted(name: str, text: str) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name, topic_id=ZERO_UUID, error_code=_UNKNOWN, error_message=text
    )


# Topics that are deleted


def forget_topics(shard: GroupShard, event: MetadataChanged, _decision: GroupDecision) -> None:
    """Begin to forget the states of deleted topics. The share coordinator deletes the states itself."""

    topic_ids = frozenset(event.deleted_ids)

    def visit(shard: GroupShard, group_id: str, decision: GroupDecision) -> bool:
        share = shard.find(group_id, ShareGroup)
        if share is not None and share.states is not None and share.states.has_any(topic_ids):
            states = share.states.without_topics(topic_ids, decision.topics)
            write_states(shard, share, states, decision)
        return True

    kept = ((group_id, group.membership) for group_id, group in shard.groups.items())
    shares = [(group_id, share.states) for group_id, share in kept if isinstance(share, ShareGroup)]
    concerned = [group_id for group_id, states in shares if states is not None and states.has_any(topic_ids)]
    if concerned:
        shard.sweeps.begin(concerned, visit)
