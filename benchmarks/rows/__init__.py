"""The measured rows: one class per kind of row. A row plays rounds on a side and knows nothing of the other side."""

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.rows.cold import TailBesideCold
from benchmarks.rows.compacting import TailBesideCompaction
from benchmarks.rows.consuming import consume_rows
from benchmarks.rows.grouping import group_rows
from benchmarks.rows.idle import IdleConnections
from benchmarks.rows.lake import lake_rows
from benchmarks.rows.lifecycle import LoadedMemory, StartAndStop
from benchmarks.rows.producing import produce_rows
from benchmarks.rows.requesting import request_rows
from benchmarks.rows.restarting import restart_rows
from benchmarks.rows.row import Effort, RoundError, Row
from benchmarks.rows.securing import security_rows
from benchmarks.rows.settling import Settle
from benchmarks.rows.sharing import share_rows
from benchmarks.rows.spark import SparkScanAndSink
from benchmarks.rows.spark_lake import SparkLake
from benchmarks.rows.spark_source import spark_source_rows
from benchmarks.rows.topics import topic_rows
from benchmarks.rows.transacting import CoordinatorLoad, transaction_rows
from benchmarks.rows.wide import wide_rows

__all__ = ["QUICK_ROWS", "SUITES", "Effort", "RoundError", "Row", "RowsOf"]

RowsOf = Callable[[Effort], list[Row]]


def speed_rows(effort: Effort) -> list[Row]:
    """The rows of one broker with few partitions, in the order it is played and printed."""
    return [
        *produce_rows(effort),
        *consume_rows(effort),
        *request_rows(effort),
        TailBesideCold(effort),
        TailBesideCompaction(effort),
        *group_rows(effort),
        Settle(effort),
        *share_rows(effort),
        *transaction_rows(effort),
        *security_rows(effort),
        SparkScanAndSink(effort),
        *lake_rows(effort),
        SparkLake(effort),
        *spark_source_rows(effort),
        StartAndStop(effort),
        LoadedMemory(effort),
    ]


def scale_rows(effort: Effort) -> list[Row]:
    """The rows of one broker with much of everything."""
    return [
        *wide_rows(effort),
        *restart_rows(effort),
        CoordinatorLoad(effort),
        IdleConnections(effort),
        *topic_rows(effort),
    ]


SUITES: Final[Mapping[str, RowsOf]] = {"speed": speed_rows, "scale": scale_rows}
"""In the order in which they are played: what leaves much behind comes last."""

QUICK_ROWS: Final = (
    *("produce-confluent-100", "produce-confluent-1000", "produce-confluent-1000-lz4", "produce-java-1000"),
    *("consume-confluent-100", "consume-confluent-1000", "drain"),
    *("small-requests-1", "small-requests-50", "small-requests-200", "many-partitions-50", "record-cost-unequal"),
    *("round-trip", "end-to-end", "rebalance-20", "commit-1", "lifecycle", "loaded-memory"),
    *("fetch-empty", "fetch-incremental"),
)
"""The rows for which five minutes are enough."""
