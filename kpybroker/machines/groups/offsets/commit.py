"""OffsetCommit and TxnOffsetCommit: check who may commit a group's offsets, and make the records of them.

(Kafka: ``OffsetMetadataManager``.) The shell answers for topics and partitions
that do not exist, and resolves topic ids; requests that reach this module have names.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.coordination.decision import Alike
from kpybroker.machines.groups.decision import GroupDecision
from kpybroker.machines.groups.events import GroupRequest
from kpybroker.machines.groups.offsets.commit_record import expiry_ms, java_length, position_record
from kpybroker.machines.groups.offsets.committed import NO_TIMESTAMP
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.journal import ProducerEpoch
from kpywire import error_codes
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

if TYPE_CHECKING:
    from kpybroker.machines.groups.offsets.large_commit import LargeCommit

_NOT_FOUND_VERSION: Final = 9
_NEWER_ERRORS_VERSION: Final = 6
"""The first version of TxnOffsetCommit whose clients know GROUP_ID_NOT_FOUND and STALE_MEMBER_EPOCH."""
_FEW_PARTITIONS: Final = 16
_REMEMBERED_RESPONSES: Final = 512

Codes = tuple[tuple[int, int], ...]
"""(partition, error code) of one topic."""
Answers = tuple[tuple[str, bytes, Codes], ...]
"""(name, id, codes) of each topic."""


def commit_offsets(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> None:
    """Commit a group's offsets. Each partition has its own error code."""
    error = _check_commit(shard, request, decision)
    if error:
        refuse_commit(request, error, decision)
        return
    message, prepared = request.message, request.prepared
    if prepared is not None:
        _write_prepared(request, prepared, decision)
        return
    group_id, expire_timestamp_ms = message.group_id, expiry_ms(message, decision.timestamp_ms)
    answers = []
    for topic in message.topics:
        topic_id = topic.topic_id
        answers.append((topic.name, topic_id, _write(group_id, topic, decision, expire_timestamp_ms, topic_id)))
    _answer_commit(request, tuple(answers), decision)


def commit_offsets_in_transaction(
    shard: GroupShard, request: GroupRequest, decision: GroupDecision
) -> ProducerEpoch | None:
    """Commit offsets that become valid when the producer's transaction commits.

    Returns the producer that the batch belongs to, None if the request is refused.
    """
    message = request.message
    error = _check_transactional(shard, request, decision)
    if error:
        refuse_transactional_commit(request, error, decision)
        return None
    if request.prepared is not None:
        _write_prepared(request, request.prepared, decision)
    else:
        codes = [_write(message.group_id, topic, decision, topic_id=topic.topic_id) for topic in message.topics]
        _answer_transactional_commit(request, codes, decision)
    return ProducerEpoch(message.producer_id, message.producer_epoch)


def refuse_commit(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer every partition with one error."""
    if request.prepared is not None:
        decision.reply(request.ticket, Alike(error_code))
    else:
        _answer_commit(request, _same_code(request.message.topics, error_code), decision)


def refuse_transactional_commit(request: GroupRequest, error_code: int, decision: GroupDecision) -> None:
    """Answer every partition with one error."""
    if request.prepared is not None:
        decision.reply(request.ticket, Alike(error_code))
    else:
        codes = [_same_codes(topic, error_code) for topic in request.message.topics]
        _answer_transactional_commit(request, codes, decision)


def _write_prepared(request: GroupRequest, prepared: "LargeCommit", decision: GroupDecision) -> None:
    if prepared.batch is not None:
        decision.records.append(prepared.batch)
    code = error_codes.UNKNOWN_SERVER_ERROR if prepared.is_too_large else error_codes.NONE
    decision.reply(request.ticket, Alike(code))


def _write(
    group_id: str,
    topic: Any,
    decision: GroupDecision,
    expire_timestamp_ms: int = NO_TIMESTAMP,
    topic_id: bytes = ZERO_UUID,
) -> Codes:
    """Make the records of one topic, and return its answers."""
    codes = []
    for partition in topic.partitions:
        error_code = error_codes.NONE
        if java_length(partition.committed_metadata or "") > decision.settings.offset_metadata_max_bytes:
            error_code = error_codes.OFFSET_METADATA_TOO_LARGE
        else:
            timestamp_ms = decision.timestamp_ms
            record = position_record(group_id, topic, partition, timestamp_ms, expire_timestamp_ms, topic_id)
            decision.records.append(record)
        codes.append((partition.partition_index, error_code))
    return tuple(codes)


def _same_code(topics: Sequence[Any], error_code: int) -> Answers:
    return tuple([(topic.name, topic.topic_id, _same_codes(topic, error_code)) for topic in topics])


def _same_codes(topic: Any, error_code: int) -> Codes:
    return tuple([(partition.partition_index, error_code) for partition in topic.partitions])


def _answer_commit(request: GroupRequest, answers: Answers, decision: GroupDecision) -> None:
    partitions = 0
    for _, _, codes in answers:
        partitions += len(codes)
    respond = _remembered_response if partitions <= _FEW_PARTITIONS else _response
    decision.reply(request.ticket, respond(answers))


def _response(answers: Answers) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=name,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=index, error_code=error_code)
                    for index, error_code in codes
                ],
            )
            for name, topic_id, codes in answers
        ]
    )


_remembered_response: Final = lru_cache(_REMEMBERED_RESPONSES)(_response)
"""Clients commit the same partitions again and again. So they get the same object as their response, which a connection
encodes once (`kpybroker.requests.dispatching.repeated`). Nobody may change it."""


def _answer_transactional_commit(
    request: GroupRequest, codes_of_topics: Sequence[Codes], decision: GroupDecision
) -> None:
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=index, error_code=error_code)
                for index, error_code in codes
            ],
        )
        for topic, codes in zip(request.message.topics, codes_of_topics, strict=True)
    ]
    decision.reply(request.ticket, TxnOffsetCommitResponse(throttle_time_ms=0, topics=topics))


def _check_commit(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> int:
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


def _check_transactional(shard: GroupShard, request: GroupRequest, decision: GroupDecision) -> int:
    message = request.message
    if not message.group_id:
        return error_codes.INVALID_GROUP_ID
    generation_id = message.generation_id_or_member_epoch
    group = shard.groups.get(message.group_id)
    error = error_codes.GROUP_ID_NOT_FOUND if generation_id >= 0 else error_codes.NONE
    if group is not None:
        error = group.membership.check_transactional_commit(group, request, generation_id, decision)
        if error != error_codes.STALE_MEMBER_EPOCH:
            return error
    if error and request.api_version < _NEWER_ERRORS_VERSION:
        return error_codes.ILLEGAL_GENERATION
    return error
