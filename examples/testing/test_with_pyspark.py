"""PySpark: Spark's own Kafka source and sink, with nothing set for our sake. The broker has a process of its own, since
Spark's driver keeps this one busy."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from kpybroker.testing import Broker

pytestmark = pytest.mark.spark
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.0.0"


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    session = (
        SparkSession.builder.master("local[1]")
        .config("spark.jars.packages", CONNECTOR)
        .config("spark.sql.shuffle.partitions", 1)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(process=True) as broker:
        yield broker


def total_by_account(spark: SparkSession, servers: str, source: str, target: str, checkpoint: Path) -> None:
    """The program under test: sums up payments, restarts where it stopped."""
    payments = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("CAST(key AS STRING) AS account", "CAST(CAST(value AS STRING) AS INT) AS amount")
    )
    totals = (
        payments.groupBy("account").sum("amount").selectExpr("account AS key", "CAST(`sum(amount)` AS STRING) AS value")
    )
    query = (
        totals.writeStream.format("kafka")
        .outputMode("update")
        .option("kafka.bootstrap.servers", servers)
        .option("topic", target)
        .option("checkpointLocation", os.fspath(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(120)


def test_totals_go_on_after_a_restart(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("payments")
    broker.create_topic("totals")
    broker.produce("payments", ("ada", "3"), ("bob", "5"), ("ada", "4"))
    total_by_account(spark, broker.bootstrap_servers, "payments", "totals", tmp_path)
    broker.assert_records("totals", [("ada", "7"), ("bob", "5")], ordered=False)
    broker.produce("payments", ("ada", "10"))
    total_by_account(spark, broker.bootstrap_servers, "payments", "totals", tmp_path)
    assert broker.records("totals")[-1].text == "17"
