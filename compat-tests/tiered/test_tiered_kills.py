"""No acknowledged record is lost when nodes are killed in copies and deletions (`make tiered-kills` plays long)."""

from pathlib import Path

import pytest

from tiered.kills import play
from tiered.nodes import KPYBROKER, s3_cluster, store_of, tiered_cluster
from tiered.s3_store import S3Watch, faulty_s3, s3_properties
from tiered.store import DirectoryWatch

RECORDS = 20_000
KILLS = 4


@pytest.mark.timeout(600)
def test_acknowledged_records_outlive_kills_and_the_loss_of_all_local_logs(tiered_target: str, tmp_path: Path) -> None:
    with tiered_cluster(tiered_target, tmp_path, 3) as cluster:
        watch = DirectoryWatch(store_of(tmp_path))
        outcome = play(cluster, watch, records=RECORDS, kills=KILLS, seed=3, are_emptied=tiered_target == KPYBROKER)
    assert outcome.wrong == []
    assert outcome.written.verdict.is_clean, outcome.written.verdict
    assert outcome.tiered > RECORDS / 2


@pytest.mark.timeout(600)
def test_acknowledged_records_outlive_kills_and_a_server_that_fails_and_cuts_connections(tmp_path: Path) -> None:
    with faulty_s3(seed=5) as proxy, s3_cluster(tmp_path, 3, s3_properties(proxy.url)) as cluster:
        watch = S3Watch(proxy)
        outcome = play(cluster, watch, records=RECORDS, kills=KILLS, seed=5, are_emptied=True, healed=proxy.heal)
        assert all(proxy.counted[what] for what in ("answered", "cut", "lost", "SlowDown", "ExpiredToken"))
    assert outcome.wrong == []
    assert outcome.written.verdict.is_clean, outcome.written.verdict
    assert outcome.tiered > RECORDS / 2
