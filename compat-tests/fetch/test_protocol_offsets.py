"""Offsets on the wire: ListOffsets, OffsetForLeaderEpoch and DeleteRecords, as Apache Kafka answers them."""

from collections.abc import Callable
from functools import partial

import pytest

from conftest import NewTopic, StartBroker
from kpywire import error_codes
from kpywire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kpywire.record import Record, build_batch
from support.raw_client import RawClient, UpTo, connect
from support.raw_requests import (
    SET,
    TOPIC,
    append,
    batch_of,
    create,
    described,
    incremental_alteration,
    metadata_of,
    now_ms,
    offset_at,
    produce,
    wait_until_led,
)
from support.special_timestamps import (
    EARLIEST,
    EARLIEST_LOCAL,
    EARLIEST_PENDING_UPLOAD,
    KNOWN_FROM,
    LATEST,
    LATEST_TIERED,
    MAX_TIMESTAMP,
)
from support.waiting import eventually

EVERY_LIST_OFFSETS = range(1, 12)
NOTHING = (0, -1, -1, -1)
BASE_MS = 1_700_000_000_000
UNKNOWN = {"no-such-topic": 0, "a b": 0, "": 0}


@pytest.mark.parametrize("version", EVERY_LIST_OFFSETS)
def test_special_timestamps_have_answers_from_the_version_that_knows_them(
    raw: RawClient, topic: str, version: int
) -> None:
    append(raw, topic, 1000, 3000)
    append(raw, topic, 2000)
    epoch = 0 if version >= 4 else -1
    answers = {
        LATEST: (0, -1, 3, epoch),
        EARLIEST: (0, -1, 0, epoch),
        MAX_TIMESTAMP: (0, 3000, 1, epoch),
        EARLIEST_LOCAL: (0, -1, 0, epoch),
        LATEST_TIERED: NOTHING,
        EARLIEST_PENDING_UPLOAD: NOTHING,
    }
    unsupported = (error_codes.UNSUPPORTED_VERSION, -1, -1, -1)
    expected = {at: answers[at] if version >= KNOWN_FROM[at] else unsupported for at in answers}
    expected |= dict.fromkeys((-7, -100, -(2**63)), unsupported)
    expected |= {1500: (0, 3000, 1, epoch), 3001: NOTHING}
    assert {at: offset_at(raw, topic, at, version) for at in expected} == expected


def test_an_empty_log_begins_and_ends_at_zero(raw: RawClient, topic: str, in_zookeeper_mode: bool) -> None:
    expected = {
        LATEST: (0, -1, 0, 0),
        EARLIEST: (0, -1, 0, 0),
        MAX_TIMESTAMP: NOTHING,
        EARLIEST_LOCAL: (0, -1, 0, 0),
        LATEST_TIERED: NOTHING,
        EARLIEST_PENDING_UPLOAD: NOTHING,
        0: NOTHING,
        2**63 - 1: NOTHING,
    }
    if in_zookeeper_mode:
        expected[EARLIEST_PENDING_UPLOAD] = (error_codes.UNSUPPORTED_VERSION, -1, -1, -1)
    assert {at: offset_at(raw, topic, at) for at in expected} == expected


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_time_is_found_inside_a_batch_of_any_codec(raw: RawClient, topic: str, codec: int) -> None:
    append(raw, topic, BASE_MS)
    append(raw, topic, *(BASE_MS + after for after in (5, 100, 40, 100, 7)), codec=codec)
    found = {after: offset_at(raw, topic, BASE_MS + after)[1:3] for after in (0, 1, 5, 6, 41, 99, 100, 101)}
    assert found == {
        0: (BASE_MS, 0),
        1: (BASE_MS + 5, 1),
        5: (BASE_MS + 5, 1),
        6: (BASE_MS + 100, 2),
        41: (BASE_MS + 100, 2),
        99: (BASE_MS + 100, 2),
        100: (BASE_MS + 100, 2),
        101: (-1, -1),
    }
    assert offset_at(raw, topic, MAX_TIMESTAMP) == (0, BASE_MS + 100, 2, 0)


