"""Spark's ways to process a stream without micro-batches: continuous processing, and real-time mode since Spark 4.1."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conftest import NewTopic
from support import spark_formats
from support.clients import Confluent
from support.spark_pipeline import Pipeline, fill
from support.waiting import eventually

pytestmark = [pytest.mark.spark, pytest.mark.slow]
CHECKPOINT_EVERY = "5 seconds"
Trigger = dict[str, str]


def copying(flow: Pipeline, target: str, trigger: Trigger) -> Any:
    """A running query that copies a topic into another one, record by record."""
    rows = flow.source().selectExpr("key", "value", "headers", f"'{target}' topic")
    sink = rows.writeStream.format("kafka").option("kafka.bootstrap.servers", flow.bootstrap_servers)
    sink = sink.option("includeHeaders", "true").option("checkpointLocation", str(flow.directory / "copying"))
    if "realTime" in trigger:
        sink = sink.outputMode("update")
    return sink.trigger(**trigger).start()


def has_copied(query: Any, confluent: Confluent, target: str, expected: set[str]) -> bool:
    """Whether the target has nothing but the expected, and all of it; raises what the query failed with."""
    if query.exception() is not None:
        raise query.exception()
    return {(record.value or b"").decode() for record in confluent.read(target)} == expected


def commits(flow: Pipeline) -> int:
    """How many times the query has written to its checkpoint how far it is."""
    return sum(path.name.isdigit() for path in (flow.directory / "copying" / "commits").glob("*"))


@pytest.mark.parametrize("mode", ["continuous", "realTime"])
def test_a_topic_is_copied_record_by_record_and_a_restart_goes_on_from_the_checkpoint(
    spark: SparkSession, confluent: Confluent, new_topic: NewTopic, pipeline: Callable[..., Pipeline], mode: str
) -> None:
    spark_formats.only_sparks("continuous processing and real-time mode: sources in Python have micro-batches")
    if mode == "realTime" and tuple(map(int, spark.version.split(".")[:2])) < (4, 1):
        pytest.skip("real-time mode is there since Spark 4.1")
    source, target = new_topic(), new_topic()
    flow = pipeline(subscribe=source, includeHeaders="true")
    expected: set[str] = set()
    for start in (0, 100):
        expected |= set(fill(confluent, source, range(start, start + 50)))
        before = commits(flow)
        query = copying(flow, target, {mode: CHECKPOINT_EVERY})
        try:
            for number in range(start + 50, start + 60):
                expected |= set(fill(confluent, source, range(number, number + 1)))
                seen = partial(has_copied, query, confluent, target, set(expected))
                eventually(seen, "the copy of what was written", within_s=90)
            seen = partial(has_committed, query, flow, before)
            eventually(seen, "a checkpoint", within_s=90)
        finally:
            query.stop()
    assert len(confluent.read(target)) < 120 + 60, "the second run copied again what the first had committed"


def has_committed(query: Any, flow: Pipeline, before: int) -> bool:
    if query.exception() is not None:
        raise query.exception()
    return commits(flow) > before
