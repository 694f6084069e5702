"""Produce (0), versions 3-13, advertised from 0.

- acks 0: no response; when a partition failed the connection is closed, so that the client notices.
- acks 1: answered when the leader has appended; acks -1: when the high watermark covers the batch, NOT_ENOUGH_REPLICAS
  when too few replicas are in sync before the append, REQUEST_TIMED_OUT after ``timeout_ms``.
- One batch per partition, magic 2; the whole batch is accepted or refused.
- v5 log_start_offset; v8 record_errors and error_message (KIP-467); v10 current_leader (KIP-951); v13 topic ids.
"""

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.metadata.topic_name import INTERNAL
from kpybroker.partition.validation import sole_batch
from kpybroker.replicas.commit_wait import CommitWait
from kpybroker.replicas.replica import Replica
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
ADMIN_CLIENT_ID = "__admin_client"


def handle(broker: Context, request: ProduceRequest, call: Call) -> ProduceResponse | Pending | None:
    """Append every partition's batch, then answer as ``acks`` asks."""
    acks = request.acks
    now_ms = broker.scheduler.now_ms()
    by_id = call.api_version >= 13
    replicas = broker.replicas
    failed = False
    uncommitted: list[tuple[Replica, int, PartitionProduceResponse]] = []
    responses = []
    for topic in request.topic_data:
        held = replicas.by_id.get(topic.topic_id) if by_id else replicas.topics.get(topic.name)
        name = topic.name if held is None else held.name
        answers = []
        for data in topic.partition_data:
            try:
                if acks not in (-1, 0, 1):
                    raise KafkaError(error_codes.INVALID_REQUIRED_ACKS)
                if name in INTERNAL and call.client_id != ADMIN_CLIENT_ID:
                    raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION, f"Cannot append to internal topic {name}")
                if held is None:
                    raise KafkaError(
                        error_codes.UNKNOWN_TOPIC_ID if by_id else error_codes.UNKNOWN_TOPIC_OR_PARTITION
                    )
                replica = held.replica(data.index)
                if call.api_version < EVERY_CODEC_FROM and data.records is not None:
                    sole_batch(data.records, call.api_version)
                answer, next_offset = _append(replica, data, acks, now_ms)
                leader = replica.leader
                if acks == ACKS_ALL and leader is not None and next_offset > leader.high_watermark.offset:
                    uncommitted.append((replica, next_offset, answer))
            except KafkaError as error:
                answer = _refused(data.index, error)
                failed = True
            except DiskFailure as failure:
                replicas.directory_failed(failure)
                answer = _refused(data.index, KafkaError(error_codes.KAFKA_STORAGE_ERROR))
                failed = True
            except StorageError as error:
                answer = _refused(data.index, KafkaError(error.error_code, str(error)))
                failed = True
            answers.append(answer)
        responses.append(
            TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=answers)
        )
    if acks == 0:
        if failed:
            raise CloseConnection("a produce request without acknowledgement failed")
        return None
    response = ProduceResponse(responses=responses)
    if uncommitted:
        return CommitWait(broker.scheduler, response, uncommitted, request.timeout_ms).pending
    return response


def _append(
    replica: Replica, data: PartitionProduceData, acks: int, now_ms: int
) -> tuple[PartitionProduceResponse, int]:
    """Append one partition's batch: the answer, and the offset that must be committed for it."""
    leader = replica.led()
    if acks == ACKS_ALL and len(leader.isr) < min(replica.topic.config.min_insync_replicas, len(leader.replicas)):
        raise KafkaError(error_codes.NOT_ENOUGH_REPLICAS)
    records = data.records
    if records is None:
        raise KafkaError(error_codes.INVALID_RECORD, "Produce requests must have exactly one record batch")
    appended = leader.append(records, replica.topic.validation, now_ms)
    replica.appended(len(records), appended.next_offset - appended.base_offset)
    answer = PartitionProduceResponse(
        index=data.index,
        error_code=error_codes.NONE,
        base_offset=appended.base_offset,
        log_append_time_ms=appended.log_append_time_ms,
        log_start_offset=leader.log.log_start_offset,
    )
    return answer, appended.next_offset


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
