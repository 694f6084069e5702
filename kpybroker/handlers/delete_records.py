"""DeleteRecords (21), versions 0-2: move a partition's log start forward (KIP-107).

- Offset -1 is the high watermark; above it, or below -1, is OFFSET_OUT_OF_RANGE. A lower offset than the log start
  changes nothing.
- A topic whose cleanup policy does not delete is POLICY_VIOLATION; an internal one INVALID_TOPIC_EXCEPTION.
"""

from collections.abc import Generator
from functools import partial

from kpybroker.errors import KafkaError
from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.led_partitions import ask_leader
from kpybroker.metadata.topic_name import INTERNAL
from kpybroker.partition.leader import Leader
from kpybroker.replicas.replica import Replica
from kpybroker.server.pending import Pending
from kpybroker.server.slices import each
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpywire import error_codes
from kpywire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1


def handle(
    broker: Context, request: DeleteRecordsRequest, _call: Call
) -> Generator[None, None, DeleteRecordsResponse | Pending]:
    """Answer each partition with its new log start; of a partition named twice the last offset counts.

    The answer leaves when the new log starts are on disk: deleted records do not come back with the next start.
    """
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        for wanted in topic.partitions:
            offsets.setdefault(topic.name, {})[wanted.partition_index] = wanted.offset
    changed: set[LogDirectory] = set()
    topics = []
    for name, partitions in offsets.items():
        answers = yield from each(partitions.items(), partial(_delete, broker, name, changed))
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    response = DeleteRecordsResponse(throttle_time_ms=0, topics=topics)
    if not changed:
        return response
    pending = Pending()
    unwritten = len(changed)

    def written() -> None:
        nonlocal unwritten
        unwritten -= 1
        if unwritten == 0:
            pending.resolve(response)

    for directory in changed:
        content = directory.render_log_starts()
        broker.replicas.directories.write_checkpoint(directory, names.LOG_STARTS, content, written)
    return pending


def _delete(
    broker: Context, topic: str, changed: set[LogDirectory], wanted: tuple[int, int]
) -> DeleteRecordsPartitionResult:
    index, offset = wanted

    def delete(replica: Replica, leader: Leader) -> DeleteRecordsPartitionResult:
        if not replica.topic.config.delete:
            raise KafkaError(error_codes.POLICY_VIOLATION)
        high_watermark = leader.high_watermark.offset
        start = high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= start <= high_watermark:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        if start > leader.log.log_start_offset:
            leader.log.advance_log_start(start)
            changed.add(leader.log.directory)
            replica.log_start_moved()
        return DeleteRecordsPartitionResult(
            partition_index=index, low_watermark=leader.log.log_start_offset, error_code=error_codes.NONE
        )

    def refuse(code: int, _message: str | None) -> DeleteRecordsPartitionResult:
        return DeleteRecordsPartitionResult(partition_index=index, low_watermark=-1, error_code=code)

    if topic in INTERNAL:
        return refuse(error_codes.INVALID_TOPIC_EXCEPTION, None)
    return ask_leader(broker, topic, index, delete, refuse)
