"""Kafka's tools for clusters, on three nodes: the quorum, replicas that move, leaders that change, a lost node."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest
from confluent_kafka import Producer

from support.clusters import PROGRAMS, Cluster
from support.java_commands import SERVER_FIRST
from support.java_tools import Finished, JavaTools
from support.replica_verification import verifying
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 60.0


class Run(Protocol):
    def __call__(self, tool: str, *arguments: str, fails: bool = False) -> Finished: ...


@pytest.fixture(scope="module")
def cluster(target: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if target not in PROGRAMS:
        pytest.skip("kills nodes, so it needs a cluster of its own")
    with Cluster(PROGRAMS[target], tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def run(cluster: Cluster, java_tools: JavaTools) -> Run:
    """Runs a tool on the nodes that run; it must succeed, or fail if the test says so."""

    def run_on_cluster(tool: str, *arguments: str, fails: bool = False) -> Finished:
        servers = ",".join(node.bootstrap_servers for node in cluster.nodes.values() if node.process is not None)
        server = ("--bootstrap-server", servers)
        words = (*server, *arguments) if tool in SERVER_FIRST else (*arguments, *server)
        finished = java_tools.run(tool, *words)
        assert (finished.exit_code != 0) == fails, finished.text
        return finished

    return run_on_cluster


def replicas_of(run: Run, topic: str) -> list[tuple[str, str, set[str]]]:
    """Leader, replicas and in-sync replicas of each partition."""
    lines = run("kafka-topics", "--describe", "--topic", topic).out.splitlines()[1:]
    found = [re.search(r"Leader: (\S+)\tReplicas: (\S+)\tIsr: (\S*)", line) for line in lines]
    return [(match[1], match[2], set(match[3].split(","))) for match in found if match]


def test_the_quorum_is_described(run: Run) -> None:
    status = run("kafka-metadata-quorum", "describe", "--status").out
    leader = re.search(r"^LeaderId: +(\d)$", status, re.MULTILINE)
    assert leader
    voters = re.search(r"^CurrentVoters: +(\[.*\])$", status, re.MULTILINE)
    assert voters
    assert sorted(each["id"] for each in json.loads(voters[1])) == [1, 2, 3]
    assert re.search(r"^CurrentObservers: +\[\]$", status, re.MULTILINE)
    rows = [line.split() for line in run("kafka-metadata-quorum", "describe", "--replication").out.splitlines()[1:]]
    assert sorted((row[0], row[-1]) for row in rows) == sorted(
        (str(node), "Leader" if str(node) == leader[1] else "Follower") for node in (1, 2, 3)
    )


def test_features_and_nodes_are_those_of_the_cluster(run: Run) -> None:
    assert "metadata.version" in run("kafka-features", "describe").out
    endpoints = run("kafka-cluster", "list-endpoints").out.splitlines()[1:]
    assert sorted(line.split()[0] for line in endpoints) == ["1", "2", "3"]
    versions = run("kafka-broker-api-versions").out
    assert len(re.findall(r"\(id: [123] rack: .*\) -> \(", versions)) == 3


def test_partitions_without_a_replica_are_listed_until_it_is_back_and_leads_again(cluster: Cluster, run: Run) -> None:
    run("kafka-topics", "--create", "--topic", "led", "--replica-assignment", "1:2:3,2:3:1,3:1:2")
    eventually(lambda: {leader for leader, _, _ in replicas_of(run, "led")} == {"1", "2", "3"}, "leaders")
    assert "Topic: led" not in run("kafka-topics", "--describe", "--under-replicated-partitions").out
    cluster.nodes[2].kill()
    eventually(lambda: "2" not in {leader for leader, _, _ in replicas_of(run, "led")}, "node 2 leads no more")
    listed = run("kafka-topics", "--describe", "--under-replicated-partitions").out
    assert len(re.findall(r"Topic: led\t", listed)) == 3
    cluster.start()
    eventually(lambda: all(in_sync == {"1", "2", "3"} for _, _, in_sync in replicas_of(run, "led")), "node 2 in sync")
    run("kafka-leader-election", "--election-type", "preferred", "--all-topic-partitions")
    assert [leader for leader, _, _ in replicas_of(run, "led")] == ["1", "2", "3"]


def test_all_replicas_hold_the_same_while_they_are_written_and_after_one_was_away(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    run("kafka-topics", "--create", "--topic", "verified", "--replica-assignment", "1:2:3,2:3:1")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})

    def write(count: int) -> None:
        for number in range(count):
            producer.produce("verified", b"%d" % number, partition=number % 2)
        assert producer.flush(PATIENCE_S) == 0

    write(1000)
    cluster.nodes[3].kill()
    write(1000)
    cluster.start()
    with verifying(cluster.bootstrap_servers, "verified", tmp_path / "errors") as reports:
        write(1000)
        end = re.compile(r"max lag is 0 for partition verified-[01] at offset 1500 among 2 partitions$")
        mismatches: list[str] = []

        def is_at_the_end() -> bool:
            line = next(reports)
            mismatches.extend([line] if "match" in line else [])
            return end.search(line) is not None

        eventually(is_at_the_end, "the end of all replicas")
    assert mismatches == []
    assert "Error in processing replica" not in (tmp_path / "errors").read_text()


def test_replicas_move_to_other_nodes_with_their_records(cluster: Cluster, run: Run, tmp_path: Path) -> None:
    run("kafka-topics", "--create", "--topic", "moved", "--replica-assignment", "1:2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all"})
    for number in range(1000):
        producer.produce("moved", b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0
    plan = tmp_path / "plan.json"
    partitions = [{"topic": "moved", "partition": 0, "replicas": [3, 1]}]
    plan.write_text(json.dumps({"version": 1, "partitions": partitions}))
    options = ("--reassignment-json-file", str(plan))
    run("kafka-reassign-partitions", *options, "--execute")
    done = "Reassignment of partition moved-0 is completed."
    eventually(
        lambda: done in run("kafka-reassign-partitions", *options, "--verify", "--preserve-throttles").out, "moved"
    )
    ((_, replicas, in_sync),) = replicas_of(run, "moved")
    assert (replicas, in_sync) == ("3,1", {"1", "3"})
    assert "No partition reassignments found." in run("kafka-reassign-partitions", "--list").out
    assert run("kafka-get-offsets", "--topic", "moved").out == "moved:0:1000\n"
