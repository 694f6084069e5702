"""OffsetCommit and TxnOffsetCommit: who may say how far a group has come, and the records that keep it.

(Kafka: ``OffsetMetadataManager``, ``ClassicGroup.validateOffsetCommit``.) The shell answers for topics and partitions
that do not exist, and resolves topic ids; what comes here has names.
"""

from collections.abc import Callable
from typing import Any

from kpybroker.groups.classic_group import State
from kpybroker.groups.committed import NO_TIMESTAMP, commit_record
from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.group import Group
from kpybroker.groups.lookup import is_abandoned, wake
from kpybroker.groups.record import Record
from kpybroker.groups.shard import Shard
from kpybroker.journal import ProducerEpoch
from kpywire import error_codes
from kpywire.group_records.offset_commit import OffsetCommitValue
from kpywire.messages.offset_commit import (
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from kpywire.uuid import ZERO_UUID
from kpywire.varint import as_int64

_NOT_FOUND_VERSION = 9

Answers = list[tuple[int, int]]
"""(partition, error code) of one topic."""


def commit_offsets(shard: Shard, request: GroupRequest, decision: Decision) -> None:
    """Write a group's positions. Each partition is answered for itself."""
    error = _check_commit(shard, request, decision)
    if error:
        refuse_commit(request, error, decision)
        return
    message = request.message
    expire_timestamp_ms = expiry_ms(message, decision.timestamp_ms)

    prepared = request.prepared
    if prepared is not None:
        decision.records.append(prepared)
        _answer_commit(request, lambda topic: _refuse(topic, error_codes.NONE), decision)
        return

    def write(topic: Any) -> Answers:
        return _write(message.group_id, topic, decision, expire_timestamp_ms, topic.topic_id)

    _answer_commit(request, write, decision)


def commit_offsets_in_transaction(shard: Shard, request: GroupRequest, decision: Decision) -> ProducerEpoch | None:
    """Write positions that count once the producer's transaction commits. The producer whose batch it is, if any."""
    message = request.message
    error = _check_transactional(shard, request, decision)
    if error:
        refuse_transactional_commit(request, error, decision)
        return None
    _answer_transactional_commit(request, lambda topic: _write(message.group_id, topic, decision), decision)
    return ProducerEpoch(message.producer_id, message.producer_epoch)


def refuse_commit(request: GroupRequest, error_code: int, decision: Decision) -> None:
    """Answer every partition with one error."""
    _answer_commit(request, lambda topic: _refuse(topic, error_code), decision)


def refuse_transactional_commit(request: GroupRequest, error_code: int, decision: Decision) -> None:
    """Answer every partition with one error."""
    _answer_transactional_commit(request, lambda topic: _refuse(topic, error_code), decision)


def _write(
    group_id: str,
    topic: Any,
    decision: Decision,
    expire_timestamp_ms: int = NO_TIMESTAMP,
    topic_id: bytes = ZERO_UUID,
) -> Answers:
    """Decide on the records of one topic."""
    answers = []
    for partition in topic.partitions:
        metadata = partition.committed_metadata or ""
        error_code = error_codes.NONE
        if java_length(metadata) > decision.settings.offset_metadata_max_bytes:
            error_code = error_codes.OFFSET_METADATA_TOO_LARGE
        else:
            timestamp_ms = decision.timestamp_ms
            record = position_record(group_id, topic, partition, timestamp_ms, expire_timestamp_ms, topic_id)
            decision.records.append(record)
        answers.append((partition.partition_index, error_code))
    return answers


def expiry_ms(message: Any, timestamp_ms: int) -> int:
    """When positions end of which the client says so, as it could before version 5."""
    retention_ms = message.retention_time_ms
    return NO_TIMESTAMP if retention_ms == -1 else as_int64(timestamp_ms + retention_ms)


def position_record(
    group_id: str, topic: Any, partition: Any, timestamp_ms: int, expire_timestamp_ms: int, topic_id: bytes
) -> Record:
    """The record of one partition's position."""
    value = OffsetCommitValue(
        offset=partition.committed_offset,
        leader_epoch=partition.committed_leader_epoch,
        metadata=partition.committed_metadata or "",
        commit_timestamp=timestamp_ms,
        expire_timestamp=expire_timestamp_ms,
        topic_id=topic_id,
    )
    return commit_record(group_id, topic.name, partition.partition_index, value)


def _refuse(topic: Any, error_code: int) -> Answers:
    return [(partition.partition_index, error_code) for partition in topic.partitions]


def _answer_commit(request: GroupRequest, answers_of: Callable[[Any], Answers], decision: Decision) -> None:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=index, error_code=error_code)
                for index, error_code in answers_of(topic)
            ],
        )
        for topic in request.message.topics
    ]
    decision.reply(request.ticket, OffsetCommitResponse(topics=topics))


