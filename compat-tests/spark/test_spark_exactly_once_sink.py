"""The exactly-once sink ``format("kpybroker")`` under Spark. ``tests/spark`` asks its writers without a JVM."""

import shutil
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from conftest import NewTopic
from support import spark_formats
from support.clients import Confluent, Record

pytestmark = [pytest.mark.spark]


@pytest.fixture(autouse=True)
def _has_data_sources(spark: SparkSession) -> None:
    if spark_formats.version(spark) < (4, 0):
        pytest.skip("data sources in Python begin with Spark 4.0")


def run_available(spark: SparkSession, servers: str, source: str, target: str, checkpoint: Path) -> None:
    """Copy what is there, from the place where the checkpoint ends."""
    rows = spark.readStream.format("kpybroker").option("kafka.bootstrap.servers", servers)
    rows = rows.option("subscribe", source).option("startingOffsets", "earliest").load().select("key", "value")
    sink = rows.writeStream.format("kpybroker").option("kafka.bootstrap.servers", servers).option("topic", target)
    query: Any = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)


def test_a_driver_that_died_before_spark_noted_its_micro_batch_does_not_write_it_twice(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, bootstrap_servers: str, tmp_path: Path
) -> None:
    source, target = new_topic(), new_topic()
    values = [b"%d" % number for number in range(50)]
    confluent.produce(source, [Record(value, value) for value in values])
    run_available(spark, bootstrap_servers, source, target, tmp_path / "checkpoint")
    (noted,) = (tmp_path / "checkpoint" / "commits").glob("[0-9]*")
    noted.unlink()
    noted.with_name(f".{noted.name}.crc").unlink(missing_ok=True)
    run_available(spark, bootstrap_servers, source, target, tmp_path / "checkpoint")
    assert [record.value for record in confluent.read(target)] == values
    shutil.rmtree(tmp_path / "checkpoint")
    run_available(spark, bootstrap_servers, source, target, tmp_path / "checkpoint")
    assert [record.value for record in confluent.read(target)] == values * 2


def test_a_frame_is_written_as_a_whole_and_with_a_version_once(
    spark: SparkSession, confluent: Confluent, topic: str, bootstrap_servers: str
) -> None:
    rows = spark.range(100).selectExpr("cast(id as string) value")
    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic, "kafka.compression.type": "lz4"}
    for _ in range(2):
        sink = rows.write.format("kpybroker").options(**options, txnAppId="job", txnVersion="1")
        sink.mode("append").save()
    assert sorted(int(record.value or b"") for record in confluent.read(topic)) == list(range(100))
    bad = rows.selectExpr("value", "if(value = '99', 7, 0) partition")
    with pytest.raises(PySparkException, match=f"Partition 7 of topic {topic} is not present in metadata"):
        bad.write.format("kpybroker").options(**options).mode("append").save()
    assert len(confluent.read(topic)) == 100


def test_tasks_that_could_be_tried_again_do_not_write_under_one_transaction(
    spark: SparkSession, confluent: Confluent, topic: str, bootstrap_servers: str
) -> None:
    from kpybroker.spark import by_partition

    options = {"kafka.bootstrap.servers": bootstrap_servers, "topic": topic}
    rows = by_partition(spark.range(10).selectExpr("cast(id as string) value"), options)
    with pytest.raises(PySparkException, match=r"set spark\.stage\.maxConsecutiveAttempts=1"):
        rows.write.format("kpybroker").options(**options).mode("append").save()
    assert confluent.read(topic) == []
