"""Nothing acknowledged is lost, doubled or out of order while nodes of a cluster fail (long form: `make failover`)."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clusters import PROGRAMS, Cluster
from failover import faults
from failover.faults import FAULTS, NEED_NETWORK
from failover.run import run
from failover.verdict import Verdict, judge, longest_gap_s
from namespaces import Network, why_no_namespaces

HERE = ("writer", 0)
RECORDS = 4_000


@pytest.mark.parametrize(
    ("acknowledged", "found", "wrong"),
    [
        ([0, 1, 2], [0, 1, 2], {}),
        ([0, 2], [0, 1, 2], {}),
        ([0, 1, 2], [0, 2], {"lost": 1}),
        ([0], [], {"lost": 0}),
        ([0, 1], [0, 1, 1], {"doubled": 1}),
        ([0, 1, 2], [0, 1, 2, 0], {"doubled": 0}),
        ([0, 1, 2], [0, 2, 1], {"reordered": 1}),
    ],
)
def test_every_kind_of_wrong_is_found_and_nothing_else(
    acknowledged: list[int], found: list[int], wrong: dict[str, int]
) -> None:
    expected = {kind: [(HERE, number)] for kind, number in wrong.items()}
    verdict = judge({HERE: acknowledged}, {HERE: found})
    assert verdict == Verdict(
        len(acknowledged), expected.get("lost", []), expected.get("doubled", []), expected.get("reordered", [])
    )
    assert verdict.is_clean == (not wrong)


def test_records_of_another_partition_or_writer_are_not_mistaken_for_ones_own() -> None:
    verdict = judge({HERE: [0], ("other", 0): [0]}, {("writer", 1): [0], ("other", 0): [0]})
    assert verdict.lost == [(HERE, 0)]


def test_the_longest_gap_is_between_neighbours_whatever_their_order() -> None:
    assert longest_gap_s([1.0, 5.0, 2.0]) == 3.0
    assert longest_gap_s([]) == 0.0


SHORT = {"broker.session.timeout.ms": "3000", "broker.heartbeat.interval.ms": "500"}
"""So that nobody has to be away for long."""


@pytest.fixture
def network(fault: str) -> Iterator[Network | None]:
    if fault not in NEED_NETWORK:
        yield None
        return
    reason = why_no_namespaces()
    if reason is not None:
        pytest.skip(reason)
    with Network() as network:
        yield network


@pytest.mark.parametrize(
    "fault",
    [
        "kill-leader",
        *(pytest.param(each, marks=pytest.mark.slow) for each in FAULTS if each not in ("none", "kill-leader")),
    ],
)
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(
    fault: str, network: Network | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "PAUSE_S", 5.0)
    with Cluster(PROGRAMS["kpybroker"], tmp_path, properties=SHORT, network=network) as cluster:
        outcome = run(cluster, fault, records=RECORDS, seed=1, clients=["confluent-kafka", "kafka-python"])
    assert outcome.faults > 0
    assert (outcome.verdict.is_clean, outcome.failures) == (True, [])
