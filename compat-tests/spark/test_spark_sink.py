"""The other options of Spark's Kafka sink, as its integration guide lists them, and the errors when it fails."""

from collections.abc import Callable
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession

from conftest import NewTopic
from support.clients import Confluent, Record, Sending
from support.spark_pipeline import Batch, Pipeline, run_all

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.usefixtures("kafka_sink")]


def write(frame: DataFrame, bootstrap_servers: str, **options: str) -> None:
    frame.write.format("kafka").option("kafka.bootstrap.servers", bootstrap_servers).options(**options).save()


def test_the_topic_of_the_option_wins_over_that_of_the_row(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str
) -> None:
    chosen, named = new_topic(), new_topic()
    write(spark.range(10).selectExpr("cast(id as string) value", f"'{named}' topic"), bootstrap_servers, topic=chosen)
    assert (len(confluent.read(chosen)), len(confluent.read(named))) == (10, 0)


def test_a_topic_that_is_not_there_is_created(
    spark: SparkSession, unused_topic: Callable[[], str], bootstrap_servers: str, read: Batch
) -> None:
    name = unused_topic()
    write(spark.range(10).selectExpr("cast(id as string) value"), bootstrap_servers, topic=name)
    assert read(name).count() == 10


@pytest.mark.parametrize(("codec", "acks"), [("gzip", "all"), ("snappy", "1"), ("lz4", "all"), ("none", "0")])
def test_rows_arrive_with_every_codec_and_acknowledgement(
    spark: SparkSession, new_topic: NewTopic, bootstrap_servers: str, read: Batch, codec: str, acks: str
) -> None:
    topic = new_topic(partitions=3)
    options = {"kafka.compression.type": codec, "kafka.acks": acks, "kafka.linger.ms": "5", "topic": topic}
    if acks != "all":
        options["kafka.enable.idempotence"] = "false"
    write(
        spark.range(3_000).selectExpr("cast(id as string) key", "repeat('v', 100) value"), bootstrap_servers, **options
    )
    assert read(topic).selectExpr("count(distinct key) n").collect()[0].n == 3_000


def test_a_partition_that_is_not_there_fails_the_query(
    spark: SparkSession, topic: str, bootstrap_servers: str, read: Batch
) -> None:
    rows = spark.range(1).selectExpr("cast(id as string) value", "7 partition")
    with pytest.raises(Py4JJavaError, match=r"(Topic|Partition 7 of topic) .*not present in metadata"):
        write(rows, bootstrap_servers, topic=topic, **{"kafka.max.block.ms": "3000"})
    assert read(topic).count() == 0


def test_a_row_larger_than_the_topic_allows_fails_the_query(
    spark: SparkSession, new_topic: NewTopic, bootstrap_servers: str, read: Batch
) -> None:
    topic = new_topic(max_message_bytes="1000")
    with pytest.raises(Py4JJavaError, match="RecordTooLargeException"):
        write(spark.range(1).selectExpr("repeat('v', 5000) value"), bootstrap_servers, topic=topic)
    assert read(topic).count() == 0


def test_a_stream_is_distributed_over_topics_with_keys_and_headers(
    confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline]
) -> None:
    source, targets = new_topic(partitions=2), [new_topic(), new_topic()]
    headers = (("a", b"1"), ("null", None), ("a", b""))
    records = [
        Record(str(number).encode(), b"key %d" % (number % 3), headers, partition=number % 2) for number in range(40)
    ]
    confluent.produce(source, records, Sending(linger_ms=10))
    flow = pipeline(subscribe=source, includeHeaders="true", maxOffsetsPerTrigger="15")
    column = f"if(partition = 0, '{targets[0]}', '{targets[1]}') topic"
    rows = flow.source().selectExpr("key", "value", "headers", column, "0 partition")
    sink = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", flow.bootstrap_servers)
    sink = sink.option("includeHeaders", "true").option("checkpointLocation", str(flow.directory / "sink"))
    assert sum(run_all(sink.trigger(availableNow=True).start)) == len(records)
    for partition, target in enumerate(targets):
        written = sorted(record.content for record in confluent.read(target))
        assert written == sorted((record.key, record.value, headers) for record in records[partition::2])


def test_batches_of_a_stream_are_written_by_the_batch_sink(
    confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline]
) -> None:
    source, target = new_topic(), new_topic()
    confluent.produce(source, [Record(b"%d" % number) for number in range(30)], Sending(linger_ms=10))
    flow = pipeline(subscribe=source, maxOffsetsPerTrigger="12")

    def forward(frame: DataFrame, batch_id: int) -> None:
        tagged = frame.selectExpr(f"concat('{batch_id}:', cast(value as string)) value")
        write(tagged, flow.bootstrap_servers, topic=target)

    sink: Any = flow.source().writeStream.foreachBatch(forward).trigger(availableNow=True)
    assert run_all(sink.option("checkpointLocation", str(flow.directory / "forward")).start) == [12, 12, 6]
    expected = {b"%d:%d" % (number // 12, number) for number in range(30)}
    assert {record.value for record in confluent.read(target)} == expected
