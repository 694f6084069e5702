"""No acknowledged record is lost when nodes are killed in copies and deletions (`make tiered-kills` plays long)."""

from pathlib import Path

import pytest

from tiered.kills import play
from tiered.nodes import KPYBROKER, tiered_cluster

RECORDS = 20_000
KILLS = 4


@pytest.mark.timeout(600)
def test_acknowledged_records_outlive_kills_and_the_loss_of_all_local_logs(tiered_target: str, tmp_path: Path) -> None:
    with tiered_cluster(tiered_target, tmp_path, 3) as cluster:
        outcome = play(cluster, records=RECORDS, kills=KILLS, seed=3, are_emptied=tiered_target == KPYBROKER)
    assert outcome.wrong == []
    assert outcome.written.verdict.is_clean, outcome.written.verdict
    assert outcome.tiered > RECORDS / 2
