"""The other options of Spark's Kafka source, as its integration guide lists them: each does what it says, exactly."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from conftest import NewTopic
from support import spark_formats
from support.clients import Confluent, Record
from support.spark_formats import one_batch_a_run
from support.spark_pipeline import NOON_MS, Batch, Pipeline, fill, has_read, sizes
from support.topics import wait_for_leaders
from support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
PATIENCE_S = 30
Flow = Callable[..., Pipeline]


def offsets(frame: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.partition, row.offset) for row in frame.select("partition", "offset").collect())


@contextmanager
def setting(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.unset(name)


def groups_of(admin: AdminClient) -> set[str]:
    return {group.group_id for group in admin.list_consumer_groups(request_timeout=PATIENCE_S).result().valid}


@pytest.mark.parametrize(("start", "end"), [("earliest", "latest"), ({"0": -2, "1": -2}, {"0": -1, "1": -1})])
def test_ends_of_a_topic_are_named_by_words_and_by_numbers(
    confluent: Confluent, new_topic: NewTopic, read: Batch, start: Any, end: Any
) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, range(20), 2)
    chosen = [limit if isinstance(limit, str) else json.dumps({topic: limit}) for limit in (start, end)]
    frame = read(topic, startingOffsets=chosen[0], endingOffsets=chosen[1])
    assert offsets(frame) == [(partition, offset) for partition in range(2) for offset in range(10)]


def test_a_fetch_limit_below_the_size_of_a_record_slows_and_does_not_stop(
    confluent: Confluent, topic: str, read: Batch
) -> None:
    values = [bytes([number]) * 3_000 for number in range(20)]
    for value in values:
        confluent.produce(topic, [Record(value)])
    limits = {"kafka.max.partition.fetch.bytes": "1", "kafka.fetch.max.bytes": "1", "kafka.max.poll.records": "1"}
    assert [bytes(row.value) for row in read(topic, **limits).orderBy("offset").collect()] == values


def test_log_append_time_is_shown_as_the_timestamp_type(confluent: Confluent, new_topic: NewTopic, read: Batch) -> None:
    topic = new_topic(message_timestamp_type="LogAppendTime")
    before_ms = time.time() * 1000
    fill(confluent, topic, range(3))
    rows = read(topic).collect()
    assert {row.timestampType for row in rows} == {1}
    assert all(row.timestamp.timestamp() * 1000 > before_ms - 60_000 for row in rows)


def test_read_committed_leaves_out_what_was_aborted(
    confluent: Confluent, topic: str, read: Batch, pipeline: Flow
) -> None:
    patient = {"transactional.id": topic, "transaction.timeout.ms": 600_000}
    producer = confluent_kafka.Producer({"bootstrap.servers": confluent.bootstrap_servers, **patient})
    producer.init_transactions(PATIENCE_S)
    for start, end in ((0, producer.commit_transaction), (10, producer.abort_transaction)):
        producer.begin_transaction()
        for number in range(start, start + 10):
            producer.produce(topic, str(number).encode(), partition=0)
        producer.flush(PATIENCE_S)
        end(PATIENCE_S)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(PATIENCE_S)
    committed = {"kafka.isolation.level": "read_committed"}
    assert {bytes(row.value) for row in read(topic, **committed).collect()} == {b"%d" % n for n in range(10)}
    assert read(topic).count() == 21
    flow = pipeline(subscribe=topic, **committed)
    flow.run_available()
    assert sorted(flow.values()) == sorted(map(str, range(10)))
    producer.commit_transaction(PATIENCE_S)
    flow.run_available()
    assert sorted(flow.values()) == sorted([*map(str, range(10)), "open"])


def test_a_stream_starts_at_the_offset_given_for_each_partition(
    confluent: Confluent, new_topic: NewTopic, pipeline: Flow
) -> None:
    topic = new_topic(partitions=3)
    fill(confluent, topic, range(30), 3)
    flow = pipeline(subscribe=topic, startingOffsets=json.dumps({topic: {"0": -2, "1": 4, "2": -1}}))
    flow.run_available()
    expected = [*range(0, 30, 3), *range(1 + 4 * 3, 30, 3)]
    assert sorted(map(int, flow.values())) == sorted(expected)
    fill(confluent, topic, range(30, 36), 3)
    flow.run_available()
    assert sorted(map(int, flow.values())) == sorted([*expected, *range(30, 36)])


@pytest.mark.parametrize("how", ["startingTimestamp", "startingOffsetsByTimestamp"])
def test_a_stream_starts_at_a_time(confluent: Confluent, new_topic: NewTopic, pipeline: Flow, how: str) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, range(40), 2)
    at_ms = NOON_MS + 25
    chosen = str(at_ms) if how == "startingTimestamp" else json.dumps({topic: {"0": at_ms, "1": at_ms}})
    flow = pipeline(subscribe=topic, **{how: chosen})
    flow.run_available()
    assert sorted(map(int, flow.values())) == list(range(25, 40))


def test_a_stream_that_starts_in_the_future_begins_with_what_comes(
    confluent: Confluent, topic: str, pipeline: Flow
) -> None:
    fill(confluent, topic, range(5))
    late = {"startingTimestamp": str(NOON_MS + 10_000), "startingOffsetsByTimestampStrategy": "latest"}
    flow = pipeline(subscribe=topic, **late)
    flow.run_available()
    fill(confluent, topic, range(5, 8))
    flow.run_available()
    assert sorted(map(int, flow.values())) == [5, 6, 7]


def parts_of(flow: Pipeline) -> list[tuple[int, set[int], int]]:
    """Each batch: its number, the topic's partitions in it, and the number of parts into which it was cut for tasks."""
    seen: list[tuple[int, set[int], int]] = []

    def take(frame: DataFrame, batch_id: int) -> None:
        seen.append((batch_id, {row.partition for row in frame.collect()}, frame.rdd.getNumPartitions()))

    sink = flow.source().writeStream.foreachBatch(take).trigger(availableNow=True)
    query = sink.option("checkpointLocation", str(flow.directory / "handed over")).start()
    assert query.awaitTermination(120)
    return seen


