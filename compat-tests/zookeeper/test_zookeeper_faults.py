"""Nothing acknowledged is lost, doubled or out of order in ZooKeeper mode either, whatever fails (`make failover
OPTIONS=--zookeeper` has the long form), with brokers of both programs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from exactly_once.__main__ import counts, on_zookeeper
from exactly_once.run import run as run_transactions
from failover import faults, zookeeper_faults
from failover.faults import FAULTS, NEED_NETWORK
from failover.run import run
from failover.zookeeper_faults import ZOOKEEPER_FAULTS
from support.namespaces import Network, why_no_namespaces
from support.zookeeper_clusters import zookeeper_cluster

pytestmark = [pytest.mark.java, pytest.mark.slow]
RECORDS = 4_000
SECONDS = 40.0
ALL = {**FAULTS, **ZOOKEEPER_FAULTS}


@pytest.fixture
def network(fault: str) -> Iterator[Network | None]:
    if fault not in (*NEED_NETWORK, *zookeeper_faults.NEED_NETWORK):
        yield None
        return
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with Network() as network:
        yield network


@pytest.mark.timeout(600)
@pytest.mark.parametrize("fault", [name for name in ALL if name != "none"])
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(
    fault: str, network: Network | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PAUSE_S", 7.0)
    with zookeeper_cluster("mixed", tmp_path, network=network) as cluster:
        outcome = run(cluster, ALL[fault], records=RECORDS, seed=1, clients=["confluent-kafka", "kafka-python"])
    assert outcome.faults > 0
    assert (outcome.verdict.is_clean, outcome.failures) == (True, [])


@pytest.mark.timeout(900)
def test_transactions_are_exactly_once_while_brokers_controllers_and_zookeeper_fail(tmp_path: Path) -> None:
    with on_zookeeper("mixed", tmp_path) as nodes:
        verdict = run_transactions(nodes, tmp_path, SECONDS, seed=2)
    assert verdict.anomalies == [], counts(verdict)
    assert sum(count for what, count in verdict.troubles.items() if "zookeeper" in what or "controller" in what) >= 1
