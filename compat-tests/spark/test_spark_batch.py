"""Spark's built-in Kafka source and sink in batch queries: every way to choose topics and offsets, exact answers."""

import json
from collections.abc import Callable

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col

from conftest import NewTopic
from support.clients import Confluent, Record, Sending, contents
from support.spark_pipeline import Batch

pytestmark = pytest.mark.spark
NOON_MS = 1_600_000_000_000
FAILURES = (Py4JJavaError, PySparkException)
"""The errors of Spark's own source, and of sources in Python."""


def fill(confluent: Confluent, topic: str, counts: list[int], first: int = 0) -> None:
    """Partition p gets ``counts[p]`` records with values from ``first`` on, each a second after the one before."""
    records = [
        Record(f"{partition}:{number}".encode(), b"k", timestamp_ms=NOON_MS + 1_000 * number, partition=partition)
        for partition, count in enumerate(counts)
        for number in range(first, first + count)
    ]
    confluent.produce(topic, records, Sending(linger_ms=10, native={"batch.num.messages": 20}))


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


def span(*ranges: range) -> list[tuple[int, int]]:
    """All (partition, offset) of one range of offsets per partition."""
    return [(partition, offset) for partition, wanted in enumerate(ranges) for offset in wanted]


def test_rows_carry_everything_that_was_written(confluent: Confluent, topic: str, read: Batch) -> None:
    headers = (("a", b"1"), ("null", None), ("a", b""))
    confluent.produce(topic, [Record(b"v", b"k", headers, NOON_MS), Record(None, None, (), NOON_MS + 5)])
    first, second = read(topic, includeHeaders="true").orderBy("offset").collect()
    assert (bytes(first.key), bytes(first.value), first.topic, first.partition, first.offset) == (
        b"k",
        b"v",
        topic,
        0,
        0,
    )
    assert (int(first.timestamp.timestamp() * 1000), first.timestampType) == (NOON_MS, 0)
    assert [(h.key, None if h.value is None else bytes(h.value)) for h in first.headers] == list(headers)
    assert (second.key, second.value, second.headers) == (None, None, None)


def test_a_query_without_offsets_reads_from_the_beginning_to_the_end(
    confluent: Confluent, new_topic: NewTopic, read: Batch
) -> None:
    topic = new_topic(partitions=3)
    fill(confluent, topic, [50, 0, 7])
    assert offsets(read(topic)) == span(range(50), range(0), range(7))


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_records_are_read(confluent: Confluent, topic: str, read: Batch, codec: str) -> None:
    values = [f"value {number}".encode() for number in range(5_000)]
    confluent.produce(topic, [Record(value) for value in values], Sending(codec=codec, linger_ms=20))
    assert [bytes(row.value) for row in read(topic).orderBy("offset").select("value").collect()] == values


