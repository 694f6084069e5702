"""Produce (0), versions 3-13, advertised from 0.

- acks 0: no response; when a partition failed the connection is closed, so that the client notices.
- acks 1: answered when the leader has appended; acks -1: when the high watermark covers the batch, NOT_ENOUGH_REPLICAS
  when too few replicas are in sync before the append, REQUEST_TIMED_OUT after ``timeout_ms``.
- One batch per partition, magic 2; the whole batch is accepted or refused.
- v5 log_start_offset; v8 record_errors and error_message (KIP-467); v10 current_leader (KIP-951); v13 topic ids.
"""

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.partition.validation import sole_batch
from kpybroker.replicas.commit_wait import CommitWait, Uncommitted
from kpybroker.replicas.replica import HeldTopic
from kpybroker.server.connection import CloseConnection
from kpybroker.server.pending import Pending
from kpystorage.errors import DiskFailure, StorageError
from kpywire import error_codes
from kpywire.messages.produce import (
    BatchIndexAndErrorMessage,
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)

ACKS_ALL = -1
EVERY_CODEC_FROM = 7
TOPIC_IDS_FROM = 13
ADMIN_CLIENT_ID = "__admin_client"


def handle(broker: Context, request: ProduceRequest, call: Call) -> ProduceResponse | Pending | None:
    """Append every partition's batch, then answer as ``acks`` asks."""
    acks = request.acks
    by_id = call.api_version >= TOPIC_IDS_FROM
    replicas = broker.replicas
    now_ms = broker.scheduler.now_ms()
    uncommitted: list[Uncommitted] = []
    failed = False
    responses = []
    for topic in request.topic_data:
        held = replicas.by_id.get(topic.topic_id) if by_id else replicas.topics.get(topic.name)
        refusal = _refusal(held, by_id, acks, call)
        answers = []
        for data in topic.partition_data:
            try:
                if refusal is not None or held is None:
                    raise refusal or KafkaError(error_codes.UNKNOWN_TOPIC_OR_PARTITION)
                if call.api_version < EVERY_CODEC_FROM and data.records is not None:
                    sole_batch(data.records, call.api_version)
                answer = _append(held, data, acks, now_ms, uncommitted)
            except KafkaError as error:
                failed = True
                answer = _refused(data.index, error)
            except StorageError as error:
                failed = True
                if isinstance(error, DiskFailure):
                    replicas.directory_failed(error)
                answer = _refused(data.index, KafkaError(error.error_code, str(error)))
            answers.append(answer)
        responses.append(TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers))
    if acks == 0:
        if failed:
            raise CloseConnection("a produce request without acknowledgement failed")
        return None
    response = ProduceResponse(responses=responses)
    if uncommitted:
        return CommitWait(broker.scheduler, response, uncommitted, request.timeout_ms).pending
    return response


def _refusal(held: HeldTopic | None, by_id: bool, acks: int, call: Call) -> KafkaError | None:
    """Why nothing can be produced to any partition of a topic; None if something can."""
    if acks not in (-1, 0, 1):
        return KafkaError(error_codes.INVALID_REQUIRED_ACKS)
    if held is None:
        return KafkaError(error_codes.UNKNOWN_TOPIC_ID if by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION)
    if held.is_internal and call.client_id != ADMIN_CLIENT_ID:
        return KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {held.name}")
    return None


def _append(
    held: HeldTopic, data: PartitionProduceData, acks: int, now_ms: int, uncommitted: list[Uncommitted]
) -> PartitionProduceResponse:
    """Append one partition's batch; what the high watermark does not cover yet goes to ``uncommitted``."""
    replica = held.replicas.get(data.index) or held.replica(data.index)
    leader = replica.leader
    if leader is None or replica.offline:
        leader = replica.led()
    if acks == ACKS_ALL and not leader.has_enough_in_sync(held.config.min_insync_replicas):
        raise KafkaError(error_codes.NOT_ENOUGH_REPLICAS)
    records = data.records
    if records is None:
        raise KafkaError(error_codes.INVALID_RECORD, "Produce requests must have exactly one record batch")
    base_offset, next_offset, append_time_ms = leader.append(records, held.validation, now_ms)
    held.records_in += next_offset - base_offset
    held.bytes_in += len(records)
    if replica.watchers or replica.commit_waits:
        replica.changed()
    answer = PartitionProduceResponse(
        index=data.index,
        error_code=error_codes.NONE,
        base_offset=base_offset,
        log_append_time_ms=append_time_ms,
        log_start_offset=leader.log.log_start_offset,
    )
    if acks == ACKS_ALL and next_offset > leader.high_watermark.offset:
        uncommitted.append((replica, next_offset, answer))
    return answer


def _refused(index: int, error: KafkaError) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=index,
        error_code=error.code,
        base_offset=-1,
        record_errors=[
            BatchIndexAndErrorMessage(batch_index=record, batch_index_error_message=message)
            for record, message in error.record_errors
        ],
        error_message=error.message,
    )