def test_a_stream_reads_assigned_partitions_in_parts_and_hands_batches_over(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, pipeline: Flow
) -> None:
    topic = new_topic(partitions=3)
    fill(confluent, topic, range(90), 3)
    seen = parts_of(pipeline(assign=json.dumps({topic: [0, 2]}), minPartitions="6", maxOffsetsPerTrigger="40"))
    batches = 1 if one_batch_a_run(spark) else 2
    assert [(batch_id, partitions) for batch_id, partitions, _ in seen] == [(0, {0, 2}), (1, {0, 2})][:batches]
    assert all(parts >= 6 for _, _, parts in seen)


def test_parts_of_a_stream_hold_no_more_records_than_asked_for(
    spark: SparkSession, confluent: Confluent, topic: str, pipeline: Flow
) -> None:
    if spark.version < "4":
        pytest.skip("maxRecordsPerPartition is there since Spark 4.0")
    fill(confluent, topic, range(100))
    assert parts_of(pipeline(subscribe=topic, maxRecordsPerPartition="30")) == [(0, {0}, 4)]


def test_a_stream_waits_until_there_are_enough_records(confluent: Confluent, topic: str, pipeline: Flow) -> None:
    fill(confluent, topic, range(10))
    flow = pipeline(subscribe=topic, minOffsetsPerTrigger="50", maxTriggerDelay="1h")
    with flow.running() as query:
        eventually(partial(has_read, query, 10), "the first batch, which is never waited for", within_s=60)
        for start in (10, 40):
            fill(confluent, topic, range(start, start + 30))
            time.sleep(0.5)
        eventually(partial(has_read, query, 70), "enough records", within_s=60)
        assert sizes(query) == [10, 60]


def test_once_reads_everything_in_one_batch(confluent: Confluent, topic: str, pipeline: Flow) -> None:
    fill(confluent, topic, range(30))
    query = pipeline(subscribe=topic).start(once=True)
    assert query.awaitTermination(120)
    assert sizes(query) == [30]


