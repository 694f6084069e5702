"""What is measured: one class per kind of row. A row plays rounds on a side and knows nothing of the other side."""

from benchmarks.rows.consuming import ConsumeConfluent, DrainRaw
from benchmarks.rows.lifecycle import LoadedMemory, StartAndStop
from benchmarks.rows.producing import ProduceConfluent, ProduceJava
from benchmarks.rows.requesting import EndToEnd, ManyPartitions, RoundTrip, SmallRequests
from benchmarks.rows.row import Effort, RoundError, Row

__all__ = ["Effort", "RoundError", "Row", "all_rows"]


def all_rows(effort: Effort) -> list[Row]:
    """Every row, in the order it is played and printed."""
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
