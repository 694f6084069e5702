"""Fetch on the wire: limits, long polls, sessions, fencing; the same answers as Apache Kafka's."""

import threading
import time

import pytest

from conftest import NewTopic
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient, connect

BY_NAME = 12
BY_ID = 18


def produce(raw: RawClient, topic: str, *values: bytes, partition: int = 0) -> int:
    """One batch; its base offset."""
    now_ms = time.time_ns() // 1_000_000
    batch = build_batch([Record(timestamp=now_ms, value=value) for value in values])
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    response = raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), 9)
    answer = response.responses[0].partition_responses[0]
    assert answer.error_code == error_codes.NONE
    return int(answer.base_offset)


def fetch(
    topic: str,
    offset: int = 0,
    *,
    partitions: dict[int, int] | None = None,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
    leader_epoch: int = -1,
    last_fetched_epoch: int = -1,
    isolation: int = 0,
) -> FetchRequest:
    wanted = [
        FetchPartition(
            partition=index,
            fetch_offset=position,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
            last_fetched_epoch=last_fetched_epoch,
        )
        for index, position in ({0: offset} if partitions is None else partitions).items()
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=max_bytes,
        isolation_level=isolation,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic=topic, partitions=wanted)] if wanted else [],
        forgotten_topics_data=[ForgottenTopic(topic=topic, partitions=list(forgotten))] if forgotten else [],
    )


def only(response: FetchResponse) -> PartitionData:
    assert response.error_code == error_codes.NONE
    (topic,) = response.responses
    (partition,) = topic.partitions
    return partition


def offsets_in(partition: PartitionData) -> list[int]:
    return [header.base_offset for _, header in batch_headers(partition.records)]


@pytest.mark.parametrize("version", range(4, 13))
def test_every_version_by_name_returns_what_was_produced(raw: RawClient, topic: str, version: int) -> None:
    produce(raw, topic, b"a", b"b")
    produce(raw, topic, b"c")
    answer = only(raw.call(fetch(topic), version))
    assert (answer.error_code, answer.high_watermark, answer.last_stable_offset) == (0, 3, 3)
    assert answer.aborted_transactions is None
    assert offsets_in(answer) == [0, 2]
    if version >= 5:
        assert answer.log_start_offset == 0


@pytest.mark.parametrize("version", range(13, 19))
def test_every_version_by_id_returns_what_was_produced(raw: RawClient, topic: str, version: int) -> None:
    produce(raw, topic, b"a")
    request = fetch(topic)
    request.topics[0].topic_id = topic_id(raw, topic)
    response = raw.call(request, version)
    assert offsets_in(only(response)) == [0]
    assert response.responses[0].topic_id == request.topics[0].topic_id


def topic_id(raw: RawClient, topic: str) -> bytes:
    metadata = raw.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False), 12)
    found: bytes = metadata.topics[0].topic_id
    return found


def test_an_unknown_topic_or_id_or_partition_is_an_error_of_its_partition(raw: RawClient, topic: str) -> None:
    assert only(raw.call(fetch("no-such-topic"), BY_NAME)).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    request = fetch("", partitions={5: 0})
    request.topics[0].topic_id = bytes(range(16))
    assert only(raw.call(request, BY_ID)).error_code == error_codes.UNKNOWN_TOPIC_ID
    missing = only(raw.call(fetch(topic, partitions={99: 0}), BY_NAME))
    assert missing.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert missing.aborted_transactions == []
    assert (missing.high_watermark, missing.last_stable_offset, missing.log_start_offset) == (-1, -1, -1)
    assert missing.records is not None
    assert len(missing.records) == 0


