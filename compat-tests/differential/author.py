"""Writes sequences from a seed: the same seed, the same sequence."""

from collections.abc import Callable, Mapping
from random import Random

from differential import group_steps, record_steps, topic_steps, transaction_steps
from differential.any_steps import any_request
from differential.steps import Step
from differential.world import World

Maker = Callable[[World], list[Step]]

THEMES: Mapping[str, Mapping[Maker, float]] = {
    "topics": topic_steps.MAKERS,
    "records": record_steps.MAKERS,
    "groups": group_steps.MAKERS,
    "transactions": {**transaction_steps.MAKERS, record_steps.fetch: 1, record_steps.list_offsets: 0.5},
    "anything": {any_request: 1},
}


def sequence(seed: int, length: int = 40) -> list[Step]:
    """At least ``length`` steps; most of them of one theme or two, so that they meet the same state."""
    world = World(Random(seed))
    steps: list[Step] = []
    for _ in range(world.rng.choice([1, 1, 2])):
        steps += topic_steps.create_for_records(world)
    weights = {theme: world.rng.choice([0, 0, 1, 4]) for theme in THEMES}
    if not any(weights.values()):
        weights["records"] = 1
    while len(steps) < length:
        (theme,) = world.rng.choices(list(weights), list(weights.values()))
        makers = THEMES[theme]
        (maker,) = world.rng.choices(list(makers), list(makers.values()))
        steps += maker(world)
    return steps
