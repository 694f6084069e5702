"""DeleteRecords (21), versions 0-2: move a partition's log start forward (KIP-107).

- Offset -1 is the high watermark; above it, or below -1, is OFFSET_OUT_OF_RANGE. A lower offset than the log start
  changes nothing.
- A topic whose cleanup policy does not delete is POLICY_VIOLATION; an internal one INVALID_TOPIC_EXCEPTION.
"""

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.metadata.topic_name import INTERNAL
from kpystorage.errors import DiskFailure
from kpywire import error_codes
from kpywire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


def handle(broker: Context, request: DeleteRecordsRequest, _call: Call) -> DeleteRecordsResponse:
    """Answer each partition with its new log start; of a partition named twice the last offset counts."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            offsets.setdefault(topic.name, {})[wanted.partition_index] = wanted.offset
    return DeleteRecordsResponse(
        throttle_time_ms=0,
        topics=[
            DeleteRecordsTopicResult(
                name=name, partitions=[_delete(broker, name, index, offset) for index, offset in partitions.items()]
            )
            for name, partitions in offsets.items()
        ],
    )


def _delete(broker: Context, topic: str, index: int, offset: int) -> DeleteRecordsPartitionResult:
    try:
        if topic in INTERNAL:
            raise KafkaError(error_codes.INVALID_TOPIC_EXCEPTION)
        replica = broker.replicas.find(topic, index)
        leader = replica.led()
        if not replica.topic.config.delete:
            raise KafkaError(error_codes.POLICY_VIOLATION)
        high_watermark = leader.high_watermark.offset
        if offset == HIGH_WATERMARK:
            offset = high_watermark
        if not 0 <= offset <= high_watermark:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if offset > leader.log.log_start_offset:
            leader.log.advance_log_start(offset)
            replica.changed()
        low_watermark = leader.log.log_start_offset
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=low_watermark, error_code=error_codes.NONE
        )
    except KafkaError as error:
        code = error.code
    except DiskFailure as failure:
        broker.replicas.directory_failed(failure)
        code = error_codes.KAFKA_STORAGE_ERROR
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)