def test_an_offset_outside_the_log_is_out_of_range(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a", b"b")
    assert only(raw.call(fetch(topic, 3), BY_NAME)).error_code == error_codes.OFFSET_OUT_OF_RANGE
    assert only(raw.call(fetch(topic, -1), BY_NAME)).error_code == error_codes.OFFSET_OUT_OF_RANGE
    at_end = only(raw.call(fetch(topic, 2, max_wait_ms=0), BY_NAME))
    assert (at_end.error_code, len(at_end.records), at_end.high_watermark) == (0, 0, 2)


def test_the_first_batch_comes_whole_and_later_ones_may_be_cut(raw: RawClient, topic: str) -> None:
    produce(raw, topic, bytes(1000))
    produce(raw, topic, bytes(2000))
    tiny = only(raw.call(fetch(topic, partition_max_bytes=1), BY_NAME))
    assert offsets_in(tiny) == [0]
    cut = only(raw.call(fetch(topic, partition_max_bytes=1500), BY_NAME))
    assert offsets_in(cut) == [0]
    assert len(cut.records) == 1500
    small_response = only(raw.call(fetch(topic, max_bytes=1), BY_NAME))
    assert offsets_in(small_response) == [0]
    assert len(small_response.records) < 1200


def test_a_later_partition_that_does_not_fit_is_empty(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    for index in range(3):
        produce(raw, topic, bytes(1000), partition=index)
    response = raw.call(fetch(topic, partitions={0: 0, 1: 0, 2: 0}, max_bytes=1100), BY_NAME)
    partitions = response.responses[0].partitions
    assert [p.partition_index for p in partitions] == [0, 1, 2]
    assert [offsets_in(p) for p in partitions] == [[0], [], []]
    assert [p.high_watermark for p in partitions] == [1, 1, 1]


def test_data_begins_at_the_batch_that_holds_the_offset(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a", b"b", b"c")
    produce(raw, topic, b"d")
    assert offsets_in(only(raw.call(fetch(topic, 1), BY_NAME))) == [0, 3]
    assert offsets_in(only(raw.call(fetch(topic, 3), BY_NAME))) == [3]


def test_a_long_poll_ends_when_data_arrives(raw: RawClient, topic: str, bootstrap_servers: str) -> None:
    """Its time alone would end it after this client's patience."""
    raw.send(fetch(topic, max_wait_ms=3_600_000), BY_NAME)
    with connect(bootstrap_servers) as other:
        produce(other, topic, b"late")
    assert offsets_in(only(raw.receive(1, BY_NAME))) == [0]


def test_a_long_poll_waits_for_min_bytes_over_all_partitions(
    raw: RawClient, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    topic = new_topic(partitions=2)
    raw.send(fetch(topic, partitions={0: 0, 1: 0}, min_bytes=2500, max_wait_ms=20_000), BY_NAME)
    with connect(bootstrap_servers) as other:
        produce(other, topic, bytes(1000))
        produce(other, topic, bytes(1000), partition=1)
        produce(other, topic, bytes(1000))
    response = raw.receive(1, BY_NAME)
    assert [offsets_in(p) for p in response.responses[0].partitions] == [[0, 1], [0]]


def test_a_long_poll_returns_what_there_is_when_its_time_is_over(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"little")
    answer = only(raw.call(fetch(topic, min_bytes=1 << 19, max_wait_ms=50), BY_NAME))
    assert offsets_in(answer) == [0]
    nothing = only(raw.call(fetch(topic, 1, max_wait_ms=50), BY_NAME))
    assert (nothing.error_code, nothing.high_watermark, len(nothing.records)) == (0, 1, 0)


def test_leader_epochs_fence_old_and_new_readers(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a")
    listed = ListOffsetsPartition(partition_index=0, timestamp=-1)
    asked = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[listed])])
    epoch = raw.call(asked, 7).topics[0].partitions[0].leader_epoch
    assert only(raw.call(fetch(topic, leader_epoch=epoch), BY_NAME)).error_code == 0
    newer = only(raw.call(fetch(topic, leader_epoch=epoch + 1), BY_NAME))
    assert newer.error_code == error_codes.UNKNOWN_LEADER_EPOCH


def test_a_fetch_with_a_diverging_epoch_gets_the_epoch_and_offset_of_divergence(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a", b"b")
    fine = only(raw.call(fetch(topic, 1, last_fetched_epoch=0), BY_NAME))
    assert (fine.error_code, fine.diverging_epoch.epoch) == (0, -1)
    beyond = only(raw.call(fetch(topic, 2, last_fetched_epoch=7), BY_NAME))
    assert beyond.error_code == error_codes.OFFSET_OUT_OF_RANGE or beyond.diverging_epoch.epoch >= 0


def test_read_committed_lists_no_aborted_transactions_where_there_are_none(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a")
    answer = only(raw.call(fetch(topic, isolation=1), BY_NAME))
    assert answer.aborted_transactions == []
    assert offsets_in(answer) == [0]


# Sessions (KIP-227)


def open_session(raw: RawClient, topic: str, partitions: dict[int, int]) -> int:
    response = raw.call(fetch(topic, partitions=partitions, session=(0, 0), max_wait_ms=0), BY_NAME)
    assert response.error_code == error_codes.NONE
    assert response.session_id > 0
    return int(response.session_id)


def test_an_incremental_fetch_names_only_what_changed(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=4)
    session = open_session(raw, topic, dict.fromkeys(range(4), 0))
    idle = raw.call(fetch(topic, partitions={}, session=(session, 1), max_wait_ms=0), BY_NAME)
    assert (idle.error_code, idle.session_id, idle.responses) == (0, session, [])
    produce(raw, topic, b"a", partition=2)
    answer = only(raw.call(fetch(topic, partitions={}, session=(session, 2)), BY_NAME))
    assert answer.partition_index == 2
    assert offsets_in(answer) == [0]
    # Not moved on: the same data again. Moved on: nothing.
    assert only(raw.call(fetch(topic, partitions={}, session=(session, 3)), BY_NAME)).partition_index == 2
    moved = raw.call(fetch(topic, partitions={2: 1}, session=(session, 4), max_wait_ms=0), BY_NAME)
    assert moved.responses == []


def test_a_parked_incremental_fetch_wakes_for_its_partitions(
    raw: RawClient, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    topic = new_topic(partitions=2)
    session = open_session(raw, topic, {0: 0, 1: 0})
    raw.send(fetch(topic, partitions={}, session=(session, 1), max_wait_ms=20_000), BY_NAME)
    with connect(bootstrap_servers) as other:
        produce(other, topic, b"late", partition=1)
    answer = only(raw.receive(1, BY_NAME))
    assert (answer.partition_index, offsets_in(answer)) == (1, [0])


def test_a_forgotten_partition_is_answered_no_more(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    session = open_session(raw, topic, {0: 0, 1: 0})
    produce(raw, topic, b"a", partition=0)
    produce(raw, topic, b"a", partition=1)
    answer = only(raw.call(fetch(topic, partitions={}, session=(session, 1), forgotten=(0,)), BY_NAME))
    assert answer.partition_index == 1


def test_wrong_session_ids_and_epochs_are_refused_as_a_whole(raw: RawClient, topic: str) -> None:
    session = open_session(raw, topic, {0: 0})
    wrong_epoch = raw.call(fetch(topic, partitions={}, session=(session, 9)), BY_NAME)
    assert wrong_epoch.error_code == error_codes.INVALID_FETCH_SESSION_EPOCH
    assert wrong_epoch.responses == []
    unknown = raw.call(fetch(topic, partitions={}, session=(session + 1, 1)), BY_NAME)
    assert unknown.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_that_loses_its_last_partition_ends(raw: RawClient, topic: str) -> None:
    session = open_session(raw, topic, {0: 0})
    emptied = raw.call(fetch(topic, partitions={}, session=(session, 1), forgotten=(0,), max_wait_ms=0), BY_NAME)
    assert (emptied.error_code, emptied.session_id, emptied.responses) == (0, 0, [])
    gone = raw.call(fetch(topic, partitions={}, session=(session, 2)), BY_NAME)
    assert gone.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND


def test_closing_a_session_reads_on_without_one(raw: RawClient, topic: str) -> None:
    produce(raw, topic, b"a")
    session = open_session(raw, topic, {0: 0})
    closed = raw.call(fetch(topic, session=(session, -1)), BY_NAME)
    assert closed.session_id == 0
    assert offsets_in(only(closed)) == [0]
    gone = raw.call(fetch(topic, partitions={}, session=(session, 1)), BY_NAME)
    assert gone.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND


def test_many_readers_of_one_partition_all_wake(topic: str, bootstrap_servers: str) -> None:
    readers = [connect(bootstrap_servers) for _ in range(20)]
    got: list[list[int]] = []
    try:
        for reader in readers:
            reader.send(fetch(topic, max_wait_ms=20_000), BY_NAME)
        with connect(bootstrap_servers) as writer:
            produce(writer, topic, b"for all")
        threads = [
            threading.Thread(target=lambda r=reader: got.append(offsets_in(only(r.receive(1, BY_NAME)))))
            for reader in readers
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    finally:
        for reader in readers:
            reader.sock.close()
    assert got == [[0]] * 20