@pytest.mark.parametrize("codec", range(5), ids=["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_search_ends_at_a_record_that_is_too_large_when_inflated(raw: RawClient, topic: str, codec: int) -> None:
    """`max.decompressed.message.bytes` bounds what is searched, not only what is produced, and nothing that comes
    behind the record that is found."""
    sizes = (1, 5000, 1)
    records = [Record(timestamp=BASE_MS + at, value=bytes(size)) for at, size in enumerate(sizes)]
    assert produce(raw, topic, build_batch(records, codec=codec)).error_code == error_codes.NONE
    alteration = incremental_alteration((TOPIC, topic, [("max.decompressed.message.bytes", SET, "1000")]))
    assert raw.call(alteration, 1).responses[0].error_code == error_codes.NONE
    set_to = partial(described, raw, TOPIC, topic)
    eventually(lambda: set_to()["max.decompressed.message.bytes"].value == "1000", "the bound")
    refused = (error_codes.INVALID_RECORD, -1, -1, -1)
    expected = {BASE_MS + at: (0, BASE_MS + at, at, 0) for at in range(3)}
    if codec:
        expected |= {BASE_MS + 1: refused, BASE_MS + 2: refused, MAX_TIMESTAMP: refused}
    else:
        expected[MAX_TIMESTAMP] = (0, BASE_MS + 2, 2, 0)
    expected[BASE_MS + 3] = NOTHING
    assert {at: offset_at(raw, topic, at) for at in expected} == expected
    assert offset_at(raw, topic, LATEST)[2] == 3


def test_the_first_record_that_is_late_enough_is_found_whatever_the_order_of_times(raw: RawClient, topic: str) -> None:
    for timestamps in ((3000, 1000), (2000,), (5000, 4000), (5000,), (1, 2), (0,)):
        append(raw, topic, *timestamps)
    found = {at: offset_at(raw, topic, at)[1:3] for at in (0, 1000, 3000, 3001, 5000, 5001, MAX_TIMESTAMP)}
    assert found == {
        0: (3000, 0),
        1000: (3000, 0),
        3000: (3000, 0),
        3001: (5000, 3),
        5000: (5000, 3),
        5001: (-1, -1),
        MAX_TIMESTAMP: (5000, 3),
    }


def test_records_without_a_time_are_not_found_by_time(raw: RawClient, topic: str) -> None:
    append(raw, topic, -1)
    assert offset_at(raw, topic, MAX_TIMESTAMP) == (0, -1, 0, 0)
    assert offset_at(raw, topic, 0) == NOTHING
    append(raw, topic, 100)
    assert offset_at(raw, topic, MAX_TIMESTAMP) == (0, 100, 1, 0)
    assert offset_at(raw, topic, 0) == (0, 100, 1, 0)


def test_log_append_times_are_found_at_the_first_record_of_their_batch(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    first_ms = produce(raw, topic, batch_of(5, 6)).log_append_time_ms
    second_ms = first_ms
    while second_ms == first_ms:
        second_ms = produce(raw, topic, batch_of(5, 6, codec=1)).log_append_time_ms
    second = offset_at(raw, topic, first_ms + 1)[2]
    assert second >= 2
    found = {at: offset_at(raw, topic, at)[1:3] for at in (0, 5, first_ms, first_ms + 1, second_ms, second_ms + 1)}
    assert found == {
        0: (first_ms, 0),
        5: (first_ms, 0),
        first_ms: (first_ms, 0),
        first_ms + 1: (second_ms, second),
        second_ms: (second_ms, second),
        second_ms + 1: (-1, -1),
    }
    assert offset_at(raw, topic, MAX_TIMESTAMP) == (0, second_ms, second, 0)


def test_committed_and_uncommitted_ends_are_one_without_transactions(raw: RawClient, topic: str) -> None:
    append(raw, topic, 1000, 2000)
    for isolation in (0, 1):
        assert offset_at(raw, topic, LATEST, isolation=isolation) == (0, -1, 2, 0)
        assert offset_at(raw, topic, 1500, isolation=isolation) == (0, 2000, 1, 0)
    for isolation in (2, -1):
        assert offset_at(raw, topic, LATEST, isolation=isolation) == (error_codes.UNKNOWN_SERVER_ERROR, -1, -1, -1)


@pytest.mark.parametrize("replica_id", [-1, -2, 0, 1, 5])
def test_anybody_may_ask_the_leader(raw: RawClient, topic: str, replica_id: int) -> None:
    append(raw, topic, 1000)
    assert offset_at(raw, topic, LATEST, replica_id=replica_id) == (0, -1, 1, 0)
    assert offset_at(raw, topic, 500, replica_id=replica_id) == (0, 1000, 0, 0)


@pytest.mark.parametrize("version", [4, 11])
def test_a_leader_epoch_that_is_not_the_current_one_is_fenced(raw: RawClient, topic: str, version: int) -> None:
    codes = {epoch: offset_at(raw, topic, LATEST, version, leader_epoch=epoch)[0] for epoch in (-1, 0, 1, 5, -2)}
    assert codes == {
        -1: error_codes.NONE,
        0: error_codes.NONE,
        1: error_codes.UNKNOWN_LEADER_EPOCH,
        5: error_codes.UNKNOWN_LEADER_EPOCH,
        -2: error_codes.FENCED_LEADER_EPOCH,
    }


@pytest.mark.parametrize("version", [1, 4, 11])
def test_offsets_of_what_is_not_there_are_an_error_of_their_partition(raw: RawClient, topic: str, version: int) -> None:
    unknown = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1, -1)
    for name in UNKNOWN:
        assert offset_at(raw, name, LATEST, version) == unknown
    assert offset_at(raw, topic, LATEST, version, partition=9) == unknown
    assert offset_at(raw, topic, LATEST, version, partition=-1) == unknown


@pytest.mark.parametrize("version", [1, 4, 11])
def test_a_partition_asked_for_twice_is_refused_once(raw: RawClient, new_topic: NewTopic, version: int) -> None:
    topic = new_topic(partitions=2)
    wanted = [ListOffsetsPartition(partition_index=index, timestamp=at) for index, at in ((0, -1), (0, -2), (1, -2))]
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
    (answer,) = raw.call(request, version).topics
    codes = sorted((partition.partition_index, partition.error_code) for partition in answer.partitions)
    assert codes == [(0, error_codes.INVALID_REQUEST), (1, error_codes.NONE)]


def test_topics_without_partitions_are_left_out(raw: RawClient, topic: str) -> None:
    nothing = [ListOffsetsTopic(name=topic, partitions=[])]
    assert raw.call(ListOffsetsRequest(replica_id=-1, topics=nothing), UpTo(11)).topics == []
    assert raw.call(ListOffsetsRequest(replica_id=-1, topics=[]), UpTo(11)).topics == []


def test_a_timeout_changes_nothing_where_nothing_is_remote(raw: RawClient, topic: str) -> None:
    for timeout_ms in (0, -5, 1000):
        assert offset_at(raw, topic, LATEST, 10, timeout_ms=timeout_ms) == (0, -1, 0, 0)


# OffsetForLeaderEpoch


def epoch_end(
    raw: RawClient,
    topic: str,
    epoch: int,
    *,
    partition: int = 0,
    current: int = -1,
    replica_id: int = -1,
    version: int = 4,
) -> tuple[int, int, int]:
    """(error, epoch, end offset)."""
    wanted = OffsetForLeaderPartition(partition=partition, leader_epoch=epoch, current_leader_epoch=current)
    topics = [OffsetForLeaderTopic(topic=topic, partitions=[wanted])]
    (answer,) = raw.call(OffsetForLeaderEpochRequest(replica_id=replica_id, topics=topics), version).topics
    (found,) = answer.partitions
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.mark.parametrize("version", [2, 3, 4])
def test_the_current_epoch_ends_where_the_log_does(raw: RawClient, topic: str, version: int) -> None:
    assert epoch_end(raw, topic, 0, version=version) == (0, 0, 0)
    append(raw, topic, *range(7))
    ends = {epoch: epoch_end(raw, topic, epoch, version=version) for epoch in (0, 1, 100, -1, -2)}
    undefined = (error_codes.NONE, -1, -1)
    assert ends == {0: (0, 0, 7), 1: undefined, 100: undefined, -1: undefined, -2: (0, -2, 0)}


@pytest.mark.parametrize("version", [2, 3, 4])
def test_epochs_of_what_is_not_there_or_not_current_are_errors(raw: RawClient, topic: str, version: int) -> None:
    for name in UNKNOWN:
        assert epoch_end(raw, name, 0, version=version) == (error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    for partition in (7, -1):
        answer = epoch_end(raw, topic, 0, partition=partition, version=version)
        assert answer == (error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1, -1)
    assert epoch_end(raw, topic, 0, current=0, version=version) == (0, 0, 0)
    assert epoch_end(raw, topic, 0, current=1, version=version) == (error_codes.UNKNOWN_LEADER_EPOCH, -1, -1)
    assert epoch_end(raw, topic, 0, current=-2, version=version) == (error_codes.FENCED_LEADER_EPOCH, -1, -1)


def test_leader_epochs_outlive_a_restart_and_fence_what_is_older(
    start_broker: StartBroker, unused_topic: Callable[[], str]
) -> None:
    broker = start_broker()
    topic = unused_topic()
    with connect(broker.bootstrap_servers) as raw:
        create(raw, topic, retention_ms="-1")
        append(raw, topic, 1000, 2000, 3000)
    broker.restart()
    with connect(broker.bootstrap_servers) as raw:
        wait_until_led(raw, topic)
        now = metadata_of(raw, topic).partitions[0].leader_epoch
        assert now > 0
        append(raw, topic, 4000, 5000)
        ends = {epoch: epoch_end(raw, topic, epoch) for epoch in (0, now - 1, now, now + 1)}
        assert ends == {0: (0, 0, 3), now - 1: (0, 0, 3), now: (0, now, 5), now + 1: (0, -1, -1)}
        found = {at: offset_at(raw, topic, at) for at in (EARLIEST, 3000, 3500, MAX_TIMESTAMP, LATEST)}
        assert found == {
            EARLIEST: (0, -1, 0, 0),
            3000: (0, 3000, 2, 0),
            3500: (0, 4000, 3, now),
            MAX_TIMESTAMP: (0, 5000, 4, now),
            LATEST: (0, -1, 5, now),
        }
        assert offset_at(raw, topic, LATEST, leader_epoch=now)[0] == error_codes.NONE
        assert offset_at(raw, topic, LATEST, leader_epoch=now - 1)[0] == error_codes.FENCED_LEADER_EPOCH
        assert offset_at(raw, topic, LATEST, leader_epoch=now + 1)[0] == error_codes.UNKNOWN_LEADER_EPOCH
        assert epoch_end(raw, topic, 0, current=now - 1) == (error_codes.FENCED_LEADER_EPOCH, -1, -1)


# DeleteRecords


def deletion(topic: str, *offsets: tuple[int, int]) -> DeleteRecordsRequest:
    wanted = [DeleteRecordsPartition(partition_index=index, offset=offset) for index, offset in offsets]
    return DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=topic, partitions=wanted)], timeout_ms=10_000)


