"""Records go in by one client and come out by the same or the other, byte for byte, under every setting.

Groups are not used here: partitions are assigned and offsets are sought.
"""

import time
from itertools import product
from typing import Any

import pytest
from kafka.partitioner.abc import Partitioner

from conftest import NewTopic
from support.clients import CLIENTS, Client, Record, Refused, Sending, contents
from support.waiting import becomes

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
MESSAGE_TOO_LARGE = 10
RECORD_LIST_TOO_LARGE = 18
INVALID_TIMESTAMP = 32
INVALID_RECORD = 87
YEAR_2020_MS = 1_577_836_800_000


class ByLength(Partitioner):  # type: ignore[misc]
    """The partitioner of a user who goes by the length of keys."""

    def partition(
        self, topic: str, _key: bytes, serialized_key: bytes, _value: object, _value_bytes: object, cluster: Any
    ) -> int:
        available = cluster.available_partitions_for_topic(topic)
        assert available == cluster.partitions_for_topic(topic)
        return len(serialized_key) % len(available)


VARIED = [
    Record(b"value", b"key"),
    Record(b"", b""),
    Record(b"no key"),
    Record(None, b"no value"),
    Record("смерть и жизнь 🦀 \u0000 ﷽".encode(), "ключ".encode()),
    Record(bytes(range(256)), bytes(reversed(range(256)))),
    Record(b"headers", b"h", (("a", b"1"), ("b", b""), ("a", b"2"), ("ü", "ü".encode()), ("", b"empty name"))),
    Record(b"x" * 40_000, b"big"),
    *(Record(f"value {n}".encode(), f"key {n % 7}".encode()) for n in range(300)),
]


@pytest.mark.parametrize(("codec", "acks"), [*product(CODECS, ("all",)), *product(("none", "zstd"), ("0", "1"))])
def test_records_survive_every_codec_and_acks(client: Client, topic: str, codec: str, acks: str) -> None:
    placed = client.produce(topic, VARIED, Sending(acks=acks, codec=codec, linger_ms=20))
    if acks == "0":
        _wait_for_end(client, topic, len(VARIED))
    else:
        assert [where.offset for where in placed] == list(range(len(VARIED)))
    read = client.read(topic)
    assert [record.content for record in read] == contents(VARIED)
    assert [record.offset for record in read] == list(range(len(VARIED)))


@pytest.mark.parametrize("codec", CODECS)
def test_each_client_reads_what_the_other_wrote(topic: str, bootstrap_servers: str, codec: str) -> None:
    one, other = (CLIENTS[name](bootstrap_servers) for name in sorted(CLIENTS))
    one.produce(topic, VARIED, Sending(codec=codec, linger_ms=20))
    other.produce(topic, VARIED, Sending(codec=codec, linger_ms=20))
    by_one, by_other = one.read(topic), other.read(topic)
    assert by_one == by_other
    assert [record.content for record in by_one] == contents(VARIED) * 2


def test_null_header_values_reach_both_clients(topic: str, bootstrap_servers: str) -> None:
    record = Record(b"v", None, (("null", None), ("bytes", b"\xff\x00"), ("null", None)))
    CLIENTS["confluent-kafka"](bootstrap_servers).produce(topic, [record])
    for name in sorted(CLIENTS):
        (read,) = CLIENTS[name](bootstrap_servers).read(topic)
        assert read.content == (None, b"v", record.headers), name


def test_a_record_may_have_neither_key_nor_value(topic: str, bootstrap_servers: str) -> None:
    CLIENTS["confluent-kafka"](bootstrap_servers).produce(topic, [Record()])
    for name in sorted(CLIENTS):
        (read,) = CLIENTS[name](bootstrap_servers).read(topic)
        assert read.content == (None, None, ()), name


@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_idempotent_producers_write_each_record_once_and_in_order(client: Client, topic: str, codec: str) -> None:
    records = [Record(str(number).encode()) for number in range(3_000)]
    placed = client.produce(topic, records, Sending(idempotent=True, codec=codec, linger_ms=1, batch_bytes=2_000))
    assert [where.offset for where in placed] == list(range(len(records)))
    assert [record.value for record in client.read(topic)] == [record.value for record in records]