def _answer_transactional_commit(
    request: GroupRequest, answers_of: Callable[[Any], Answers], decision: Decision
) -> None:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code)
                for index, error_code in answers_of(topic)
            ],
        )
        for topic in request.message.topics
    ]
    decision.reply(request.ticket, TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics))


def _check_commit(shard: Shard, request: GroupRequest, decision: Decision) -> int:
    message = request.message
    generation_id = message.generation_id_or_member_epoch
    group = shard.groups.get(message.group_id)
    if group is None:
        if generation_id < 0:
            return error_codes.NONE  # the record makes it: a group that only commits by hand
        return (
            error_codes.GROUP_ID_NOT_FOUND
            if request.api_version >= _NOT_FOUND_VERSION
            else error_codes.ILLEGAL_GENERATION
        )
    if group.foreign is not None:
        return _check_foreign(shard, group, generation_id, decision)
    classic = group.classic
    if classic is None:
        if generation_id < 0 and (group.recorded is None or not group.recorded.members):
            return error_codes.NONE
        classic = wake(group, decision)
    if generation_id < 0 and classic.state is State.EMPTY:
        return error_codes.NONE
    if generation_id < 0 and not message.member_id and message.group_instance_id is None:
        return error_codes.UNKNOWN_MEMBER_ID
    error = classic.check_member(message.member_id, message.group_instance_id)
    if error:
        return error
    if generation_id != classic.generation_id:
        return error_codes.ILLEGAL_GENERATION
    if classic.state is State.COMPLETING_REBALANCE:
        return error_codes.REBALANCE_IN_PROGRESS
    member = classic.members[message.member_id]
    decision.set_timer(member.session, member.session_timeout_ms)
    return error_codes.NONE


def _check_transactional(shard: Shard, request: GroupRequest, decision: Decision) -> int:
    """Members are checked if the producer says which one it is (KIP-447); a rebalance does not hold it up."""
    message = request.message
    if not message.group_id:
        return error_codes.INVALID_GROUP_ID
    group = shard.groups.get(message.group_id)
    if group is None:
        return error_codes.NONE if message.generation_id < 0 else error_codes.ILLEGAL_GENERATION
    if group.foreign is not None:
        return _check_foreign(shard, group, message.generation_id, decision)
    classic = group.classic or wake(group, decision)
    if message.generation_id < 0 and (
        classic.state is State.EMPTY or (not message.member_id and message.group_instance_id is None)
    ):
        return error_codes.NONE
    error = classic.check_member(message.member_id, message.group_instance_id)
    if error:
        return error
    return error_codes.NONE if message.generation_id == classic.generation_id else error_codes.ILLEGAL_GENERATION


def _check_foreign(shard: Shard, group: Group, generation_id: int, decision: Decision) -> int:
    """Commits by hand are taken by a consumer or streams group without members; a share group keeps no offsets."""
    foreign = group.foreign
    if foreign is None or foreign.keeps_offsets:
        is_manual = generation_id < 0 and is_abandoned(shard, group, decision)
        return error_codes.NONE if is_manual else error_codes.UNKNOWN_MEMBER_ID
    return error_codes.GROUP_ID_NOT_FOUND


def java_length(text: str) -> int:
    """As Java counts: in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
