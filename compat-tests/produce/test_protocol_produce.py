"""Produce on the wire: acknowledgements, validation, idempotence; the same answers as Apache Kafka's."""

import struct
import time

import pytest

from conftest import NewTopic, StartBroker
from kpywire import error_codes
from kpywire.crc import crc32c
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from kpywire.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from kpywire.record import Record, build_batch, read_records
from support.raw_client import RawClient, connect
from support.raw_requests import wait_until_led
from support.waiting import becomes, eventually

VERSION = 9
DAY_MS = 86_400_000


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def batch(*values: bytes, **fields: object) -> bytes:
    records = [Record(timestamp=now_ms(), key=b"k", value=value) for value in values or (b"v",)]
    return build_batch(records, **fields)  # type: ignore[arg-type]


def request(topic: str, *batches: bytes | None, acks: int = -1, partition: int = 0) -> ProduceRequest:
    data = [PartitionProduceData(index=partition, records=records) for records in batches]
    return ProduceRequest(acks=acks, timeout_ms=10_000, topic_data=[TopicProduceData(name=topic, partition_data=data)])


def produce(
    raw: RawClient, topic: str, records: bytes | None, *, version: int = VERSION, acks: int = -1, partition: int = 0
) -> PartitionProduceResponse:
    response = raw.call(request(topic, records, acks=acks, partition=partition), version)
    (answer,) = response.responses[0].partition_responses
    return answer


def with_crc(records: bytearray) -> bytes:
    struct.pack_into(">I", records, 17, crc32c(memoryview(records)[21:]))
    return bytes(records)


def changed(records: bytes, position: int, form: str, value: int) -> bytes:
    """A batch with one field of its header overwritten and a valid CRC."""
    copy = bytearray(records)
    struct.pack_into(form, copy, position, value)
    return with_crc(copy)


@pytest.mark.parametrize("version", range(3, 13))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_version_answers_with_the_offset(raw: RawClient, topic: str, version: int, acks: int) -> None:
    assert produce(raw, topic, batch(b"a", b"b"), version=version, acks=acks).base_offset == 0
    second = produce(raw, topic, batch(b"c"), version=version, acks=acks)
    assert (second.error_code, second.base_offset, second.log_append_time_ms) == (0, 2, -1)
    if version >= 5:
        assert second.log_start_offset == 0


def test_without_acknowledgement_there_is_no_answer(raw: RawClient, topic: str) -> None:
    raw.send(request(topic, batch(b"a"), acks=0), VERSION)
    assert produce(raw, topic, batch(b"b")).base_offset == 1


def test_without_acknowledgement_an_error_closes_the_connection(raw: RawClient) -> None:
    raw.send(request("no-such-topic-here", batch(b"a"), acks=0), VERSION)
    assert raw.is_closed()


@pytest.mark.parametrize("acks", [-2, 2, 7])
def test_other_acknowledgements_are_refused(raw: RawClient, topic: str, acks: int) -> None:
    answer = produce(raw, topic, batch(), acks=acks)
    assert (answer.error_code, answer.base_offset) == (error_codes.INVALID_REQUIRED_ACKS, -1)


def test_produce_reports_unknown_topics_and_partitions(raw: RawClient, topic: str) -> None:
    assert produce(raw, "no-such-topic-here", batch()).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
    assert produce(raw, topic, batch(), partition=8).error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION


def test_an_error_of_one_partition_does_not_affect_the_others(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    good = PartitionProduceData(index=0, records=batch(b"a"))
    bad = PartitionProduceData(index=1, records=changed(batch(b"a"), 57, ">i", 3))
    data = TopicProduceData(name=topic, partition_data=[bad, good])
    response = raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[data]), VERSION)
    codes = {p.index: p.error_code for p in response.responses[0].partition_responses}
    assert codes == {0: error_codes.NONE, 1: error_codes.INVALID_RECORD}


def test_the_last_batch_of_a_partition_named_twice_is_written(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    named = [[0, 1, 0], [], [0]]
    data = [
        TopicProduceData(
            name=topic,
            partition_data=[PartitionProduceData(index=index, records=batch(b"a", b"b")) for index in indexes],
        )
        for indexes in named
    ]
    response = raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), VERSION)
    (answered,) = response.responses
    answers = {answer.index: (answer.error_code, answer.base_offset) for answer in answered.partition_responses}
    assert answers == {0: (0, 0), 1: (0, 0)}
    assert len(answered.partition_responses) == 2
    assert produce(raw, topic, batch()).base_offset == 2
    nothing = TopicProduceData(name=topic, partition_data=[])
    assert raw.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=[nothing]), VERSION).responses == []