def test_keys_choose_the_same_partition_with_both_clients(new_topic: NewTopic, bootstrap_servers: str) -> None:
    topic = new_topic(partitions=12)
    records = [Record(b"v", f"key-{number}".encode(), partition=None) for number in range(100)]
    murmur2 = {"confluent-kafka": Sending(native={"partitioner": "murmur2_random"}), "kafka-python": Sending()}
    chosen = [
        [where.partition for where in CLIENTS[name](bootstrap_servers).produce(topic, records, murmur2[name])]
        for name in sorted(CLIENTS)
    ]
    assert chosen[0] == chosen[1]
    assert len(set(chosen[0])) > 6


@pytest.mark.parametrize("partitioner", ["consistent", "murmur2", "fnv1a"])
def test_librdkafkas_partitioners_keep_a_key_in_one_partition(
    new_topic: NewTopic, bootstrap_servers: str, partitioner: str
) -> None:
    topic, confluent = new_topic(partitions=5), CLIENTS["confluent-kafka"](bootstrap_servers)
    records = [Record(b"v", f"key-{number % 20}".encode(), partition=None) for number in range(100)]
    chosen = confluent.produce(topic, records, Sending(native={"partitioner": partitioner}))
    assert len({(record.key, where.partition) for record, where in zip(records, chosen, strict=True)}) == 20
    assert len({where.partition for where in chosen}) > 2


def test_kafka_python_uses_a_partitioner_of_the_users_own(new_topic: NewTopic, bootstrap_servers: str) -> None:
    topic, sending = new_topic(partitions=4), Sending(native={"partitioner": ByLength()})
    records = [Record(b"v", b"k" * length, partition=None) for length in range(1, 9)]
    chosen = CLIENTS["kafka-python"](bootstrap_servers).produce(topic, records, sending)
    assert [where.partition for where in chosen] == [1, 2, 3, 0, 1, 2, 3, 0]


def test_records_without_a_key_are_spread_and_none_is_lost(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(partitions=3)
    records = [Record(str(number).encode(), partition=None) for number in range(500)]
    for start in range(0, len(records), 50):
        client.produce(topic, records[start : start + 50], Sending(linger_ms=0))
    read = client.read(topic, {0: 0, 1: 0, 2: 0})
    assert sorted(record.value or b"" for record in read) == sorted(record.value or b"" for record in records)


def test_a_record_above_the_clients_limit_is_refused_by_the_client(client: Client, topic: str) -> None:
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 20_000)], Sending(max_message_bytes=10_000, batch_bytes=5_000))
    assert refusal.value.code == MESSAGE_TOO_LARGE
    assert client.end_offsets(topic) == [0]


def test_a_batch_above_the_topics_limit_is_refused_by_the_broker(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="10000")
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 10_000)])
    assert refusal.value.code == MESSAGE_TOO_LARGE
    client.produce(topic, [Record(b"x" * 9_000)])
    assert client.end_offsets(topic) == [1]


def test_the_size_limit_counts_compressed_bytes(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(max_message_bytes="10000")
    client.produce(topic, [Record(b"x" * 500_000)], Sending(codec="gzip"))
    (read,) = client.read(topic)
    assert read.value == b"x" * 500_000


def test_a_record_of_the_brokers_default_limit_passes_and_one_above_does_not(client: Client, topic: str) -> None:
    generous = Sending(max_message_bytes=5_000_000)
    client.produce(topic, [Record(b"x" * 1_048_000)], generous)
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 1_048_600)], generous)
    assert refusal.value.code == MESSAGE_TOO_LARGE
    (read,) = client.read(topic)
    assert len(read.value or b"") == 1_048_000


def test_a_batch_larger_than_a_segment_is_refused(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(segment_bytes=str(1024 * 1024), max_message_bytes="3000000")
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"x" * 1_500_000)], Sending(max_message_bytes=5_000_000))
    assert refusal.value.code == RECORD_LIST_TOO_LARGE