def test_partitions_added_to_a_topic_are_read_from_their_beginning(
    confluent: Confluent, new_topic: NewTopic, admin: AdminClient, pipeline: Flow
) -> None:
    topic = new_topic()
    fill(confluent, topic, range(10))
    flow = pipeline(subscribe=topic, startingOffsets="latest")
    with flow.running() as query:
        fill(confluent, topic, range(10, 20))
        eventually(lambda: query.exception() is not None or query.recentProgress, "the first look", within_s=60)
        admin.create_partitions([NewPartitions(topic, 3)])[topic].result(PATIENCE_S)
        wait_for_leaders(admin, topic, 3)
        confluent.produce(topic, [Record(b"%d" % n, partition=n % 3) for n in range(100, 130)])
        seen = partial(has_read, query, 30)
        eventually(seen, "the records of the new partitions", within_s=60)
    assert set(map(int, flow.values())) >= set(range(100, 130))


@pytest.mark.parametrize("fail", ["true", "false"])
def test_records_deleted_before_they_were_read_are_data_loss(
    confluent: Confluent, topic: str, admin: AdminClient, pipeline: Flow, fail: str
) -> None:
    expected = fill(confluent, topic, range(20))
    flow = pipeline(subscribe=topic, failOnDataLoss=fail)
    flow.run_available()
    expected += fill(confluent, topic, range(20, 60))[20:]
    (deleted,) = admin.delete_records([TopicPartition(topic, 0, 40)]).values()
    deleted.result(PATIENCE_S)
    if fail == "true":
        with pytest.raises(
            StreamingQueryException, match=r"(?i)data (may have been|was) (lost|missed)|OffsetOutOfRange"
        ):
            flow.run_available()
    else:
        flow.run_available()
        assert sorted(flow.values()) == sorted(expected)


def test_two_queries_read_a_topic_independently(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, pipeline: Flow
) -> None:
    topic = new_topic(partitions=2)
    expected = fill(confluent, topic, range(100), 2)
    first = pipeline(subscribe=topic, maxOffsetsPerTrigger="20")
    other = Pipeline(spark, first.bootstrap_servers, first.directory / "other", subscribe=topic)
    with first.running() as query, other.running() as other_query:
        eventually(partial(has_read, query, 100), "the slow query", within_s=60)
        eventually(partial(has_read, other_query, 100), "the fast query", within_s=60)
    assert sorted(first.values()) == sorted(other.values()) == sorted(expected)


def test_a_query_is_no_group_and_commits_nothing(
    confluent: Confluent, topic: str, admin: AdminClient, pipeline: Flow, read: Batch
) -> None:
    fill(confluent, topic, range(10))
    own = {"kafka.group.id": f"own-{topic}"}
    assert read(topic, **own).count() == 10
    flow = pipeline(subscribe=topic, groupIdPrefix=f"prefix-{topic}")
    with flow.running() as query:
        eventually(partial(has_read, query, 10), "the records", within_s=60)
        assert not [group for group in groups_of(admin) if topic in group]


@pytest.mark.parametrize("named", ["groupIdPrefix", "kafka.group.id"])
def test_with_the_old_way_to_find_offsets_the_driver_is_a_group(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, admin: AdminClient, pipeline: Flow, named: str
) -> None:
    topic = new_topic(partitions=2)
    fill(confluent, topic, range(10), 2)
    spark_formats.only_sparks("useDeprecatedOffsetFetching: its driver can be a Java consumer in a group")
    flow = pipeline(subscribe=topic, **{named: f"driver-{topic}"})
    with setting(spark, "spark.sql.streaming.kafka.useDeprecatedOffsetFetching", "true"), flow.running() as query:
        eventually(partial(has_read, query, 10), "the records", within_s=60)
        (group,) = (group for group in groups_of(admin) if topic in group)
        assert group == f"driver-{topic}" if named == "kafka.group.id" else group.startswith(f"driver-{topic}-")
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        (member,) = described.members
        assert sorted((at.topic, at.partition) for at in member.assignment.topic_partitions) == [(topic, 0), (topic, 1)]
        fill(confluent, topic, range(10, 30), 2)
        eventually(partial(has_read, query, 30), "the records that came later", within_s=60)
    assert sorted(map(int, flow.values())) == list(range(30))
