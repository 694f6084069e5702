"""Coordinator, partitions and producers in a simulation: whatever fails when, transactions are atomic and end.

``--transaction-seeds`` is how many of them there are.
"""

from random import Random

import pytest
from simulation import Simulation

CRASH_SEEDS_IN = 40
"""One simulation in this number is repeated with a crash at each of its writes."""


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--transaction-seeds"))


def test_with_crashes_and_lost_messages_every_transaction_is_seen_whole_or_not_at_all(seeds: int) -> None:
    outcomes = set()
    for seed in range(seeds):
        rng = Random(seed)
        simulation = Simulation(seed, crashes=rng.randrange(6), level=rng.choice((1, 2, 2)))
        try:
            simulation.run()
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}") from failure
        outcomes |= {attempt.outcome for attempt in simulation.attempts}
    assert outcomes == {"committed", "aborted", "unknown"}


@pytest.mark.parametrize("loses_write", [False, True])
def test_a_crash_at_any_write_of_the_coordinator_leaves_every_transaction_whole(seeds: int, loses_write: bool) -> None:
    for seed in range(0, seeds, CRASH_SEEDS_IN):
        simulation = Simulation(seed)
        simulation.run()
        writes = simulation.coordinator.writes
        assert writes > 10
        for write in range(writes):
            simulation = Simulation(seed, crash_at_write=write, loses_write=loses_write)
            try:
                simulation.run()
            except AssertionError as failure:
                raise AssertionError(f"seed {seed}, a crash at write {write}") from failure
            assert simulation.coordinator.epoch == 2
