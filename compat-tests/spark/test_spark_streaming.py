"""Spark's built-in Kafka source and sink in streaming queries: triggers, limits, checkpoints, topics that change."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.functions import col, window

from conftest import NewTopic
from support import spark_formats
from support.clients import Confluent
from support.spark_formats import one_batch_a_run
from support.spark_pipeline import Pipeline, fill, has_read, progress_of, sizes
from support.topics import create_topic, delete_topics
from support.waiting import eventually

pytestmark = pytest.mark.spark


def test_available_now_ends_with_everything_and_goes_on_from_there(
    confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline]
) -> None:
    topic = new_topic(partitions=3)
    expected = fill(confluent, topic, range(200), 3)
    flow = pipeline(subscribe=topic)
    flow.run_available()
    assert sorted(flow.values()) == sorted(expected)
    assert sizes(flow.run_available()) == []
    expected += fill(confluent, topic, range(200, 230), 3)
    assert sizes(flow.run_available()) == [30]
    assert sorted(flow.values()) == sorted(expected)


def test_batches_keep_to_max_offsets_per_trigger(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline]
) -> None:
    topic = new_topic(partitions=2)
    expected = fill(confluent, topic, range(250), 2)
    flow = pipeline(subscribe=topic, maxOffsetsPerTrigger="100")
    assert (flow.run_all() if one_batch_a_run(spark) else sizes(flow.run_available())) == [100, 100, 50]
    assert sorted(flow.values()) == sorted(expected)


def test_a_running_query_follows_the_topic(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline]
) -> None:
    topic = new_topic(partitions=2)
    flow = pipeline(subscribe=topic)
    expected: list[str] = []
    with flow.running() as query:
        for start in range(0, 90, 30):
            expected += fill(confluent, topic, range(start, start + 30), 2)
            eventually(partial(has_read, query, len(expected)), "the records to be processed", within_s=60)
        source = progress_of(query)[-1]["sources"][0]
        assert source["endOffset"][topic] == {"0": 45, "1": 45}
        if spark_formats.is_ours():  # sources in Python have no metrics; since Spark 4.2 they report the latest offset
            assert one_batch_a_run(spark) or source["latestOffset"] == source["endOffset"]
        else:
            assert float(source["metrics"]["maxOffsetsBehindLatest"]) == 0
    assert sorted(flow.values()) == sorted(expected)


def test_a_query_that_starts_at_the_latest_offsets_sees_only_what_comes(
    confluent: Confluent, topic: str, pipeline: Callable[..., Pipeline]
) -> None:
    fill(confluent, topic, range(10))
    flow = pipeline(subscribe=topic, startingOffsets="latest")
    with flow.running() as query:
        eventually(lambda: progress_of(query), "the first look at the topic", within_s=60)
        expected = fill(confluent, topic, range(10, 15))
        eventually(partial(has_read, query, 5), "the new records", within_s=60)
    assert sorted(flow.values()) == sorted(expected)


def test_new_topics_and_new_partitions_are_found_while_the_query_runs(
    confluent: Confluent,
    new_topic: NewTopic,
    unused_topic: Callable[[], str],
    admin: AdminClient,
    pipeline: Callable[..., Pipeline],
) -> None:
    old, new = new_topic(), unused_topic()
    expected = fill(confluent, old, range(5))
    flow = pipeline(subscribePattern=f"{old}|{new}")
    with flow.running() as query:
        eventually(partial(has_read, query, 5), "the records of the old topic", within_s=60)
        create_topic(admin, new, 2)
        expected += fill(confluent, new, range(100, 110), 2)
        eventually(partial(has_read, query, 15), "the records of the new topic", within_s=60)
    assert sorted(flow.values()) == sorted(expected)


def test_windows_close_by_event_time(
    spark: SparkSession, confluent: Confluent, topic: str, pipeline: Callable[..., Pipeline], tmp_path: Path
) -> None:
    fill(confluent, topic, range(0, 30_000, 100))
    source = pipeline(subscribe=topic, maxOffsetsPerTrigger="150").source().withWatermark("timestamp", "1 second")
    counts = source.groupBy(window(col("timestamp"), "10 seconds")).count()
    sink = counts.writeStream.format("memory").queryName("windows").outputMode("append")
    sink = sink.option("checkpointLocation", str(tmp_path / "windows"))
    if one_batch_a_run(spark):
        query = sink.start()
        query.processAllAvailable()
        query.stop()
    else:
        assert sink.trigger(availableNow=True).start().awaitTermination(120)
    rows = spark.table("windows").orderBy("window").collect()
    assert [row["count"] for row in rows] == [100, 100]


@pytest.mark.usefixtures("kafka_sink")
@pytest.mark.parametrize("idempotent", ["true", "false"])
def test_the_sink_copies_a_topic_exactly_while_nothing_fails(
    spark: SparkSession,
    confluent: Confluent,
    new_topic: NewTopic,
    pipeline: Callable[..., Pipeline],
    tmp_path: Path,
    idempotent: str,
) -> None:
    source, target = new_topic(partitions=2), new_topic(partitions=2)
    flow = pipeline(subscribe=source, maxOffsetsPerTrigger="40", includeHeaders="true")
    expected: list[str] = []
    for start in (0, 100):
        expected += fill(confluent, source, range(start, start + 100), 2)
        rows = flow.source().selectExpr("key", "value", "headers", f"'{target}' topic")
        sink = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", flow.bootstrap_servers)
        sink = sink.option("includeHeaders", "true").option("kafka.enable.idempotence", idempotent)
        sink = sink.option("checkpointLocation", str(tmp_path / "sink"))
        for _ in range(3 if one_batch_a_run(spark) else 1):
            assert sink.trigger(availableNow=True).start().awaitTermination(120)
    copied = [(record.value or b"").decode() for record in confluent.read(target, {0: 0, 1: 0})]
    assert sorted(copied) == sorted(expected)


def test_a_topic_deleted_under_a_running_query_fails_the_query(
    confluent: Confluent, new_topic: NewTopic, admin: AdminClient, pipeline: Callable[..., Pipeline]
) -> None:
    topic = new_topic()
    fill(confluent, topic, range(20))
    with pipeline(subscribe=topic).running() as query:
        eventually(partial(has_read, query, 20), "the records to be processed", within_s=60)
        delete_topics(admin, [topic])
        with pytest.raises(
            StreamingQueryException, match=r"UnknownTopicOrPartitionException|UNKNOWN_TOPIC_OR_PARTITION"
        ):
            query.awaitTermination(60)


def test_a_topic_of_a_pattern_deleted_under_a_running_query_is_data_loss(
    confluent: Confluent, new_topic: NewTopic, admin: AdminClient, pipeline: Callable[..., Pipeline]
) -> None:
    kept, deleted = new_topic(), new_topic()
    for topic in (kept, deleted):
        fill(confluent, topic, range(20))
    # Between listing the topics and asking for their ends, Java's Admin asks for a deleted one as long as it may.
    patience = {"kafka.request.timeout.ms": "5000", "kafka.default.api.timeout.ms": "5000"}
    with pipeline(subscribePattern=f"{kept}|{deleted}", **patience).running() as query:
        eventually(partial(has_read, query, 40), "the records to be processed", within_s=60)
        delete_topics(admin, [deleted])
        fill(confluent, kept, range(20, 25))
        with pytest.raises(
            StreamingQueryException, match=r"(?i)some data may have been lost|Unknown_?Topic_?Or_?Partition"
        ):
            query.awaitTermination(60)


def test_a_topic_created_again_between_two_runs_is_data_loss(
    confluent: Confluent, new_topic: NewTopic, admin: AdminClient, pipeline: Callable[..., Pipeline]
) -> None:
    topic = new_topic()
    old = fill(confluent, topic, range(20))
    pipeline(subscribe=topic).run_available()
    delete_topics(admin, [topic])
    create_topic(admin, topic)
    fill(confluent, topic, range(100, 105))
    with pytest.raises(StreamingQueryException, match="offset was changed from 20 to 5"):
        pipeline(subscribe=topic).run_available()
    indifferent = pipeline(subscribe=topic, failOnDataLoss="false")
    indifferent.run_available()
    new = fill(confluent, topic, range(105, 130))
    if spark_formats.is_ours():  # it knows by the topic's id that all records are new
        new += [str(number) for number in range(100, 105)]
    indifferent.run_available()
    assert sorted(indifferent.values()) == sorted(old + new)
