"""Nothing acknowledged is lost, doubled or out of order while nodes of a cluster fail (long form: `make failover`)."""

from collections.abc import Callable
from pathlib import Path

import pytest

from clusters import PROGRAMS, Cluster
from failover.run import run
from failover.verdict import Verdict, judge, longest_gap_s

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


@pytest.fixture
def cluster_in(tmp_path: Path) -> Callable[[], Cluster]:
    return lambda: Cluster(PROGRAMS["kpybroker"], tmp_path)


@pytest.mark.parametrize("fault", ["kill-leader", pytest.param("stop-leader", marks=pytest.mark.slow)])
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order(fault: str, cluster_in: Callable[[], Cluster]) -> None:
    with cluster_in() as cluster:
        outcome = run(cluster, fault, records=RECORDS, seed=1, clients=["confluent-kafka", "kafka-python"])
    assert outcome.faults > 0
    assert (outcome.verdict.is_clean, outcome.failures) == (True, [])
