"""A source that is killed under transactions: its mirror of three brokers tears none, and takes back nothing."""

from pathlib import Path

import pytest

from tests.mirror.unplanned_failovers import rounds


@pytest.mark.slow
def test_a_killed_source_leaves_no_torn_transaction_and_nothing_shown_is_gone(tmp_path: Path) -> None:
    with rounds(tmp_path) as made:
        for seed in (1, 2):
            outcome = made.run(seed)
            assert outcome.committed > 0
            assert (outcome.torn, outcome.gone) == (0, 0), outcome
