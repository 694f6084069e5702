"""ListOffsets (2), versions 1-11: offsets by time, or for a special timestamp.

- -1 latest (the high watermark, or the last stable offset when only committed records are read), -2 earliest,
  -3 the record with the largest timestamp on the disk (v7, KIP-734), -4 earliest on the disk (v8), -5 latest in the
  store (v9), -6 earliest that is not there yet (v11): a topic without tiered storage has no such offsets.
- A timestamp >= 0: the first record at or after it. If there is none, the answer is (-1, -1) without an error.
- A partition that is named twice is answered once, with INVALID_REQUEST. A special timestamp that the version does not
  know is UNSUPPORTED_VERSION. An unknown isolation level is UNKNOWN_SERVER_ERROR, as in Kafka.
- v4: leader epochs (KIP-320). v5: OFFSET_NOT_AVAILABLE while a new leader does not know yet how far its predecessor had
  committed (KIP-207); earlier versions LEADER_NOT_AVAILABLE.
- A batch that takes long to search is searched beside the event loop (`kpybroker.hosts.labour`). If too much waits for
  that, the answer is REQUEST_TIMED_OUT, and the client asks again.
- Replicas see the log up to its end. Replica id -2, used by tools that inspect replicas, is answered by followers too.
"""

from collections.abc import Generator
from functools import partial
from typing import Any

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.partition.role import READ_COMMITTED, READ_UNCOMMITTED, Role
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.laborious_batches import charge_of, party_of
from kpybroker.requests.serving.led_partitions import ask_any_role, ask_leader
from kpybroker.requests.serving.time_lookup import found_in_steps
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.scattered import Scattered
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpystorage.errors import StorageError
from kpystorage.log_offset import LogOffset
from kpywire import error_codes
from kpywire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kpywire.time_search import Search

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6
KNOWN_FROM = {
    LATEST: 0,
    EARLIEST: 0,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
LEADER_EPOCH_FROM = 4
NOT_AVAILABLE_FROM = 5
CONSUMER = -1
NOTHING_COPIED = -1
DEBUGGING_REPLICA = -2

Found = tuple[int, int, int]
"""(timestamp, offset, leader epoch), each -1 if nothing was found."""
NOTHING: Found = (-1, -1, -1)


def handle(
    broker: Context, request: ListOffsetsRequest, call: Call
) -> Generator[Pending | None, Any, ListOffsetsResponse]:
    """Answer each partition from memory, or from the index for a timestamp."""
    known_isolation = request.isolation_level in (READ_UNCOMMITTED, READ_COMMITTED)
    left: Scattered[tuple[str, int], bool] = Scattered()
    if known_isolation:
        left = yield from _named_twice(request)
    topics = []
    for topic in request.topics:
        yield None
        answers = []
        for partition in topic.partitions:
            which = (topic.name, partition.partition_index)
            yield None
            if which in left:
                if not left[which]:
                    continue
                left[which] = False
                code, found = error_codes.INVALID_REQUEST, NOTHING
            else:
                answered = yield from _in_store(broker, request, topic.name, partition)
                if answered is None:
                    look_up = partial(_look_up, broker, request, topic.name, partition, call.api_version)
                    answered = yield from found_in_steps(broker.labour, party_of(call), look_up, charge_of(call))
                code, found = answered
            answers.append(
                ListOffsetsPartitionResponse(
                    partition_index=partition.partition_index,
                    error_code=code,
                    timestamp=found[0],
                    offset=found[1],
                    leader_epoch=found[2] if call.api_version >= LEADER_EPOCH_FROM else -1,
                )
            )
            yield None
        if answers or not known_isolation:
            topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    yield from left.emptied()
    return ListOffsetsResponse(throttle_time_ms=0, topics=topics)


def _named_twice(request: ListOffsetsRequest) -> Generator[None, None, Scattered[tuple[str, int], bool]]:
    """Return the partitions that a request names more than once, each with True: it is not answered yet."""
    repeated: Scattered[tuple[str, int], bool] = Scattered()
    indexes: Scattered[str, set[int]] = Scattered()
    named = 0
    for topic in request.topics:
        named += 1
        if named % STEP_ELEMENTS == 0:
            yield
        seen = indexes.setdefault(topic.name, set())
        for partition in topic.partitions:
            named += 1
            if named % STEP_ELEMENTS == 0:
                yield
            if partition.partition_index in seen:
                repeated[topic.name, partition.partition_index] = True
            seen.add(partition.partition_index)
    yield from indexes.emptied()
    return repeated


def _in_store(
    broker: Context, request: ListOffsetsRequest, topic: str, partition: ListOffsetsPartition
) -> Generator[Pending, Any, tuple[int, Found] | None]:
    """The answer of the store to a timestamp; None where the log on the disk decides."""
    remote_log = broker.remote_log
    if remote_log is None or partition.timestamp < 0:
        return None
    try:
        replica = broker.replicas.find(topic, partition.partition_index)
        role = replica.held() if request.replica_id == DEBUGGING_REPLICA else replica.led()
        role.check_epoch(partition.current_leader_epoch)
        log = role.log
        if not log.config.is_tiered or log.log_start_offset == log.local_log_start_offset:
            return None
    except (KafkaError, StorageError):
        return None  # the log on the disk is asked, and refuses
    try:
        pending = remote_log.find_timestamp(replica, role, partition.timestamp)
    except KafkaError as error:
        return error.code, NOTHING
    answer = None if pending is None else (yield pending)
    if isinstance(answer, KafkaError):
        return answer.code, NOTHING
    if answer is None:
        return None
    return error_codes.NONE, (answer.timestamp, answer.offset, answer.leader_epoch)


def _look_up(
    broker: Context,
    request: ListOffsetsRequest,
    topic: str,
    partition: ListOffsetsPartition,
    version: int,
    search: Search,
) -> tuple[int, Found]:
    timestamp = partition.timestamp
    if request.isolation_level not in (READ_UNCOMMITTED, READ_COMMITTED):
        return error_codes.UNKNOWN_SERVER_ERROR, NOTHING
    if timestamp < 0 and version < KNOWN_FROM.get(timestamp, 2**15):
        return error_codes.UNSUPPORTED_VERSION, NOTHING

    def look_up(role: Role, copied_offset: int = NOTHING_COPIED) -> tuple[int, Found]:
        role.check_epoch(partition.current_leader_epoch)
        is_replica = request.replica_id != CONSUMER
        end = role.log.end if is_replica else role.end_for(request.isolation_level)
        if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
            return error_codes.NONE, _find_at_border(role, timestamp, copied_offset, end)
        if is_replica:
            return error_codes.NONE, _find(role, timestamp, end, search)
        lags = isinstance(role, PartitionLeader) and role.epoch_start_offset > role.high_watermark.offset
        return error_codes.NONE, _find(role, timestamp, end, search, lags=lags)

    def refuse(code: int, _message: str | None) -> tuple[int, Found]:
        if code == error_codes.OFFSET_NOT_AVAILABLE and version < NOT_AVAILABLE_FROM:
            code = error_codes.LEADER_NOT_AVAILABLE
        return code, NOTHING

    index = partition.partition_index
    if request.replica_id == DEBUGGING_REPLICA:
        return ask_any_role(broker, topic, index, look_up, refuse)

    def ask(replica: Replica, leader: PartitionLeader) -> tuple[int, Found]:
        remote_log = broker.remote_log
        return look_up(leader, NOTHING_COPIED if remote_log is None else remote_log.copied_offset(replica))

    return ask_leader(broker, topic, index, ask, refuse)


def _find_at_border(role: Role, timestamp: int, copied_offset: int, end: LogOffset) -> Found:
    """The last offset that is in the store, or the first that is yet to be copied there, if it is before the end
    (``UnifiedLog.fetchLatestTieredOffset``, ``fetchEarliestPendingUploadOffset``)."""
    log = role.log
    if not log.config.is_tiered:
        return NOTHING
    if timestamp == LATEST_TIERED:
        return -1, copied_offset, log.epochs.epoch_for(copied_offset)
    if copied_offset == NOTHING_COPIED and log.log_start_offset != log.local_log_start_offset:
        return NOTHING  # it is not known yet
    pending = max(copied_offset + 1, log.log_start_offset)
    if pending >= end.offset:
        return NOTHING
    return -1, pending, log.epochs.epoch_for(pending)


def _find(role: Role, timestamp: int, end: LogOffset, search: Search, *, lags: bool = False) -> Found:
    """Find the offset for a timestamp. ``lags``: more may be committed than this leader knows."""
    log = role.log
    if timestamp == LATEST:
        if lags:
            raise KafkaError(error_codes.OFFSET_NOT_AVAILABLE)
        return -1, end.offset, role.epoch
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset if timestamp == EARLIEST else log.local_log_start_offset
        return -1, start, log.epochs.epoch_for(start)
    if timestamp == MAX_TIMESTAMP:
        found = log.max_timestamp_offset(search)
    else:
        found = log.offset_for_timestamp(timestamp, search)
    if found is None:
        return NOTHING
    if found.offset >= end.offset:
        if lags:
            raise KafkaError(error_codes.OFFSET_NOT_AVAILABLE)
        return NOTHING
    return found.timestamp, found.offset, found.leader_epoch
