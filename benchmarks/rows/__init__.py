"""What is measured: one class per kind of row. A row plays rounds on a side and knows nothing of the other side."""

from collections.abc import Callable, Mapping
from typing import Final

from benchmarks.rows.consuming import ConsumeConfluent, DrainRaw
from benchmarks.rows.lifecycle import LoadedMemory, StartAndStop
from benchmarks.rows.producing import ProduceConfluent, ProduceJava
from benchmarks.rows.requesting import EndToEnd, ManyPartitions, RoundTrip, SmallRequests
from benchmarks.rows.row import Effort, RoundError, Row
from benchmarks.rows.scaling import scale_rows

__all__ = ["SUITES", "Effort", "RoundError", "Row", "RowsOf"]

RowsOf = Callable[[Effort], list[Row]]


def speed_rows(effort: Effort) -> list[Row]:
    """What one broker does with few partitions, in the order it is played and printed."""
    return [
        ProduceConfluent(effort, 100, 100),
        ProduceConfluent(effort, 50, 150),
        ProduceConfluent(effort, 1000, 1000),
        ProduceJava(effort, 100),
        ProduceJava(effort, 1000),
        ConsumeConfluent(effort, 100),
        ConsumeConfluent(effort, 1000),
        DrainRaw(effort),
        SmallRequests(effort),
        ManyPartitions(effort),
        RoundTrip(effort),
        EndToEnd(effort),
        StartAndStop(effort),
        LoadedMemory(effort),
    ]


SUITES: Final[Mapping[str, RowsOf]] = {"speed": speed_rows, "scale": scale_rows}
