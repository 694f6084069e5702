"""The blocks for Spark of three documents run as they stand, but for addresses and paths."""

import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from conftest import NewTopic
from support import spark_formats
from support.clients import Confluent, Record
from support.played import DOCS

pytestmark = pytest.mark.spark
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(autouse=True)
def _has_sources_in_python(spark: SparkSession) -> None:
    if spark_formats.version(spark) < (4, 0):
        pytest.skip("Spark has data sources in Python since 4.0")


def block(page: str, words: str) -> str:
    """The only block of a page that has these words."""
    (found,) = (each for each in BLOCK.findall((DOCS / page).read_text()) if words in each)
    return str(found)


def run(code: str, servers: str, directory: Path, **given: Any) -> dict[str, Any]:
    """Run a block with these names; the names that it leaves."""
    for written, here in (
        ("127.0.0.1:9092", servers),
        ("broker:9092", servers),
        ("/checkpoints", f"{directory}/checkpoints"),
        ("/data/", f"{directory}/"),
    ):
        code = code.replace(written, here)
    exec(compile(code, "block", "exec"), given)
    return given


def filled(servers: str, topic: str, *values: bytes) -> None:
    Confluent(servers).produce(topic, [Record(value=value) for value in values])


def test_the_blocks_of_the_source_and_the_sinks_run(
    spark: SparkSession, bootstrap_servers: str, new_topic: NewTopic, tmp_path: Path
) -> None:
    topic, sums = new_topic(), new_topic(partitions=2)
    filled(bootstrap_servers, topic, b"one", b"two")
    reading = block("spark.md", "records = (\n    spark.readStream")
    records = run(reading.replace('"hello"', f'"{topic}"'), bootstrap_servers, tmp_path, spark=spark)["records"]
    totals = records.selectExpr("CAST(value AS STRING) AS key", "CAST(offset AS STRING) AS value")
    writing = block("spark.md", "checkpointLocation").replace(".start()", ".trigger(availableNow=True).start()")
    query = run(writing.replace('"totals")', f'"{sums}")'), bootstrap_servers, tmp_path, totals=totals)["query"]
    query.awaitTermination()
    assert sorted(each.value for each in Confluent(bootstrap_servers).read(sums, {0: 0, 1: 0})) == [b"0", b"1"]
    placing = block("spark.md", "by_partition").replace('"totals"', f'"{sums}"')
    run(placing, bootstrap_servers, tmp_path, totals=totals)


def test_the_filter_that_is_shown_is_understood(spark: SparkSession, bootstrap_servers: str, topic: str) -> None:
    filled(bootstrap_servers, topic, b'{"user": {"name": "Ada"}}', b'{"user": {"name": "grace"}}')
    shown = block("spark.md", '.option("filter"').strip()
    source = spark.read.format("kpybroker").option("kafka.bootstrap.servers", bootstrap_servers)
    frame = eval(f"source{shown}", {"source": source}).option("subscribe", topic).load()
    assert [bytes(row.value) for row in frame.collect()] == [b'{"user": {"name": "Ada"}}']


def test_the_block_of_the_lake_runs(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(bootstrap_servers, topic, b'{"a": 1}', b'{"a": 2}')
    left = run(
        block("lake.md", "Lake(spark").replace('"flights"', f'"{topic}"'), bootstrap_servers, tmp_path, spark=spark
    )
    assert left["holds"], left["lines"]
    assert "2 0" in capsys.readouterr().out


def test_the_block_of_the_audit_runs(
    spark: SparkSession, bootstrap_servers: str, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filled(bootstrap_servers, topic, b"one")
    run(block("audit.md", "audit(spark"), bootstrap_servers, tmp_path, spark=spark)
    assert "claim" in capsys.readouterr().out.lower()