def low_watermarks(response: DeleteRecordsResponse) -> dict[int, tuple[int, int]]:
    """(error, low watermark) of each partition."""
    (topic,) = response.topics
    return {
        partition.partition_index: (partition.error_code, partition.low_watermark) for partition in topic.partitions
    }


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_start_of_a_log_moves_forward_only(raw: RawClient, topic: str, version: int) -> None:
    for _ in range(3):
        append(raw, topic, 1000, 2000)
    out_of_range = (error_codes.OFFSET_OUT_OF_RANGE, -1)
    steps = [(3, (0, 3)), (1, (0, 3)), (0, (0, 3)), (7, out_of_range), (-2, out_of_range), (2**63 - 1, out_of_range)]
    for offset, expected in [*steps, (-1, (0, 6)), (-1, (0, 6)), (5, (0, 6))]:
        assert low_watermarks(raw.call(deletion(topic, (0, offset)), version)) == {0: expected}, offset
    assert offset_at(raw, topic, EARLIEST)[2] == 6
    answer = produce(raw, topic, batch_of(3000))
    assert (answer.base_offset, answer.log_start_offset) == (6, 6)


def test_deleted_records_are_not_read(raw: RawClient, topic: str) -> None:
    for first in (100, 200, 300):
        append(raw, topic, first, first + 5)
    raw.call(deletion(topic, (0, 3)), 2)
    found = {at: offset_at(raw, topic, at)[1:3] for at in (EARLIEST, EARLIEST_LOCAL, LATEST, 0, 100, 205, 206, 306)}
    assert found == {
        EARLIEST: (-1, 3),
        EARLIEST_LOCAL: (-1, 3),
        LATEST: (-1, 6),
        0: (205, 3),
        100: (205, 3),
        205: (205, 3),
        206: (300, 4),
        306: (-1, -1),
    }
    codes = {}
    for offset in (2, 3):
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        fetched = raw.call(
            FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])]), 12
        )
        codes[offset] = fetched.responses[0].partitions[0].error_code
        assert fetched.responses[0].partitions[0].log_start_offset in (3, -1)
    assert codes == {2: error_codes.OFFSET_OUT_OF_RANGE, 3: error_codes.NONE}


