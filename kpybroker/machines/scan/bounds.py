"""The offsets at which a scan begins and ends, as options name them: words, offsets or times. Pure.

`questions` says what has to be asked of the brokers, `resolved` makes offsets of the answers.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.scan.errors import BadOption, ScanError
from kpybroker.machines.scan.ranges import Spot, shown

EARLIEST: Final = "earliest"
LATEST: Final = "latest"
LATEST_OFFSET: Final = -1
EARLIEST_OFFSET: Final = -2


class LogRange(NamedTuple):
    """The offsets that a partition has: ``start`` to ``end``, half-open."""

    start: int
    end: int


class Bound(NamedTuple):
    """One end of a scan. Exactly one of ``word``, ``offsets``, ``times_ms`` and ``time_ms`` is set."""

    option: str
    """The option that set it, for the texts of errors."""
    word: str | None = None
    offsets: Mapping[Spot, int] | None = None
    """An offset for each partition, or `LATEST_OFFSET` or `EARLIEST_OFFSET`."""
    times_ms: Mapping[Spot, int] | None = None
    time_ms: int | None = None
    latest_if_none: bool = True
    """Whether the end of the log is meant where no record is as late as the time. Otherwise that is an error."""


def questions(bound: Bound, spots: Iterable[Spot]) -> dict[Spot, int]:
    """The time that ListOffsets has to find in each partition; none unless the bound is one of time. Raises
    ScanError."""
    wanted = list(spots)
    if bound.times_ms is not None:
        _check_partitions(bound, bound.times_ms, wanted)
        return {spot: bound.times_ms[spot] for spot in wanted}
    return dict.fromkeys(wanted, bound.time_ms) if bound.time_ms is not None else {}


def resolved(bound: Bound, logs: Mapping[Spot, LogRange], found: Mapping[Spot, int]) -> dict[Spot, int]:
    """The offset of the bound in each partition. ``found`` has the answers to `questions`; -1 where no record is that
    late. Records that came after the logs were asked for are left out. Raises ScanError."""
    if bound.word is not None:
        return {spot: log.start if bound.word == EARLIEST else log.end for spot, log in logs.items()}
    if bound.offsets is not None:
        _check_partitions(bound, bound.offsets, logs)
        return {spot: _within(bound.offsets[spot], log) for spot, log in logs.items()}
    return {
        spot: min(found[spot], log.end) if found[spot] >= 0 else _after_all(bound, spot, log)
        for spot, log in logs.items()
    }


def _within(offset: int, log: LogRange) -> int:
    return {LATEST_OFFSET: log.end, EARLIEST_OFFSET: log.start}.get(offset, offset)


def _after_all(bound: Bound, spot: Spot, log: LogRange) -> int:
    if bound.latest_if_none:
        return log.end
    time_ms = bound.time_ms if bound.times_ms is None else bound.times_ms[spot]
    raise ScanError(
        f"No offset matched from request of topic-partition {spot[0]}-{spot[1]} and timestamp {time_ms}. To begin at "
        "the end of such partitions, set startingOffsetsByTimestampStrategy to latest."
    )


def _check_partitions(bound: Bound, configured: Collection[Spot], assigned: Collection[Spot]) -> None:
    if set(configured) == set(assigned):
        return
    condition = "KAFKA_START_OFFSET_DOES_NOT_MATCH_ASSIGNED"
    if bound.times_ms is not None:
        condition = "KAFKA_TIMESTAMP_OFFSET_DOES_NOT_MATCH_ASSIGNED"
    raise BadOption(
        f"[{condition}] {bound.option} has to name every partition. Use -1 for latest, -2 for earliest. "
        f"Specified: {shown(sorted(configured))} Assigned: {shown(sorted(assigned))}"
    )
