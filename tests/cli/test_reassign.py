"""``topics reassign``: replicas are spread evenly, and are where they were wanted when the command returns."""

import json
from collections import Counter
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from kpybroker.cli import main
from kpybroker.client.reassignment_requests import spread
from kpybroker.testing import Cluster
from kpywire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic
from support.waiting import becomes

PATIENCE_S = 30.0
pytestmark = pytest.mark.timeout(120)


def topic(name: str, replicas: list[list[int]]) -> MetadataResponseTopic:
    partitions = [
        MetadataResponsePartition(partition_index=index, leader_id=each[0], replica_nodes=each, isr_nodes=each)
        for index, each in enumerate(replicas)
    ]
    return MetadataResponseTopic(error_code=0, name=name, partitions=partitions)


@given(
    counts=st.lists(st.integers(0, 9), min_size=1, max_size=4),
    brokers=st.lists(st.integers(0, 1000), min_size=1, max_size=6, unique=True),
    data=st.data(),
)
def test_leaders_and_replicas_are_spread_evenly(counts: list[int], brokers: list[int], data: st.DataObject) -> None:
    replicas = data.draw(st.integers(1, len(brokers)))
    topics = [topic(f"t{number}", [[7]] * count) for number, count in enumerate(counts)]
    found = [each for assignment in spread(topics, brokers, replicas).values() for each in assignment.values()]
    assert len(found) == sum(counts)
    assert all(len(each) == len(set(each)) == replicas and set(each) <= set(brokers) for each in found)
    for chosen in (Counter(each[0] for each in found), Counter(one for each in found for one in each)):
        numbers = [chosen[broker] for broker in brokers]
        assert max(numbers) - min(numbers) <= (1 if chosen.total() == len(found) else replicas)


def test_without_a_number_each_partition_keeps_its_own() -> None:
    assert spread([topic("t", [[1], [1, 2]])], [5, 6, 7], None) == {"t": {0: [5], 1: [6, 7]}}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, process=False) as cluster:
        yield cluster


def invoke(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(main, ["topics", *words, "-b", cluster.bootstrap_servers])


def replicas(cluster: Cluster, name: str) -> list[list[int]]:
    (found,) = json.loads(invoke(cluster, "describe", name, "--json").output)
    return [each["replicas"] for each in found["partitions"]]


def wait_for(wanted: list[list[int]], cluster: Cluster, name: str) -> None:
    """A node that answers may hear of the move a moment later than the controller."""
    becomes(lambda: replicas(cluster, name), wanted)


def test_a_topic_gets_more_replicas_other_ones_and_fewer(cluster: Cluster) -> None:
    assert invoke(cluster, "create", "t", "-p", "4", "-r", "1").exit_code == 0
    grown = invoke(cluster, "reassign", "t", "--broker-list", "1,2,3", "-r", "3")
    assert grown.output == "Moved t: 4 partitions on brokers 1,2,3\n"
    wait_for([[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]], cluster, "t")
    assert invoke(cluster, "reassign", "t", "--broker-list", "3,2", "-r", "1").exit_code == 0
    wait_for([[3], [2], [3], [2]], cluster, "t")
    accepted = invoke(cluster, "reassign", "t", "--broker-list", "1", "--no-wait")
    assert accepted.output == "Moving t: 4 partitions on brokers 1\n"


@pytest.mark.parametrize(
    ("words", "code", "reported"),
    [
        (("nothing", "--broker-list", "1"), 1, "topic nothing does not exist"),
        (("u", "--broker-list", "1,9"), 1, "INVALID_REPLICA_ASSIGNMENT"),
        (("u", "--broker-list", "1,2", "-r", "3"), 2, "3 replicas need 3 brokers, and --broker-list names 2"),
        (("u", "--broker-list", "1"), 2, "2 replicas need 2 brokers, and --broker-list names 1"),
        (("u", "--broker-list", "1,1"), 2, "names a broker twice"),
        (("u", "--broker-list", "one"), 2, "is not a list of ids such as 1,2,3"),
        (("u", "--broker-list", "-1"), 2, "is not a list of ids such as 1,2,3"),
        (("u", "--broker-list", f"1,{1 << 31}"), 2, "is not a list of ids such as 1,2,3"),
        (("u", "--broker-list", ""), 2, "is not a list of ids such as 1,2,3"),
        (("u",), 2, "name topics and --broker-list"),
    ],
)
def test_a_mistake_is_one_clear_line_and_moves_nothing(
    cluster: Cluster, words: tuple[str, ...], code: int, reported: str
) -> None:
    invoke(cluster, "create", "u", "-p", "1", "-r", "2", "--if-not-exists")
    before = replicas(cluster, "u")
    answer = invoke(cluster, "reassign", *words)
    assert answer.exit_code == code
    assert reported in answer.output
    assert replicas(cluster, "u") == before