def test_records_of_what_is_not_there_cannot_be_deleted(raw: RawClient, topic: str) -> None:
    unknown = (error_codes.UNKNOWN_TOPIC_OR_PARTITION, -1)
    for name in ("no-such-topic", "a b"):
        assert low_watermarks(raw.call(deletion(name, (0, 0)), 2)) == {0: unknown}
    answers = low_watermarks(raw.call(deletion(topic, (0, -1), (5, 0), (-1, 0)), 2))
    assert answers == {0: (0, 0), 5: unknown, -1: unknown}


def test_the_last_offset_counts_for_a_partition_named_twice(raw: RawClient, topic: str) -> None:
    append(raw, topic, *range(6))
    assert low_watermarks(raw.call(deletion(topic, (0, 4), (0, 2)), 2)) == {0: (0, 2)}
    assert raw.call(deletion(topic), 2).topics == []


@pytest.mark.parametrize(
    ("policy", "code"),
    [("compact", error_codes.POLICY_VIOLATION), ("compact,delete", error_codes.NONE), ("delete", error_codes.NONE)],
)
def test_records_of_a_topic_that_only_compacts_stay(
    raw: RawClient, new_topic: NewTopic, policy: str, code: int
) -> None:
    topic = new_topic(cleanup_policy=policy)
    assert produce(raw, topic, batch_of(now_ms(), key=b"k")).error_code == error_codes.NONE
    assert low_watermarks(raw.call(deletion(topic, (0, -1)), 2))[0][0] == code
