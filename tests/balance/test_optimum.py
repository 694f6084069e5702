"""On small clusters a plan is nearly as good as the best of all arrangements, which is found by trying all."""

import random
from itertools import combinations

import pytest
from random_clusters import MB, cluster, plain

from kpybroker.machines.balance.goals import BalanceGoals, MoveReason
from kpybroker.machines.balance.planner import plan

SEEDS = range(60)
WITHIN = 1.05
"""The worst node of a plan is at most 5 % fuller than in the best arrangement."""
BYTES_WITHIN = 1.2
"""All plans together copy at most 20 % more than the best ones that reach as much."""
TOLERANCE = 0.1
DISKS = BalanceGoals(TOLERANCE, idle_disk=0.0, only=frozenset((MoveReason.DISK,)))


class SmallCluster:
    """Up to five nodes with twelve replicas at most."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        self.nodes = rng.randint(2, 5)
        factor = rng.randint(1, min(3, self.nodes - 1))
        count = 12 // factor if factor > 1 else 9
        self.sizes = [rng.randint(1, 100) * MB for _ in range(count)]
        skewed = [*range(1, self.nodes + 1), *([1] * 3), *([2] * 2)]
        self.replicas = []
        for _ in range(count):
            chosen: list[int] = []
            while len(chosen) < factor:
                chosen = list(dict.fromkeys([*chosen, rng.choice(skewed)]))
            self.replicas.append(chosen)
        self.factor = factor
        self.ceiling = sum(self.sizes) * factor / self.nodes * (1 + TOLERANCE)

    def worst(self, replicas: list[tuple[int, ...]]) -> float:
        """The fullest node, as a part of what it may have; 1 if all are within."""
        loads = dict.fromkeys(range(1, self.nodes + 1), 0)
        for size, nodes in zip(self.sizes, replicas, strict=True):
            for each in nodes:
                loads[each] += size
        return max(1.0, max(loads.values()) / self.ceiling)

    def moved(self, replicas: list[tuple[int, ...]]) -> int:
        """The bytes that have to be copied."""
        return sum(
            size * len(set(after) - set(before))
            for size, before, after in zip(self.sizes, self.replicas, replicas, strict=True)
        )

    def best(self, at_most: float | None = None) -> tuple[float, int]:
        """The worst node of the best arrangement, and the fewest bytes to copy for it; or for one in which no node is
        fuller than ``at_most``."""
        order = sorted(range(len(self.sizes)), key=lambda each: -self.sizes[each])
        choices = list(combinations(range(1, self.nodes + 1), self.factor))
        best = (float("inf"), 0)

        def go(depth: int, loads: list[int], moved: int) -> None:
            nonlocal best
            fullest = max(1.0, max(loads) / self.ceiling)
            if at_most is not None:
                if fullest > at_most:
                    return
                fullest = at_most
            if (fullest, moved) >= best:
                return
            if depth == len(order):
                best = (fullest, moved)
                return
            partition = order[depth]
            size, before = self.sizes[partition], set(self.replicas[partition])
            for chosen in sorted(choices, key=lambda each: len(set(each) - before)):
                after = list(loads)
                for each in chosen:
                    after[each - 1] += size
                go(depth + 1, after, moved + size * len(set(chosen) - before))

        go(0, [0] * self.nodes, 0)
        return best


def planned(small: SmallCluster) -> list[tuple[int, ...]]:
    """The replicas after the plan for a cluster."""
    model = cluster(plain(small.nodes), small.replicas, small.sizes)
    found = plan(model, DISKS)
    after = [tuple(each) for each in small.replicas]
    for move in found.moves:
        after[move.partition] = move.after
    return after


@pytest.mark.parametrize("seed", SEEDS)
def test_no_arrangement_has_a_much_emptier_fullest_node(seed: int) -> None:
    small = SmallCluster(seed)
    assert small.worst(planned(small)) <= WITHIN * small.best()[0]


def test_plans_copy_little_more_than_the_best_ones() -> None:
    copied = fewest = 0
    for seed in SEEDS:
        small = SmallCluster(seed)
        after = planned(small)
        copied += small.moved(after)
        fewest += small.best(small.worst(after))[1]
    assert fewest <= copied <= BYTES_WITHIN * fewest
