"""The plan of the next commit: the offsets of each partition that it covers. Pure: time is an argument.

A commit is due when enough rows or bytes wait, or when the oldest have waited long enough. Its budget is shared between
partitions so that none waits for a larger one. While a backfill runs, the tail goes first, and the backfill always gets
a quarter.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.machines.lake.coverage import Coverage, Lane, Lanes, LaneStep

FIRST_GUESS_BYTES: Final = 1_000
"""The bytes that a record is taken for before any was read."""
BACKFILL_SHARE: Final = 4
"""The backfill gets one part in this number of a commit, at least."""


class CommitLimits(NamedTuple):
    """The size and the age of commits."""

    rows: int = 2_000_000
    bytes: int = 128 * 1024 * 1024
    """The bytes of keys and values in one commit, about; a file of the table is at most about as large."""
    age_ms: int = 3_000
    """How long records wait for others."""


def begin(
    coverage: Mapping[int, Lanes], starts: Mapping[int, int], ends: Mapping[int, int], *, backfill: bool
) -> Coverage:
    """The coverage with lanes for partitions that have none: from the start of the log, or with ``backfill`` one from
    there and one from the end."""
    added: Coverage = {}
    for partition, start in starts.items():
        if partition not in coverage:
            end = ends[partition]
            lanes = (Lane(start, start), Lane(end, end)) if backfill and end > start else (Lane(start, start),)
            added[partition] = lanes
    return {**coverage, **added}


def pending(coverage: Mapping[int, Lanes], ends: Mapping[int, int]) -> list[LaneStep]:
    """All offsets that are not covered yet, as one step for each lane; the tail's come first."""
    tails: list[LaneStep] = []
    older: list[LaneStep] = []
    for partition, lanes in sorted(coverage.items()):
        last = len(lanes) - 1
        for number, lane in enumerate(lanes):
            until = ends.get(partition, lane.end) if number == last else lanes[number + 1].start
            if until > lane.end:
                (tails if number == last else older).append(LaneStep(partition, number, lane.end, until))
    return tails + older


def budget_offsets(limits: CommitLimits, bytes_per_offset: float) -> int:
    """The number of offsets that fill a commit."""
    return max(1, min(limits.rows, int(limits.bytes / max(bytes_per_offset, 1.0))))


def is_due(waiting: Iterable[LaneStep], limits: CommitLimits, bytes_per_offset: float, waited_ms: int) -> bool:
    """Whether a commit is worth it now."""
    offsets = sum(step.offsets for step in waiting)
    return offsets > 0 and (waited_ms >= limits.age_ms or offsets >= budget_offsets(limits, bytes_per_offset))


def plan(
    coverage: Mapping[int, Lanes], ends: Mapping[int, int], limits: CommitLimits, bytes_per_offset: float
) -> list[LaneStep]:
    """The steps of the next commit, at least one if anything waits."""
    waiting = pending(coverage, ends)
    tails = [step for step in waiting if step.lane == len(coverage[step.partition]) - 1]
    older = [step for step in waiting if step.lane != len(coverage[step.partition]) - 1]
    budget = budget_offsets(limits, bytes_per_offset)
    reserved = max(1, budget // BACKFILL_SHARE) if older else 0
    first = shared(tails, max(budget - reserved, 1))
    left = max(budget - sum(step.offsets for step in first), reserved)
    return first + shared(older, left)


def shared(steps: Iterable[LaneStep], budget: int) -> list[LaneStep]:
    """The steps, cut so that together they have at most ``budget`` offsets: the small ones whole, the others alike."""
    cut = []
    left = budget
    ordered = sorted(steps, key=lambda step: step.offsets)
    for number, step in enumerate(ordered):
        offsets = min(step.offsets, -(-left // (len(ordered) - number)))
        if offsets > 0:
            cut.append(step._replace(end=step.start + offsets))
            left -= offsets
    return sorted(cut)


def tasks(steps: Iterable[LaneStep], most_offsets: int) -> list[LaneStep]:
    """The steps in pieces of at most ``most_offsets``, to be read in parallel."""
    return [
        step._replace(start=start, end=min(start + most_offsets, step.end))
        for step in steps
        for start in range(step.start, step.end, most_offsets)
    ]


def reached(steps: Iterable[LaneStep], ends: Mapping[LaneStep, int]) -> list[LaneStep]:
    """The steps as far as their pieces were read in a row; ``ends`` has how far each of `tasks` was read."""
    found = []
    for step in steps:
        end = step.start
        for piece, until in sorted(ends.items()):
            if (piece.partition, piece.lane, piece.start) == (step.partition, step.lane, end) and piece.end <= step.end:
                end = until
        if end > step.start:
            found.append(step._replace(end=end))
    return found


def lost(coverage: Mapping[int, Lanes], log_ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """The partitions whose logs end below what is covered: the end of the table's offsets, and that of the log."""
    ends = {partition: max(lane.end for lane in lanes) for partition, lanes in coverage.items() if lanes}
    return {
        partition: (end, log_ends[partition])
        for partition, end in sorted(ends.items())
        if log_ends.get(partition, end) < end
    }


def cut(coverage: Mapping[int, Lanes], log_ends: Mapping[int, int]) -> Coverage:
    """The coverage without offsets behind the ends of the logs."""
    return {
        partition: tuple(
            Lane(min(lane.start, end), min(lane.end, end))
            for lane in lanes
            for end in (log_ends.get(partition, lane.end),)
        )
        for partition, lanes in coverage.items()
    }
