"""confluent-kafka's producer, as wide as its documentation."""

import json
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka import (
    TIMESTAMP_CREATE_TIME,
    TIMESTAMP_LOG_APPEND_TIME,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    SerializingProducer,
    TopicPartition,
)
from confluent_kafka.serialization import StringDeserializer, StringSerializer

from conftest import NewTopic

PATIENCE_S = 30.0


def producing(bootstrap_servers: str, **native: Any) -> Any:
    """A producer; the names of settings have ``_`` for ``.``."""
    return Producer(
        {"bootstrap.servers": bootstrap_servers, **{key.replace("_", "."): value for key, value in native.items()}}
    )


def read(bootstrap_servers: str, topic: str, count: int, partition: int = 0) -> list[Any]:
    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "unused", "check.crcs": True})
    consumer.assign([TopicPartition(topic, partition, 0)])
    found: list[Any] = []
    deadline = time.monotonic() + PATIENCE_S
    while len(found) < count and time.monotonic() < deadline:
        found += consumer.consume(count - len(found), 0.2)
    consumer.close()
    return found


def send_one(producer: Any, topic: str, value: bytes | None = b"x", **sent: Any) -> Any:
    """Produce one record and wait; the message of its delivery report, or the report's error."""
    reports: list[tuple[Any, Any]] = []
    producer.produce(topic, value, on_delivery=lambda error, message: reports.append((error, message)), **sent)
    assert producer.flush(PATIENCE_S) == 0
    ((error, message),) = reports
    return error or message


def test_delivery_reports_come_in_order_and_say_where(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers, linger_ms=5)
    reports: list[tuple[int, bytes, float]] = []
    for number in range(200):
        producer.produce(
            topic,
            b"%d" % number,
            partition=0,
            on_delivery=lambda _error, message: reports.append((message.offset(), message.value(), message.latency())),
        )
    assert producer.flush(PATIENCE_S) == 0
    assert [(offset, value) for offset, value, _ in reports] == [(number, b"%d" % number) for number in range(200)]
    assert all(0 <= latency < PATIENCE_S for *_, latency in reports)


def test_errors_of_one_record_reach_its_report_alone(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="1000")
    producer = producing(bootstrap_servers)
    refused = send_one(producer, topic, b"x" * 5_000)
    assert refused.code() == KafkaError.MSG_SIZE_TOO_LARGE
    assert send_one(producer, topic, b"small").offset() == 0


def test_a_record_above_the_clients_limit_is_refused_at_once(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers, message_max_bytes=2_000)
    with pytest.raises(KafkaException) as refusal:
        producer.produce(topic, b"x" * 3_000)
    assert refusal.value.args[0].code() == KafkaError.MSG_SIZE_TOO_LARGE


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_at_its_levels(bootstrap_servers: str, topic: str, codec: str) -> None:
    for level in (-1, 1, 9) if codec in ("gzip", "lz4", "zstd") else (-1,):
        producer = producing(bootstrap_servers, compression_type=codec, compression_level=level, linger_ms=10)
        for number in range(100):
            producer.produce(topic, b"%03d" % number * 50)
        assert producer.flush(PATIENCE_S) == 0
    found = read(bootstrap_servers, topic, 100)
    assert [message.value() for message in found] == [b"%03d" % number * 50 for number in range(100)]


def test_timestamps_are_the_users_the_clients_or_the_brokers(bootstrap_servers: str, new_topic: NewTopic) -> None:
    producer = producing(bootstrap_servers)
    created, appended = new_topic(), new_topic(message_timestamp_type="LogAppendTime")
    assert send_one(producer, created, timestamp=1_234_567).timestamp() == (TIMESTAMP_CREATE_TIME, 1_234_567)
    kind, clients_ms = send_one(producer, created).timestamp()
    assert kind == TIMESTAMP_CREATE_TIME
    assert abs(clients_ms - time.time() * 1000) < 60_000
    send_one(producer, appended, timestamp=1)
    (message,) = read(bootstrap_servers, appended, 1)
    assert message.timestamp()[0] == TIMESTAMP_LOG_APPEND_TIME
    assert abs(message.timestamp()[1] - time.time() * 1000) < 60_000


def test_headers_of_every_shape(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers)
    headers = [("a", b"\x00\xff"), ("a", None), ("b", b""), ("ü", "text"), ("long", b"y" * 10_000)]
    send_one(producer, topic, headers=headers)
    send_one(producer, topic, headers={"from": b"a dict"})
    send_one(producer, topic)
    listed, mapped, none = read(bootstrap_servers, topic, 3)
    assert listed.headers() == [("a", b"\x00\xff"), ("a", None), ("b", b""), ("ü", b"text"), ("long", b"y" * 10_000)]
    assert (mapped.headers(), none.headers()) == ([("from", b"a dict")], None)