def bad_batches() -> dict[str, tuple[bytes, int]]:
    three = batch(b"a", b"b", b"c")
    flipped = bytearray(three)
    flipped[-1] ^= 0xFF
    return {
        "wrong CRC": (bytes(flipped), error_codes.CORRUPT_MESSAGE),
        "count above the records": (changed(three, 57, ">i", 5), error_codes.INVALID_RECORD),
        "count below the records": (changed(three, 57, ">i", 2), error_codes.INVALID_RECORD),
        "last offset delta": (changed(three, 23, ">i", 7), error_codes.INVALID_RECORD),
        "no records": (changed(three, 57, ">i", 0), error_codes.INVALID_RECORD),
        "control bit": (changed(three, 21, ">h", 0x20), error_codes.INVALID_RECORD),
        "two batches": (three + three, error_codes.INVALID_RECORD),
        "nothing": (b"", error_codes.INVALID_RECORD),
        "base offset": (
            build_batch([Record(timestamp=now_ms(), value=b"v")], base_offset=5),
            error_codes.INVALID_RECORD,
        ),
        "far in the future": (
            build_batch([Record(timestamp=now_ms() + 2 * DAY_MS, value=b"v")]),
            error_codes.INVALID_TIMESTAMP,
        ),
        "magic 1": (three[:16] + b"\x01" + three[17:], error_codes.INVALID_RECORD),
        "unknown codec": (changed(three, 21, ">h", 6), error_codes.UNKNOWN_SERVER_ERROR),
    }


@pytest.mark.parametrize("name", sorted(set(bad_batches()) - {"unknown codec"}))
def test_a_bad_batch_is_refused_as_kafka_refuses_it(raw: RawClient, topic: str, name: str) -> None:
    records, code = bad_batches()[name]
    answer = produce(raw, topic, records)
    assert (error_codes.name(answer.error_code), answer.base_offset) == (error_codes.name(code), -1)
    assert produce(raw, topic, batch(b"fine")).base_offset == 0


def test_a_high_max_timestamp_in_the_header_is_corrected(raw: RawClient, topic: str) -> None:
    assert produce(raw, topic, changed(batch(b"a"), 35, ">q", now_ms() + 9 * DAY_MS)).error_code == 0
    (record,) = read_all(raw, topic)
    assert abs(record.timestamp - now_ms()) < DAY_MS


def read_all(raw: RawClient, topic: str) -> list[Record]:
    return list(read_records(raw.call(fetch_request(topic), 12).responses[0].partitions[0].records))


def fetch_request(topic: str) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
    return FetchRequest(max_wait_ms=0, min_bytes=0, topics=[FetchTopic(topic=topic, partitions=[wanted])])


