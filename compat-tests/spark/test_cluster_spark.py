"""Spark on three nodes: a streaming query from one topic into another while leaders are killed and started again.

The query never fails, so it is not even started again, and its target holds every record once. It goes on from its
checkpoint, and a batch reads everything though one node is away.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka.admin import AdminClient
from pyspark.sql import SparkSession

from failover.faults import kill_leader, leader_of, wait_for_in_sync
from spark.test_spark_faults import SteadyWriter
from support import spark_formats
from support.clients import Confluent
from support.clusters import PROGRAMS, Cluster
from support.spark_pipeline import Batch, fill, progress_of
from support.topics import create_topic
from support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900), pytest.mark.usefixtures("kafka_sink")]

PARTITIONS: Final = 3
SETTINGS: Final = {"default.replication.factor": "3", "min.insync.replicas": "2"}
KILLS: Final = ("source", "target", "source", "target")


class Copying:
    """A query that copies one topic into another, with its checkpoint."""

    def __init__(self, spark: SparkSession, bootstrap_servers: str, directory: Path) -> None:
        self._spark = spark
        self._servers = bootstrap_servers
        self._directory = directory

    def start(self, **trigger: Any) -> Any:
        source = self._spark.readStream.format(spark_formats.chosen).option("kafka.bootstrap.servers", self._servers)
        rows = source.option("subscribe", "source").option("startingOffsets", "earliest").load()
        sink = rows.selectExpr("value", "'target' topic").writeStream.format("kafka")
        sink = sink.option("kafka.bootstrap.servers", self._servers)
        return sink.option("checkpointLocation", str(self._directory)).trigger(**trigger).start()

    @contextmanager
    def running(self) -> Iterator[Any]:
        query = self.start(processingTime="100 milliseconds")
        try:
            yield query
        finally:
            query.stop()


def has_come_to(query: Any, count: int) -> bool:
    """Whether the running query is that many records into the source; raises what it failed with."""
    if query.exception() is not None:
        raise query.exception()
    last = progress_of(query)[-1:]
    reached = [
        offset for each in last for offset in (each["sources"][0]["endOffset"] or {"source": {}})["source"].values()
    ]
    return sum(map(int, reached)) >= count


def kill_for_good(cluster: Cluster) -> None:
    """SIGKILL of a leader, and others lead what it led.

    A query that begins in between hangs for a minute, with either broker: Java's Admin sticks to a leader that it was
    told, though it is no longer in the metadata (KAFKA-20673).
    """
    gone = leader_of(cluster, "target")
    cluster.nodes[gone].kill()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})

    def others_lead() -> bool:
        topics = admin.list_topics(timeout=30).topics
        led = [each.leader for name in ("source", "target") for each in topics[name].partitions.values()]
        return not {gone, -1} & set(led)

    eventually(others_lead, "other leaders", 60)


def test_a_query_from_topic_to_topic_is_exact_though_leaders_are_killed(
    target: str, spark: SparkSession, tmp_path: Path, pytestconfig: pytest.Config
) -> None:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")
    rng = random.Random(pytestconfig.getoption("--seed"))
    with Cluster(PROGRAMS[target], tmp_path / "cluster", properties=SETTINGS) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
        for topic in ("source", "target"):
            create_topic(admin, topic, PARTITIONS)
        copying = Copying(spark, cluster.bootstrap_servers, tmp_path / "checkpoint")
        writer = SteadyWriter(cluster.bootstrap_servers, "source", PARTITIONS)
        with copying.running() as query:
            with writer.writing():
                eventually(partial(has_come_to, query, 100), "the first records", 90)
                for topic in KILLS:
                    kill_leader(cluster, topic, rng)
                    eventually(partial(has_come_to, query, writer.count), f"records after the kill for {topic}", 180)
                    for each in ("source", "target"):
                        wait_for_in_sync(cluster, each, len(cluster.nodes))
            eventually(partial(has_come_to, query, writer.count), "the last records", 120)
        more = range(writer.count, writer.count + 300)
        fill(Confluent(cluster.bootstrap_servers), "source", more, PARTITIONS)
        kill_for_good(cluster)
        assert copying.start(availableNow=True).awaitTermination(120)
        rows = Batch(spark, cluster.bootstrap_servers)("target").selectExpr("cast(value as string) v").collect()
        assert sorted(int(row.v) for row in rows) == list(range(more.stop))
