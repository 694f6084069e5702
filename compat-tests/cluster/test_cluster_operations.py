"""Operators mend a cluster with Kafka's tools when something is wrong: moves that cannot end are changed and called
off, leaders are elected that lack records, nodes are forgotten."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from confluent_kafka import Producer

from cluster.test_cluster_java_tools import PATIENCE_S, Run, replicas_of
from cluster.test_cluster_java_tools import cluster as cluster
from cluster.test_cluster_java_tools import run as run
from kpywire import error_codes
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from support.clusters import Cluster
from support.raw_client import RawClient
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
COUNT: Final = 100
NO_LEADER: Final = "none"
MEMBERS: Final = ("1", "2", "3")


@pytest.fixture(autouse=True)
def all_run(cluster: Cluster) -> None:
    for node in cluster.nodes.values():
        node.start_timeout_s = 2 * PATIENCE_S
    cluster.start()


def write(cluster: Cluster, topic: str) -> None:
    """Records that all in-sync replicas have."""
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(COUNT):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(PATIENCE_S) == 0


def plan(path: Path, topic: str, replicas: list[int]) -> tuple[str, str]:
    partitions = [{"topic": topic, "partition": 0, "replicas": replicas}]
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return "--reassignment-json-file", str(path)


def throttled(run: Run, topic: str) -> bool:
    described = run("kafka-configs", "--describe", "--entity-type", "topics", "--entity-name", topic).out
    return "replication.throttled.replicas" in described


def is_so(run: Run, topic: str, leader: str, in_sync: set[str]) -> bool:
    """Whether partition 0 is led by this node, with these in sync."""
    ((led_by, _, isr),) = replicas_of(run, topic)
    return (led_by, isr) == (leader, in_sync)


def reassign(cluster: Cluster, topic: str, *replicas: int) -> None:
    """Asked of a broker: the tool refuses nodes that are down."""
    partition = ReassignablePartition(partition_index=0, replicas=list(replicas))
    topics = [ReassignableTopic(name=topic, partitions=[partition])]
    with RawClient(cluster.nodes[1].port) as client:
        answer = client.call(AlterPartitionReassignmentsRequest(topics=topics), 1)
    assert answer.responses[0].partitions[0].error_code == error_codes.NONE


def test_a_move_to_a_node_that_is_down_is_changed_called_off_and_begun_again(
    cluster: Cluster, run: Run, tmp_path: Path
) -> None:
    run("kafka-topics", "--create", "--topic", "stuck", "--replica-assignment", "1:2")
    write(cluster, "stuck")
    cluster.nodes[3].stop()
    tool = "kafka-reassign-partitions"
    wanted, other = plan(tmp_path / "wanted.json", "stuck", [3, 1]), plan(tmp_path / "other.json", "stuck", [2, 1])
    reassign(cluster, "stuck", 3, 1)
    assert "stuck-0: replicas: 3,1,2. adding: 3. removing: 2." in run(tool, "--list").out
    assert "Reassignment of partition stuck-0 is still in progress." in run(tool, *wanted, "--verify").out
    assert "there is an existing partition assignment" in run(tool, *other, "--execute", fails=True).text
    reassign(cluster, "stuck", 1, 2, 3)
    assert "stuck-0: replicas: 1,2,3. adding: 3." in run(tool, "--list").out
    write(cluster, "stuck")
    # Without the last word it would ask the node that is down to forget its throttles.
    cancelled = run(tool, *wanted, "--cancel", "--preserve-throttles").out
    assert "Successfully cancelled partition reassignment" in cancelled
    assert "No partition reassignments found." in run(tool, "--list").out
    assert [replicas for _, replicas, _ in replicas_of(run, "stuck")] == ["1,2"]

    cluster.start()
    eventually(lambda: listed(run).get("3") == "unfenced", "3 is there")
    run(tool, *wanted, "--execute", "--throttle", "50000000")
    assert throttled(run, "stuck")
    done = "Reassignment of partition stuck-0 is completed."
    eventually(lambda: done in run(tool, *wanted, "--verify").out, "moved")
    assert [(replicas, isr) for _, replicas, isr in replicas_of(run, "stuck")] == [("3,1", {"1", "3"})]
    assert not throttled(run, "stuck")
    assert run("kafka-get-offsets", "--topic", "stuck").out == f"stuck:0:{2 * COUNT}\n"


def test_an_unclean_election_makes_a_replica_that_lacks_records_the_leader(cluster: Cluster, run: Run) -> None:
    run("kafka-topics", "--create", "--topic", "unclean", "--replica-assignment", "2:3")
    write(cluster, "unclean")
    cluster.nodes[3].kill()
    eventually(lambda: is_so(run, "unclean", "2", {"2"}), "3 is out of sync")
    write(cluster, "unclean")
    cluster.nodes[2].kill()
    cluster.nodes[3].start()
    eventually(lambda: [leader for leader, _, _ in replicas_of(run, "unclean")] == [NO_LEADER], "nobody leads")
    place = ("--topic", "unclean", "--partition", "0")
    run("kafka-leader-election", "--election-type", "preferred", *place, fails=True)
    elected = run("kafka-leader-election", "--election-type", "unclean", *place).out
    assert "Successfully completed leader election (UNCLEAN) for partitions unclean-0" in elected
    assert is_so(run, "unclean", "3", {"3"})
    ends = run("kafka-get-offsets", "--topic", "unclean").out
    assert ends == f"unclean:0:{COUNT}\n", "what only the other had is lost"

    cluster.nodes[2].start()
    eventually(lambda: is_so(run, "unclean", "3", {"2", "3"}), "2 has cut its log")
    named = ("--alter", "--entity-type", "topics", "--entity-name", "unclean")
    run("kafka-configs", *named, "--add-config", "unclean.leader.election.enable=true")
    cluster.nodes[2].kill()
    eventually(lambda: is_so(run, "unclean", "3", {"3"}), "2 is out of sync")
    write(cluster, "unclean")
    cluster.nodes[3].kill()
    cluster.nodes[2].start()
    eventually(lambda: is_so(run, "unclean", "2", {"2"}), "2 leads of its own accord")
    assert run("kafka-get-offsets", "--topic", "unclean").out == f"unclean:0:{COUNT}\n"
    cluster.nodes[3].start()
    eventually(lambda: is_so(run, "unclean", "2", {"2", "3"}), "both are in sync")


def listed(run: Run) -> Mapping[str, str]:
    """The nodes that have registered: whether they are fenced, by their ids."""
    lines = run("kafka-cluster", "list-endpoints", "--include-fenced-brokers").out.splitlines()[1:]
    return {line.split()[0]: line.split()[4] for line in lines}


def test_a_node_that_left_is_listed_until_it_is_forgotten_and_again_when_it_comes_back(
    cluster: Cluster, run: Run
) -> None:
    eventually(lambda: listed(run) == dict.fromkeys(MEMBERS, "unfenced"), "all are there")
    cluster.nodes[3].stop()
    eventually(lambda: listed(run) == {"1": "unfenced", "2": "unfenced", "3": "fenced"}, "3 is fenced")
    assert "Broker 3 is no longer registered." in run("kafka-cluster", "unregister", "--id", "3").out
    assert set(listed(run)) == {"1", "2"}
    run("kafka-cluster", "unregister", "--id", "9", fails=True)
    cluster.start()
    eventually(lambda: listed(run) == dict.fromkeys(MEMBERS, "unfenced"), "all are there")
