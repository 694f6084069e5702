"""DeleteRecords (21), versions 0-2: move a partition's log start forward (KIP-107).

- Offset -1 means the high watermark. An offset above that, or below -1, is OFFSET_OUT_OF_RANGE. An offset below the log
  start changes nothing.
- A topic that is only compacted, or a mirror, is POLICY_VIOLATION; an internal topic is INVALID_TOPIC_EXCEPTION.
- Answered when all replicas on alive brokers have followed, or with REQUEST_TIMED_OUT after ``timeout_ms``.

A log start moves only when the new one is on disk. So it never moves back, not even for a client that read it just
before a crash. (Apache Kafka stores it a minute later.)
"""

from collections.abc import Generator, Iterator
from functools import partial
from typing import NamedTuple

from kpybroker.hosts.replicas.deletion_wait import DeletionWait, RecordDeletion
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.led_partitions import ask_leader
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, each
from kpystorage import names
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpywire import error_codes
from kpywire.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

HIGH_WATERMARK = -1
NO_OFFSET = -1


class _Deletion(NamedTuple):
    """A partition that is answered once its new log start is on disk. ``log`` is None if it already starts there."""

    replica: Replica
    log: Log | None
    offset: int
    result: DeleteRecordsPartitionResult

    def settle(self) -> RecordDeletion | None:
        """Move the log's start. Return the deletion that the other replicas must follow; None if it failed."""
        log, replica = self.log, self.replica
        if log is not None:
            if log.directory.failure is not None:
                self.result.error_code = error_codes.KAFKA_STORAGE_ERROR
                return None
            if replica.gone or not log.is_open:
                self.result.error_code = error_codes.NOT_LEADER_OR_FOLLOWER
                return None
            if log.advance_log_start(self.offset):
                replica.log_start_moved()
        return RecordDeletion(replica, self.offset, self._decided)

    def _decided(self, error_code: int, low_watermark: int) -> None:
        self.result.error_code, self.result.low_watermark = error_code, low_watermark


def handle(
    broker: Context, request: DeleteRecordsRequest, _call: Call
) -> Generator[None, None, DeleteRecordsResponse | Pending]:
    """Answer each partition with its new log start. If a partition is named twice, the last offset counts."""
    offsets: dict[str, dict[int, int]] = {}
    for topic in request.topics:
        yield
        for nth, wanted in enumerate(topic.partitions, 1):
            offsets.setdefault(topic.name, {})[wanted.partition_index] = wanted.offset
            if nth % STEP_ELEMENTS == 0:
                yield
    deletions: list[_Deletion] = []
    topics = []
    for name, partitions in offsets.items():
        answers = yield from each(partitions.items(), partial(_delete, broker, name, deletions))
        topics.append(DeleteRecordsTopicResult(name=name, partitions=answers))
    response = DeleteRecordsResponse(throttle_time_ms=0, topics=topics)
    if not deletions:
        return response
    pending = Pending()
    unwritten = {deletion.log.directory for deletion in deletions if deletion.log is not None}

    def settle() -> Iterator[None]:
        waiting = []
        for deletion in deletions:
            settled = deletion.settle()
            if settled is not None:
                waiting.append(settled)
            yield
        wait = DeletionWait(broker.scheduler, waiting, request.timeout_ms, lambda: pending.resolve(response))
        pending.when_cancelled(wait.forget)

    def written(directory: LogDirectory) -> None:
        unwritten.discard(directory)
        if not unwritten:
            broker.scheduler.in_pieces(settle())

    if not unwritten:
        yield from settle()
        return response if pending.resolved else pending
    for directory in list(unwritten):
        content = directory.render_log_starts()
        broker.replicas.directories.write_checkpoint(directory, names.LOG_STARTS, content, partial(written, directory))
    return pending


def _delete(
    broker: Context, topic: str, deletions: list[_Deletion], wanted: tuple[int, int]
) -> DeleteRecordsPartitionResult:
    index, offset = wanted

    def delete(replica: Replica, leader: PartitionLeader) -> DeleteRecordsPartitionResult:
        config = replica.topic.config
        if config.is_mirror or (config.compact and not config.delete):
            raise KafkaError(error_codes.POLICY_VIOLATION)
        high_watermark = leader.high_watermark.offset
        start = high_watermark if offset == HIGH_WATERMARK else offset
        if not 0 <= start <= high_watermark:
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE)
        log = leader.log
        low_watermark = log.log_start_offset
        if start <= low_watermark and leader.low_watermark() >= start:
            return _answer(index, leader.low_watermark(), error_codes.NONE)
        answer = _answer(index, NO_OFFSET, error_codes.NONE)
        if start <= low_watermark:
            deletions.append(_Deletion(replica, None, start, answer))
            return answer
        log.directory.promise_log_start(log, start)
        deletions.append(_Deletion(replica, log, start, answer))
        return answer

    def refuse(code: int, _message: str | None) -> DeleteRecordsPartitionResult:
        return _answer(index, NO_OFFSET, code)

    if topic in INTERNAL:
        return refuse(error_codes.INVALID_TOPIC_EXCEPTION, None)
    return ask_leader(broker, topic, index, delete, refuse)


def _answer(index: int, low_watermark: int, error_code: int) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=low_watermark, error_code=error_code)
