"""``kpybroker cluster roll-plan`` and ``leave`` on three real nodes: one node at a time finds its turn."""

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.testing import Cluster
from support.waiting import becomes

HOLD_S = 15
"""A node stops in less time."""
pytestmark = [pytest.mark.timeout(180), pytest.mark.slow]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(3, {"min.insync.replicas": 2}, process=False) as cluster:
        cluster.create_topic("t", partitions=3, replication_factor=3)
        yield cluster


def invoke(cluster: Cluster, *words: str) -> Result:
    return CliRunner().invoke(main, ["cluster", *words, "-b", cluster.bootstrap_servers])


def waiting(cluster: Cluster, node: int) -> subprocess.Popen[str]:
    """The wait of a node for its turn, in a process of its own."""
    command = [sys.executable, "-m", "kpybroker", "cluster", "leave", str(node), "--until-safe", "--hold", str(HOLD_S)]
    return subprocess.Popen(
        [*command, "-b", cluster.bootstrap_servers], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_nodes_stop_one_after_another_where_each_has_a_replica_of_all(cluster: Cluster) -> None:
    found = invoke(cluster, "roll-plan", "--json")
    assert found.exit_code == 0, found.output
    plan = json.loads(found.output)
    assert sorted(plan["sets"]) == [[1], [2], [3]]
    assert plan["sets"][-1] == [cluster.controller()]
    assert plan["waiting"] == []


def test_no_other_node_may_stop_while_one_is_away(cluster: Cluster) -> None:
    first = next(each for each in (1, 2, 3) if each != cluster.controller())
    second = next(each for each in (1, 2, 3) if each != first)
    assert invoke(cluster, "leave", str(first)).exit_code == 0
    cluster.stop(first)
    becomes(lambda: invoke(cluster, "leave", str(second)).exit_code, 4)
    assert f"Node {second} may not stop now: " in invoke(cluster, "leave", str(second)).output
    assert invoke(cluster, "roll-plan").exit_code == 4
    waited = invoke(cluster, "leave", str(second), "--until-safe", "--hold", "6", "--timeout", "0.5")
    assert waited.exit_code == 4
    cluster.restart(first)
    waited = invoke(cluster, "leave", str(second), "--until-safe", "--hold", "6")
    assert waited.stdout == f"Node {second} may stop now.\n"


def test_of_two_nodes_that_wait_together_one_gets_its_turn_and_the_other_one_after_it(cluster: Cluster) -> None:
    invoke(cluster, "leave", "1", "--until-safe", "--hold", "6")  # the group's topic exists from now on
    last = cluster.controller()
    one, two = (each for each in (1, 2, 3) if each != last)
    processes = {node: waiting(cluster, node) for node in (one, two)}
    try:
        ended: dict[int, int] = {}

        def first_ended() -> int:
            ended.update({node: code for node, each in processes.items() if (code := each.poll()) is not None})
            return len(ended)

        becomes(first_ended, 1)
        (first,) = ended
        (second,) = processes.keys() - ended.keys()
        assert ended[first] == 0
        cluster.stop(first)
        with pytest.raises(subprocess.TimeoutExpired):
            processes[second].wait(HOLD_S + 5)
        cluster.restart(first)
        assert processes[second].wait(60) == 0
    finally:
        for each in processes.values():
            each.kill()
            each.communicate()
