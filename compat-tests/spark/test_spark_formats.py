"""kpybroker's data source beside Spark's own: the same rows of the same topics, and what only ours has."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from confluent_kafka import Producer
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from conftest import NewTopic
from kpybroker.testing import Broker
from support import spark_formats, spark_versions
from support.clients import Confluent, Record, Sending
from support.spark_formats import KAFKA, KPYBROKER
from support.spark_pipeline import NOON_MS, Pipeline, fill, sizes

pytestmark = pytest.mark.spark
PATIENCE_S = 30
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(autouse=True)
def _ours(spark: SparkSession) -> Iterator[None]:
    """The suite's queries read with kpybroker's data source here."""
    if spark_formats.version(spark) < (4, 0):
        pytest.skip("Spark has data sources in Python since 4.0")
    before, spark_formats.chosen = spark_formats.chosen, KPYBROKER
    yield
    spark_formats.chosen = before


def frame_of(spark: SparkSession, form: str, servers: str, topic: str, **options: str) -> DataFrame:
    source = spark.read.format(form).option("kafka.bootstrap.servers", servers).option("subscribe", topic)
    return source.options(**options).load()


def plain(row: Any) -> tuple[Any, ...]:
    """A row in a form that can be compared: PySpark gives bytes as two types."""
    headers = None if row.headers is None else [(each.key, each.value and bytes(each.value)) for each in row.headers]
    data = [None if each is None else bytes(each) for each in (row.key, row.value)]
    return (row.topic, row.partition, row.offset, row.timestamp, row.timestampType, *data, headers)


def rows_of(spark: SparkSession, form: str, servers: str, topic: str, **options: str) -> list[tuple[Any, ...]]:
    frame = frame_of(spark, form, servers, topic, includeHeaders="true", **options)
    return sorted(map(plain, frame.collect()), key=lambda row: row[:3])


def assert_same_rows(spark: SparkSession, servers: str, topic: str, **options: str) -> int:
    """Both sources give the same rows; how many there are."""
    if not spark_versions.connector(spark.version):
        pytest.skip(f"Spark {spark.version} has no Kafka connector to compare with")
    expected = rows_of(spark, KAFKA, servers, topic, **options)
    assert rows_of(spark, KPYBROKER, servers, topic, **options) == expected
    return len(expected)


def write_transactions(servers: str, topic: str) -> None:
    """Committed and aborted transactions of two producers that overlap, and an open one."""
    producers = []
    for name in ("a", "b"):
        settings = {"transactional.id": f"{topic}-{name}", "transaction.timeout.ms": 600_000, "linger.ms": 5}
        producers.append(Producer({"bootstrap.servers": servers, "log_level": 0, **settings}))
        producers[-1].init_transactions(PATIENCE_S)
    for turn in range(4):
        for producer in producers:
            producer.begin_transaction()
        for number in range(30):
            producers[number % 2].produce(topic, f"{turn}.{number}", partition=0)
        for at, producer in enumerate(producers):
            producer.flush(PATIENCE_S)
            (producer.abort_transaction if (turn + at) % 2 else producer.commit_transaction)(PATIENCE_S)
    producers[0].begin_transaction()
    producers[0].produce(topic, "open", partition=0)
    producers[0].flush(PATIENCE_S)


def test_every_row_is_that_of_sparks_own_source(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    topic, stamped = new_topic(partitions=3), new_topic(message_timestamp_type="LogAppendTime")
    for turn, codec in enumerate(CODECS):
        records = [
            Record(
                None if number % 7 == 0 else b"%d" % number * (number % 40),
                None if number % 5 == 0 else b"k%d" % (number % 3),
                (("h", b"1"), ("h", None), ("ä", b"")) if number % 3 else (),
                NOON_MS + turn * 1000 - number,
                partition=number % 3,
            )
            for number in range(300)
        ]
        sending = Sending(codec=codec, linger_ms=10, native={"batch.num.messages": 70})
        confluent.produce(topic, records, sending)
        confluent.produce(stamped, [replace(record, partition=0) for record in records[:50]], sending)
    write_transactions(bootstrap_servers, topic)
    for isolation in ("read_committed", "read_uncommitted"):
        found = assert_same_rows(spark, bootstrap_servers, topic, **{"kafka.isolation.level": isolation})
        assert found == {"read_committed": 1560, "read_uncommitted": 1621}[isolation]
    parts = {
        "startingOffsets": f'{{"{topic}":{{"0":33,"1":-2,"2":401}}}}',
        "endingOffsets": f'{{"{topic}":{{"0":580,"1":77,"2":-1}}}}',
        "minPartitions": "7",
    }
    assert assert_same_rows(spark, bootstrap_servers, topic, **parts, **{"kafka.isolation.level": "read_committed"})
    assert assert_same_rows(spark, bootstrap_servers, topic, startingTimestamp=str(NOON_MS + 1800)) > 300
    assert assert_same_rows(spark, bootstrap_servers, stamped) == 250


def test_gaps_of_compaction_and_deleted_records_are_read_as_by_sparks_own_source(spark: SparkSession) -> None:
    with Broker() as broker:
        broker.create_topic("users", config={"cleanup.policy": "compact"})
        for turn in range(6):
            broker.produce("users", *((f"user {number % (turn + 2)}", f"{turn}.{number}") for number in range(20)))
        broker.produce("users", ("user 1", None))
        broker.compact_topic("users")
        everything = assert_same_rows(spark, broker.bootstrap_servers, "users")
        assert everything < 20
        for start, end in ((3, 90), (101, 110), (118, 120)):
            bounds = {
                "startingOffsets": f'{{"users":{{"0":{start}}}}}',
                "endingOffsets": f'{{"users":{{"0":{end}}}}}',
            }
            assert assert_same_rows(spark, broker.bootstrap_servers, "users", **bounds) < everything


def test_columns_and_filters_are_chosen_by_option(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    topic = new_topic(partitions=2)
    values = [b'{"n": %d, "from": "%s"}' % (number, (b"JFK", b"LGA")[number % 2]) for number in range(100)]
    confluent.produce(topic, [Record(value, partition=number % 2) for number, value in enumerate(values)])
    chosen = {"columns": "offset,partition", "filter": "value.from = 'LGA' and value.n > 90 or value.n = 0"}
    frame = frame_of(spark, KPYBROKER, bootstrap_servers, topic, **chosen)
    assert frame.columns == ["offset", "partition"]
    assert sorted(map(tuple, frame.collect())) == [(0, 0), (45, 1), (46, 1), (47, 1), (48, 1), (49, 1)]
    one = frame_of(spark, KPYBROKER, bootstrap_servers, topic, filter="partition = 1 and offset >= 40")
    assert (one.count(), one.rdd.getNumPartitions()) == (10, 1)


def test_a_wrong_option_is_one_line_without_a_traceback(
    spark: SparkSession, topic: str, bootstrap_servers: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        frame_of(spark, KPYBROKER, bootstrap_servers, topic, filter="colour = 1")
    assert "filter: there is no column colour; there are key, value" in str(raised.value)
    assert "Traceback" not in str(raised.value)
    with pytest.raises(PySparkException, match=r"\[KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED\]"):
        frame_of(spark, KPYBROKER, bootstrap_servers, topic, startingOffsets=f'{{"{topic}":{{"7":0}}}}').count()


def test_a_stream_goes_on_where_sparks_own_source_was(
    spark: SparkSession, confluent: Confluent, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    if not spark_versions.connector(spark.version):
        pytest.skip(f"Spark {spark.version} has no Kafka connector whose checkpoint could be read")
    fill(confluent, topic, range(20))
    theirs = pipeline(subscribe=topic)
    spark_formats.chosen = KAFKA
    theirs.run_available()
    spark_formats.chosen = KPYBROKER
    fill(confluent, topic, range(20, 25))
    ours = Pipeline(spark, theirs.bootstrap_servers, theirs.directory / "ours", subscribe=topic)
    del ours.options["startingOffsets"]
    ours.options["startingOffsetsFromCheckpoint"] = str(theirs.directory / "checkpoint")
    assert sizes(ours.run_available()) == [5]
    assert sorted(map(int, ours.values())) == list(range(20, 25))


@contextmanager
def pushdown(spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        yield
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_spark_pushes_filters_where_a_query_allows_it(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    if spark_formats.version(spark) < (4, 1):
        pytest.skip("Spark pushes filters to sources in Python since 4.1")
    topic = new_topic(partitions=2)
    fill(confluent, topic, range(100), 2)
    with pushdown(spark):
        allowed = frame_of(spark, KPYBROKER, bootstrap_servers, topic, pushFilters="true", minPartitions="20")
        late = allowed.where("partition = 1 and offset >= 45 and timestamp > timestamp'2001-01-01'")
        assert sorted(row.offset for row in late.collect()) == [45, 46, 47, 48, 49]
        assert late.rdd.getNumPartitions() == 5
        frame = frame_of(spark, KPYBROKER, bootstrap_servers, topic)
        assert (frame.where("offset >= 45").count(), frame.count()) == (10, 100)