def test_offsets_are_chosen_per_partition(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic = new_topic(partitions=3)
    fill(confluent, topic, [30, 30, 30])
    chosen = read(
        topic,
        startingOffsets=json.dumps({topic: {"0": 10, "1": -2, "2": 30}}),
        endingOffsets=json.dumps({topic: {"0": 20, "1": 5, "2": -1}}),
    )
    assert offsets(chosen) == span(range(10, 20), range(5), range(0))


def test_offsets_are_chosen_by_time(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, [30, 20])
    per_partition = read(
        topic,
        startingOffsetsByTimestamp=json.dumps({topic: {"0": NOON_MS + 4_500, "1": NOON_MS}}),
        endingOffsetsByTimestamp=json.dumps({topic: {"0": NOON_MS + 10_000, "1": NOON_MS + 3_000}}),
    )
    assert offsets(per_partition) == span(range(5, 10), range(3))
    whole = read(topic, startingTimestamp=str(NOON_MS + 15_000), endingTimestamp=str(NOON_MS + 99_000))
    assert offsets(whole) == span(range(15, 30), range(15, 20))


def test_a_start_time_after_the_last_record_fails_unless_the_strategy_is_latest(
    confluent: Confluent, topic: str, read: Batch
) -> None:
    fill(confluent, topic, [5])
    late = {"startingTimestamp": str(NOON_MS + 99_000)}
    with pytest.raises(PySparkException, match="No offset matched from request"):
        read(topic, **late).count()
    assert read(topic, **late, startingOffsetsByTimestampStrategy="latest").count() == 0


def test_one_partition_is_read_by_many_tasks(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, [90, 10])
    frame = read(topic, minPartitions="7")
    assert frame.rdd.getNumPartitions() >= 7
    assert offsets(frame) == span(range(90), range(10))


def test_topics_are_subscribed_to_by_pattern(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    first, second, other = new_topic(), new_topic(), new_topic()
    for topic, count in ((first, 3), (second, 4), (other, 5)):
        fill(confluent, topic, [count])
    rows = read(subscribePattern=f"{first}|{second}").groupBy("topic").count().collect()
    assert {row.topic: row["count"] for row in rows} == {first: 3, second: 4}


def test_single_partitions_are_assigned(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic = new_topic(partitions=3)
    fill(confluent, topic, [3, 4, 5])
    assert offsets(read(assign=json.dumps({topic: [0, 2]}))) == [(0, n) for n in range(3)] + [(2, n) for n in range(5)]


def test_several_topics_are_read_together(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topics = [new_topic(), new_topic(partitions=2)]
    fill(confluent, topics[0], [3])
    fill(confluent, topics[1], [4, 5])
    assert read(",".join(topics)).count() == 12


def test_read_committed_sees_records_outside_of_transactions(confluent: Confluent, topic: str, read: Batch) -> None:
    fill(confluent, topic, [9])
    assert read(topic, **{"kafka.isolation.level": "read_committed"}).count() == 9


def test_an_unknown_topic_fails_and_is_not_created(
    unused_topic: Callable[[], str], read: Batch, admin: AdminClient
) -> None:
    name = unused_topic()
    with pytest.raises(FAILURES, match=r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PARTITION"):
        read(name).count()
    assert name not in admin.list_topics(timeout=30).topics


def test_offsets_that_are_gone_are_data_loss(confluent: Confluent, topic: str, read: Batch, admin: AdminClient) -> None:
    fill(confluent, topic, [20])
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 8)]).values()
    deleted.result(30)
    asked = {"startingOffsets": json.dumps({topic: {"0": 3}})}
    with pytest.raises(FAILURES, match=r"(?i)some data may have been lost"):
        read(topic, **asked, failOnDataLoss="true").collect()
    assert offsets(read(topic, **asked, failOnDataLoss="false")) == span(range(8, 20))
    assert offsets(read(topic)) == span(range(8, 20))


def test_many_records_add_up(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic, count = new_topic(partitions=4), 60_000
    records = [Record(b"%d" % number, partition=number % 4) for number in range(count)]
    confluent.produce(topic, records, Sending(codec="lz4", linger_ms=50))
    (row,) = (
        read(topic, minPartitions="8").selectExpr("count(*) n", "sum(cast(cast(value as string) as long)) s").collect()
    )
    assert (row.n, row.s) == (count, count * (count - 1) // 2)


@pytest.mark.usefixtures("kafka_sink")
def test_the_sink_writes_keys_values_headers_and_partitions(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    topic = new_topic(partitions=2)
    schema = "key binary, value binary, partition int, headers array<struct<key: string, value: binary>>"
    rows = [
        (b"k", b"v", 1, [("h", b"1"), ("null", None)]),
        (None, "wörter".encode(), 1, None),
        (b"null value", None, 0, None),
    ]
    frame = spark.createDataFrame(rows, schema).coalesce(1)
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers)
    sink.option("topic", topic).option("includeHeaders", "true").save()
    written = confluent.read(topic, {0: 0, 1: 0})
    assert [record.partition for record in written] == [0, 1, 1]
    expected = [
        Record(None, b"null value"),
        Record(b"v", b"k", (("h", b"1"), ("null", None))),
        Record("wörter".encode()),
    ]
    assert [record.content for record in written] == contents(expected)


@pytest.mark.usefixtures("kafka_sink")
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_the_sink_writes_many_rows_to_the_topics_they_name(
    spark: SparkSession, new_topic: NewTopic, bootstrap_servers: str, read: Batch, codec: str
) -> None:
    even, odd = new_topic(partitions=2), new_topic(partitions=2)
    frame = spark.range(20_000).selectExpr(
        f"if(id % 2 = 0, '{even}', '{odd}') topic", "cast(id as string) value", "cast(id % 10 as string) key"
    )
    sink = frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers)
    sink.option("kafka.compression.type", codec).save()
    for topic, rest in ((even, 0), (odd, 1)):
        numbers = read(topic).select(col("value").cast("string").cast("long").alias("n"))
        (row,) = numbers.selectExpr("count(*) n", "count(distinct n) d", "max(n % 2) rest").collect()
        assert (row.n, row.d, row.rest) == (10_000, 10_000, rest)
