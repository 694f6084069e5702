"""Whatever happens to three nodes and their store, a tiered partition keeps what was committed (`make sim-tiers`)."""

from collections import Counter

import pytest
from tier_chaos import TierChaos, play

FIRST_COUNTED, COUNTED_SEEDS = 46, 12
"""Few histories have an unclean election."""


@pytest.mark.seeds(0, 16)
def test_whatever_happens_tiered_records_are_served_and_nothing_is_left_over(seed: int) -> None:
    play(seed)


def test_the_misfortunes_happen_and_readers_read() -> None:
    counted: Counter[str] = Counter()
    for seed in range(FIRST_COUNTED, FIRST_COUNTED + COUNTED_SEEDS):
        chaos = play(seed)
        counted.update(chaos.counted)
        counted["read"] += chaos.reader.answered
        counted["segments"] += len(chaos.rules.segments)
    wanted = ("started", "lost disk", "last disk lost", "unclean", "repeated", "deleted", "disabled")
    assert all(counted[what] for what in wanted), counted
    assert min(counted["read"], counted["segments"]) > 20 * COUNTED_SEEDS


def test_a_new_leader_answers_no_search_before_it_knows_all_copies() -> None:
    play(466)


def test_the_same_seed_is_the_same_history() -> None:
    one, other = play(3), play(3)
    assert history(one) == history(other)


def history(chaos: TierChaos) -> tuple[object, ...]:
    return chaos.world.metadata.records, chaos.rules.committed, chaos.world.store.objects