@pytest.mark.parametrize("codec", ["none", "snappy"])
def test_large_batches_come_back_whole(client: Client, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(max_message_bytes="4000000")
    records = [Record(number.to_bytes(4, "big") * 5_000) for number in range(300)]
    sending = Sending(codec=codec, linger_ms=200, batch_bytes=3_000_000, max_message_bytes=4_000_000)
    client.produce(topic, records, sending)
    assert [record.value for record in client.read(topic)] == [record.value for record in records]


def test_many_partitions_are_written_and_read_together(client: Client, new_topic: NewTopic) -> None:
    partitions = 60
    topic = new_topic(partitions=partitions)
    records = [Record(str(number).encode(), partition=number % partitions) for number in range(partitions * 5)]
    client.produce(topic, records, Sending(linger_ms=5))
    assert client.end_offsets(topic, partitions) == [5] * partitions
    read = client.read(topic, dict.fromkeys(range(partitions), 0))
    assert [(record.partition, record.value) for record in read] == [
        (partition, str(partition + round_ * partitions).encode())
        for partition in range(partitions)
        for round_ in range(5)
    ]


def test_create_time_topics_keep_the_producers_timestamps(client: Client, topic: str) -> None:
    records = [Record(b"v", timestamp_ms=YEAR_2020_MS + offset) for offset in (5, 0, 10_000, 7)]
    client.produce(topic, records, Sending(linger_ms=20))
    read = client.read(topic)
    assert [record.timestamp_ms for record in read] == [record.timestamp_ms for record in records]
    assert {record.timestamp_type for record in read} == {0}


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_log_append_time_topics_replace_the_timestamps(client: Client, new_topic: NewTopic, codec: str) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = int(time.time() * 1000) - 1_000
    client.produce(topic, [Record(b"v", timestamp_ms=YEAR_2020_MS)] * 3, Sending(linger_ms=20, codec=codec))
    read = client.read(topic)
    assert {record.timestamp_type for record in read} == {1}
    assert all(before_ms <= record.timestamp_ms <= before_ms + 60_000 for record in read)


def test_timestamps_too_far_from_now_are_refused(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(message_timestamp_before_max_ms="3600000", message_timestamp_after_max_ms="3600000")
    now_ms = int(time.time() * 1000)
    for timestamp_ms in (now_ms - 7_200_000, now_ms + 7_200_000):
        with pytest.raises(Refused) as refusal:
            client.produce(topic, [Record(b"v", timestamp_ms=timestamp_ms)])
        assert refusal.value.code == INVALID_TIMESTAMP
    client.produce(topic, [Record(b"v", timestamp_ms=now_ms)])
    assert client.end_offsets(topic) == [1]


def test_a_compacted_topic_refuses_records_without_a_key(client: Client, new_topic: NewTopic) -> None:
    topic = new_topic(cleanup_policy="compact")
    with pytest.raises(Refused) as refusal:
        client.produce(topic, [Record(b"no key")])
    assert refusal.value.code == INVALID_RECORD
    client.produce(topic, [Record(b"v", b"k"), Record(None, b"k")], Sending(linger_ms=20))
    assert [record.content for record in client.read(topic)] == [(b"k", b"v", ()), (b"k", None, ())]


@pytest.mark.parametrize("wanted", ["gzip", "snappy", "lz4", "zstd", "uncompressed"])
def test_a_topics_own_compression_type_keeps_the_records_readable(
    client: Client, new_topic: NewTopic, wanted: str
) -> None:
    topic = new_topic(compression_type=wanted)
    client.produce(topic, VARIED, Sending(codec="none", linger_ms=20))
    client.produce(topic, VARIED, Sending(codec="lz4", linger_ms=20))
    assert [record.content for record in client.read(topic)] == contents(VARIED) * 2


def _wait_for_end(client: Client, topic: str, end: int) -> None:
    becomes(lambda: client.end_offsets(topic), [end])