def test_log_append_time_is_the_brokers_clock(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before = now_ms()
    answer = produce(raw, topic, build_batch([Record(timestamp=5, value=b"old")]))
    assert before - 1000 <= answer.log_append_time_ms <= now_ms() + 1000
    assert [record.timestamp for record in read_all(raw, topic)] == [answer.log_append_time_ms]


def test_a_compacted_topic_refuses_records_without_a_key(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    records = [Record(timestamp=now_ms(), key=key, value=b"v") for key in (b"k", None, b"k", None)]
    answer = produce(raw, topic, build_batch(records))
    assert answer.error_code == error_codes.INVALID_RECORD
    assert [error.batch_index for error in answer.record_errors] == [1, 3]
    assert all(error.batch_index_error_message for error in answer.record_errors)
    assert answer.error_message
    assert produce(raw, topic, build_batch(records[:1])).base_offset == 0


def test_a_batch_above_the_limit_is_too_large(raw: RawClient, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    assert produce(raw, topic, batch(bytes(2000))).error_code == error_codes.MESSAGE_TOO_LARGE
    assert produce(raw, topic, batch(bytes(500))).base_offset == 0


@pytest.mark.parametrize("codec", [0, 1, 2, 3, 4])
def test_a_topic_with_a_compression_type_recompresses(raw: RawClient, new_topic: NewTopic, codec: int) -> None:
    topic = new_topic(compression_type="lz4")
    values = [str(number).encode() * 20 for number in range(50)]
    assert produce(raw, topic, batch(*values, codec=codec)).error_code == error_codes.NONE
    assert [record.value for record in read_all(raw, topic)] == values


def test_internal_topics_are_not_for_clients(raw: RawClient) -> None:
    answer = produce(raw, "__consumer_offsets", batch())
    assert answer.error_code in (error_codes.INVALID_TOPIC_EXCEPTION, error_codes.UNKNOWN_TOPIC_OR_PARTITION)


# Idempotence


@pytest.fixture
def producer_id(raw: RawClient) -> int:
    return new_producer_id(raw)


def new_producer_id(raw: RawClient) -> int:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)

    def given() -> InitProducerIdResponse | None:
        response: InitProducerIdResponse = raw.call(asked, 4)
        return response if response.error_code != error_codes.COORDINATOR_LOAD_IN_PROGRESS else None

    response = eventually(given, "a producer id")
    assert (response.error_code, response.producer_epoch) == (error_codes.NONE, 0)
    return response.producer_id


def sequenced(producer_id: int, sequence: int, *values: bytes, epoch: int = 0) -> bytes:
    return batch(*values, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence)


@pytest.mark.usefixtures("producer_id")
def test_producer_ids_are_never_handed_out_twice(raw: RawClient) -> None:
    asked = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    ids = [raw.call(asked, 4).producer_id for _ in range(50)]
    assert len(set(ids)) == 50


def test_a_repeated_batch_is_answered_with_its_first_offset(raw: RawClient, topic: str, producer_id: int) -> None:
    first = [sequenced(producer_id, number, b"v") for number in range(5)]
    assert [produce(raw, topic, records).base_offset for records in first] == [0, 1, 2, 3, 4]
    for number, records in enumerate(first):
        answer = produce(raw, topic, records)
        assert (answer.error_code, answer.base_offset) == (0, number)
        assert abs(answer.log_append_time_ms - now_ms()) < DAY_MS
    assert len(read_all(raw, topic)) == 5


def test_a_gap_in_the_sequence_is_refused(raw: RawClient, topic: str, producer_id: int) -> None:
    assert produce(raw, topic, sequenced(producer_id, 0, b"a", b"b")).base_offset == 0
    answer = produce(raw, topic, sequenced(producer_id, 3, b"d"))
    assert answer.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert (answer.error_message, answer.log_start_offset) == (None, 0)
    assert produce(raw, topic, sequenced(producer_id, 2, b"c")).base_offset == 2


def test_an_old_epoch_is_fenced_and_a_new_one_starts_at_zero(raw: RawClient, topic: str, producer_id: int) -> None:
    assert produce(raw, topic, sequenced(producer_id, 0, b"a", epoch=1)).error_code == error_codes.NONE
    assert (
        produce(raw, topic, sequenced(producer_id, 1, b"b", epoch=0)).error_code == error_codes.INVALID_PRODUCER_EPOCH
    )
    wrong = produce(raw, topic, sequenced(producer_id, 1, b"b", epoch=2))
    assert wrong.error_code == error_codes.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert produce(raw, topic, sequenced(producer_id, 0, b"b", epoch=2)).error_code == error_codes.NONE


def test_sequences_wrap_to_zero(raw: RawClient, topic: str, producer_id: int) -> None:
    last = 2**31 - 1
    assert produce(raw, topic, sequenced(producer_id, last, b"a")).base_offset == 0
    assert produce(raw, topic, sequenced(producer_id, 0, b"b")).base_offset == 1


def test_a_producer_id_without_a_sequence_is_refused(raw: RawClient, topic: str, producer_id: int) -> None:
    assert produce(raw, topic, sequenced(producer_id, -1, b"a")).error_code == error_codes.INVALID_RECORD


def test_duplicates_are_known_after_a_restart(start_broker: StartBroker) -> None:
    broker = start_broker()
    with connect(broker.bootstrap_servers) as raw:
        producer_id = new_producer_id(raw)
        first = [sequenced(producer_id, number, b"v") for number in range(7)]
        create(raw, "kept")
        assert [produce(raw, "kept", records).base_offset for records in first] == list(range(7))
    broker.kill()
    broker.start()
    with connect(broker.bootstrap_servers) as raw:
        wait_until_led(raw, "kept")
        # Kafka's recovery ends with a producer snapshot, which holds the last batch of each producer only.
        assert produce(raw, "kept", first[6]).base_offset == 6
    broker.restart()
    with connect(broker.bootstrap_servers) as raw:
        wait_until_led(raw, "kept")
        assert produce(raw, "kept", first[6]).base_offset == 6
        assert len(read_all(raw, "kept")) == 7


def create(raw: RawClient, topic: str) -> None:
    from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest

    wanted = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    response = raw.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000, validate_only=False), 7)
    assert response.topics[0].error_code == error_codes.NONE
    becomes(lambda: raw.call(fetch_request(topic), 12).responses[0].partitions[0].error_code, error_codes.NONE)
