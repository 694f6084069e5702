"""OffsetCommit and TxnOffsetCommit: check who may commit a group's offsets, and make the records of them.

(Kafka: ``OffsetMetadataManager``.) The shell answers for topics and partitions
that do not exist, and resolves topic ids; requests that reach this module have names.
"""

from collections.abc import Callable
from typing import Any

from kpybroker.groups.decision import Decision
from kpybroker.groups.events import GroupRequest
from kpybroker.groups.offsets.committed import NO_TIMESTAMP, commit_record
from kpybroker.groups.record import Record
from kpybroker.groups.shard import GroupShard
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


def commit_offsets(shard: GroupShard, request: GroupRequest, decision: Decision) -> None:
    """Commit a group's offsets. Each partition has its own error code."""
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


def commit_offsets_in_transaction(shard: GroupShard, request: GroupRequest, decision: Decision) -> ProducerEpoch | None:
    """Commit offsets that become valid when the producer's transaction commits.

    Returns the producer that the batch belongs to, None if the request is refused.
    """
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
    """Make the records of one topic, and return its answers."""
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
    """The time at which the committed offsets expire, if the client chose it, which was possible before version 5."""
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


def _check_commit(shard: GroupShard, request: GroupRequest, decision: Decision) -> int:
    message = request.message
    generation_id = message.generation_id_or_member_epoch
    group = shard.groups.get(message.group_id)
    if group is not None:
        return group.membership.check_commit(group, request, generation_id, decision)
    if generation_id < 0:
        return error_codes.NONE  # the record makes it: a group that only commits by hand
    return (
        error_codes.GROUP_ID_NOT_FOUND if request.api_version >= _NOT_FOUND_VERSION else error_codes.ILLEGAL_GENERATION
    )


def _check_transactional(shard: GroupShard, request: GroupRequest, decision: Decision) -> int:
    message = request.message
    if not message.group_id:
        return error_codes.INVALID_GROUP_ID
    group = shard.groups.get(message.group_id)
    if group is not None:
        return group.membership.check_transactional_commit(group, request, message.generation_id, decision)
    return error_codes.NONE if message.generation_id < 0 else error_codes.ILLEGAL_GENERATION


def java_length(text: str) -> int:
    """The length of a text as Java counts it: in UTF-16 units."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le")) // 2
