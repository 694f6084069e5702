"""The verdict: what producers were promised against what is there. Pure.

A record is (producer, number); each producer numbers what it sends to one partition from 0 on, without a gap.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

Place = tuple[str, int]
"""A producer, and the partition that it wrote to."""


class Verdict(NamedTuple):
    """How many records were acknowledged, and what is wrong with them."""

    acknowledged: int
    lost: list[tuple[Place, int]]
    """Acknowledged, and not there."""
    doubled: list[tuple[Place, int]]
    """There more than once."""
    reordered: list[tuple[Place, int]]
    """There behind a record of its producer that was sent later."""

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.reordered)


def judge(acknowledged: Mapping[Place, Iterable[int]], found: Mapping[Place, Sequence[int]]) -> Verdict:
    """``found``: the numbers as they stand in the partition's log, in the order of their offsets."""
    lost, doubled, reordered, count = [], [], [], 0
    for place in sorted(acknowledged.keys() | found.keys()):
        seen: set[int] = set()
        highest = -1
        for number in found.get(place, ()):
            if number in seen:
                doubled.append((place, number))
            elif number < highest:
                reordered.append((place, number))
            seen.add(number)
            highest = max(highest, number)
        for number in acknowledged.get(place, ()):
            count += 1
            if number not in seen:
                lost.append((place, number))
    return Verdict(count, lost, doubled, reordered)


def longest_gap_s(times_s: Sequence[float]) -> float:
    """The longest time between two acknowledgements that followed one another."""
    ordered = sorted(times_s)
    return max((after - before for before, after in pairwise(ordered)), default=0.0)