def test_an_idempotent_producer_loses_and_repeats_nothing(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    producer = producing(bootstrap_servers, enable_idempotence=True, batch_num_messages=10, linger_ms=1)
    for number in range(3_000):
        producer.produce(topic, b"%d" % number, partition=number % 3)
        producer.poll(0)
    assert producer.flush(PATIENCE_S) == 0
    for partition in range(3):
        values = [int(message.value()) for message in read(bootstrap_servers, topic, 1_000, partition)]
        assert values == list(range(partition, 3_000, 3))


def test_batches_are_produced_in_one_call(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers)
    assert producer.produce_batch(topic, [{"value": b"%d" % number, "key": b"k"} for number in range(50)]) == 50
    assert producer.flush(PATIENCE_S) == 0
    assert [message.value() for message in read(bootstrap_servers, topic, 50)] == [b"%d" % n for n in range(50)]


def test_purging_forgets_what_waits(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers, linger_ms=60_000)
    errors: list[Any] = []
    for _ in range(5):
        producer.produce(topic, b"x", on_delivery=lambda error, _message: errors.append(error.code()))
    assert len(producer) == 5
    producer.purge()
    producer.flush(PATIENCE_S)
    assert errors == [KafkaError._PURGE_QUEUE] * 5


def test_a_full_queue_pushes_back(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers, queue_buffering_max_messages=10, linger_ms=60_000)
    for _ in range(10):
        producer.produce(topic, b"x")
    with pytest.raises(BufferError):
        producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0


@pytest.mark.parametrize("acks", ["0", "1", "all"])
def test_acknowledgements(bootstrap_servers: str, topic: str, acks: str) -> None:
    producer = producing(bootstrap_servers, acks=acks)
    for _ in range(20):
        producer.produce(topic, b"x")
    assert producer.flush(PATIENCE_S) == 0
    assert len(read(bootstrap_servers, topic, 20)) == 20


@pytest.mark.parametrize(
    "partitioner", ["random", "consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random"]
)
def test_partitioners_keep_a_key_together(bootstrap_servers: str, new_topic: NewTopic, partitioner: str) -> None:
    topic = new_topic(partitions=4)
    producer = producing(bootstrap_servers, partitioner=partitioner)
    found = {send_one(producer, topic, key=b"key").partition() for _ in range(5)}
    assert found <= set(range(4))
    assert partitioner == "random" or len(found) == 1


def test_serializers_of_both_sides_meet(bootstrap_servers: str, topic: str) -> None:
    producer = SerializingProducer(
        {
            "bootstrap.servers": bootstrap_servers,
            "key.serializer": StringSerializer(),
            "value.serializer": lambda value, _context: json.dumps(value).encode(),
        }
    )
    producer.produce(topic, key="schlüssel", value={"a": [1, 2]})
    assert producer.flush(PATIENCE_S) == 0
    (message,) = read(bootstrap_servers, topic, 1)
    assert StringDeserializer()(message.key(), None) == "schlüssel"
    assert json.loads(message.value()) == {"a": [1, 2]}


def test_statistics_name_the_broker_and_the_topic(bootstrap_servers: str, topic: str) -> None:
    seen: list[dict[str, Any]] = []
    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "statistics.interval.ms": 50,
            "stats_cb": lambda text: seen.append(json.loads(text)),
        }
    )
    send_one(producer, topic)
    deadline = time.monotonic() + PATIENCE_S
    while not (seen and "0" in seen[-1]["topics"].get(topic, {}).get("partitions", {})) and time.monotonic() < deadline:
        producer.poll(0.1)
    assert seen[-1]["topics"][topic]["partitions"]["0"]["txmsgs"] == 1
    assert any(broker["nodename"] == bootstrap_servers for broker in seen[-1]["brokers"].values())


def test_a_topic_is_created_by_its_first_record(bootstrap_servers: str, unused_topic: Callable[[], str]) -> None:
    topic = unused_topic()
    assert send_one(producing(bootstrap_servers), topic).offset() == 0
    assert [message.value() for message in read(bootstrap_servers, topic, 1)] == [b"x"]


def test_topics_that_cannot_be_are_reported(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers)
    assert send_one(producer, "not/legal").code() in (KafkaError.TOPIC_EXCEPTION, KafkaError._UNKNOWN_TOPIC)
    with_partition = send_one(producing(bootstrap_servers, message_timeout_ms=8_000), topic, partition=7)
    assert with_partition.code() in (KafkaError._UNKNOWN_PARTITION, KafkaError._MSG_TIMED_OUT)


def test_many_threads_share_a_producer(bootstrap_servers: str, topic: str) -> None:
    producer = producing(bootstrap_servers)

    def send(number: int) -> None:
        for _ in range(100):
            producer.produce(topic, b"%d" % number)
            producer.poll(0)

    threads = [threading.Thread(target=send, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert producer.flush(PATIENCE_S) == 0
    values = [int(message.value()) for message in read(bootstrap_servers, topic, 800)]
    assert sorted(values) == sorted(list(range(8)) * 100)


def test_metadata_and_cluster_id(bootstrap_servers: str, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=2)
    producer = producing(bootstrap_servers)
    described = producer.list_topics(topic, timeout=PATIENCE_S)
    assert sorted(described.topics[topic].partitions) == [0, 1]
    assert described.cluster_id == producer.cluster_id(timeout=PATIENCE_S)
    assert described.orig_broker_id in described.brokers or described.orig_broker_id == -1
