"""The lake tables: the flights as a Delta table, the sums as an Iceberg table, and what DuckDB says of the first."""

import json
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import duckdb
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from examples.pipeline import DAILY_TOPIC, FLIGHTS_TOPIC
from kpybroker.machines.lake.planning import CommitLimits
from kpybroker.pipeline.demo.dataset import DAY_MS, Daily, Sums
from kpybroker.pipeline.lake.generations import WriteMode
from kpybroker.pipeline.lake.target import Target, target_of
from kpybroker.spark.lake import Lake

COMMIT_MS = 4_000
"""How long a flight waits for a commit while the table follows."""
DAILY = """
    SELECT epoch_ms(date_trunc('day', _timestamp AT TIME ZONE 'UTC')) AS day, origin, count(*) AS flights,
        count(*) FILTER (WHERE dep_delay IS NULL) AS cancelled,
        coalesce(sum(dep_delay), 0)::BIGINT AS delay, sum(distance)::BIGINT AS distance
    FROM flights GROUP BY ALL
"""
FRESHNESS = "SELECT min(_timestamp), max(_timestamp), count(*) FROM flights"


class Tables(NamedTuple):
    """The places of both tables."""

    flights: Target
    daily: Target


def tables_in(directory: Path) -> Tables:
    """Tables below a directory; the Iceberg catalog is a file of SQLite."""
    catalog = {
        "type": "sql",
        "uri": f"sqlite:///{directory}/catalog.db",
        "warehouse": f"file://{directory}/iceberg",
    }
    return Tables(target_of(f"delta:{directory}/flights", {}), target_of("iceberg:lake.flights_by_day", catalog))


def flights_lake(spark: SparkSession, address: str, tables: Tables) -> Lake:
    """The flights, each record a row."""
    options = {"kafka.bootstrap.servers": address}
    return Lake(spark, options, FLIGHTS_TOPIC, tables.flights, WriteMode(values="json"), CommitLimits(age_ms=COMMIT_MS))


def daily_lake(spark: SparkSession, address: str, tables: Tables) -> Lake:
    """The sums, the last of each key."""
    options = {"kafka.bootstrap.servers": address, "kafka.isolation.level": "read_committed"}
    return Lake(spark, options, DAILY_TOPIC, tables.daily, WriteMode(mode="upsert", values="json"))


def daily_by_duckdb(tables: Tables) -> Daily:
    """The sums of the Delta table."""
    flights = DeltaTable(tables.flights.name).to_pyarrow_dataset()
    with duckdb.connect() as connection:
        connection.register("flights", flights)
        found = connection.sql(DAILY).fetchall()
    return {(_milliseconds(day), origin): Sums(*sums) for day, origin, *sums in found}


def _milliseconds(day: int | datetime) -> int:
    return day if isinstance(day, int) else int(day.timestamp() * 1000) // DAY_MS * DAY_MS


def daily_of_iceberg(tables: Tables) -> Daily:
    """The rows of the Iceberg table."""
    table = tables.daily.open()
    assert table is not None
    origin = table.origin()
    assert origin is not None
    found: Daily = {}
    for batch in table.rows(origin.topic_ids[-1]):
        for row in batch.to_pylist():
            key = json.loads(row["_key"])
            found[key["day"], key["origin"]] = Sums(*(row[name] for name in Sums._fields))
    return found


def dead_letters(target: Target) -> list[tuple[int, int, str]]:
    """Partition, offset and reason of each dead letter."""
    table = target.dead_letters().open()
    if table is None:
        return []
    origin = table.origin()
    assert origin is not None
    rows = [row for batch in table.rows(origin.topic_ids[-1]) for row in batch.to_pylist()]
    return sorted((row["_partition"], row["_offset"], row["_reason"]) for row in rows)
