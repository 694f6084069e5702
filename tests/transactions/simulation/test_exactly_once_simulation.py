"""Coordinator, partitions and producers in a simulation: whatever fails when, transactions are atomic and end.

``SEEDS=10000 pytest ...`` runs more of them.
"""

import os
from random import Random

import pytest
from simulation import Simulation

SEEDS = int(os.environ.get("SEEDS", "40"))


def test_with_crashes_and_lost_messages_every_transaction_is_seen_whole_or_not_at_all() -> None:
    outcomes = set()
    for seed in range(SEEDS):
        rng = Random(seed)
        simulation = Simulation(seed, crashes=rng.randrange(6), level=rng.choice((1, 2, 2)))
        try:
            simulation.run()
        except AssertionError as failure:
            raise AssertionError(f"seed {seed}") from failure
        outcomes |= {attempt.outcome for attempt in simulation.attempts}
    assert outcomes == {"committed", "aborted", "unknown"}


@pytest.mark.parametrize("loses_write", [False, True])
@pytest.mark.parametrize("seed", range(max(SEEDS // 40, 1)))
def test_a_crash_at_any_write_of_the_coordinator_leaves_every_transaction_whole(seed: int, loses_write: bool) -> None:
    simulation = Simulation(seed)
    simulation.run()
    assert simulation.coordinator.writes > 30
    for write in range(simulation.coordinator.writes):
        simulation = Simulation(seed, crash_at_write=write, loses_write=loses_write)
        try:
            simulation.run()
        except AssertionError as failure:
            raise AssertionError(f"a crash at write {write}") from failure
        assert simulation.coordinator.epoch == 2
