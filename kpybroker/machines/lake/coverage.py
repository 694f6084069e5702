"""The offsets of a topic that a table covers. Pure.

A partition is covered by one lane, or by two while a backfill runs: the first lane comes from the start of the log, the
second one follows the tail. The first ends at the latest where the second starts.
"""

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class Lane(NamedTuple):
    """The offsets ``start .. end``, half-open, whose records the table holds. Only ``end`` moves, and only up."""

    start: int
    end: int


Lanes = tuple[Lane, ...]
Coverage = dict[int, Lanes]
"""The lanes of each partition."""


class Covered(NamedTuple):
    """The offsets of a topic id that a table covers, or will cover with a commit."""

    topic_id: str
    coverage: Coverage
    writer: int = 0
    """A number that each writer draws: a commit of another one is seen by it."""


class LaneStep(NamedTuple):
    """The offsets ``start .. end`` of a partition, half-open, by which the next commit moves a lane."""

    partition: int
    lane: int
    start: int
    end: int

    @property
    def offsets(self) -> int:
        return self.end - self.start


def advanced(coverage: Mapping[int, Lanes], steps: Iterable[LaneStep]) -> Coverage:
    """The coverage after a commit of these steps. ValueError for a step that does not begin where its lane ends."""
    moved = dict(coverage)
    for step in steps:
        lanes = list(moved[step.partition])
        lane = lanes[step.lane]
        if lane.end != step.start or step.end < step.start:
            raise ValueError(f"{step} does not continue {lane}")
        lanes[step.lane] = Lane(lane.start, step.end)
        moved[step.partition] = tuple(lanes)
    return moved


def ranges(lanes: Lanes) -> list[Lane]:
    """The covered offsets of a partition, in order; lanes that touch are one, and empty ones are left out."""
    found: list[Lane] = []
    for lane in sorted(lane for lane in lanes if lane.end > lane.start):
        if found and found[-1].end >= lane.start:
            found[-1] = Lane(found[-1].start, max(found[-1].end, lane.end))
        else:
            found.append(lane)
    return found


def is_within(inner: Mapping[int, Lanes], outer: Mapping[int, Lanes]) -> bool:
    """Whether every offset that ``inner`` covers is covered by ``outer``."""
    return all(
        any(whole.start <= lane.start and lane.end <= whole.end for whole in ranges(outer.get(partition, ())))
        for partition, lanes in inner.items()
        for lane in ranges(lanes)
    )


def to_json(covered: Covered) -> str:
    """``{"topic_id": "...", "writer": 7, "partitions": {"0": [[0, 17]]}}``, for the table's commit."""
    topic_id, coverage, writer = covered
    partitions = {str(partition): [list(lane) for lane in lanes] for partition, lanes in sorted(coverage.items())}
    return json.dumps({"topic_id": topic_id, "writer": writer, "partitions": partitions}, separators=(",", ":"))


def of_json(text: str) -> Covered:
    """The inverse of `to_json`. ValueError for another text."""
    try:
        found = json.loads(text)
        coverage = {
            int(partition): tuple(Lane(int(start), int(end)) for start, end in lanes)
            for partition, lanes in found["partitions"].items()
        }
        return Covered(str(found["topic_id"]), coverage, int(found["writer"]))
    except (KeyError, TypeError, AttributeError, ValueError):
        raise ValueError(f"not offsets of kpybroker: {text[:80]!r}") from None
