"""`kpybroker.testing.Cluster`: nodes are really killed, held and started again, and nothing is left."""

import os
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from kpybroker.machines.errors import KafkaError
from kpybroker.testing import BrokerFailed, Cluster
from kpywire import error_codes


def is_alive(pid: int) -> bool:
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return True
    return False


def test_a_topic_has_replicas_on_every_node(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("everywhere", partitions=3)
    kafka_cluster.wait_for_in_sync("everywhere")
    assert kafka_cluster.nodes == kafka_cluster.running == [1, 2, 3]
    assert {kafka_cluster.leader("everywhere", index) for index in range(3)} <= {1, 2, 3}
    assert [kafka_cluster.in_sync("everywhere", index) for index in range(3)] == [{1, 2, 3}] * 3
    assert kafka_cluster.controller() in (1, 2, 3)
    assert len(set(kafka_cluster.bootstrap_servers.split(","))) == 3


def test_another_node_leads_when_the_leader_is_killed_and_the_killed_one_comes_back(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("survivor")
    victim = kafka_cluster.leader("survivor")
    pid = kafka_cluster.pid(victim)
    kafka_cluster.kill(victim)
    assert not is_alive(pid)
    assert victim not in kafka_cluster.running
    assert kafka_cluster.leader("survivor") != victim
    assert victim not in kafka_cluster.in_sync("survivor")
    kafka_cluster.restart(victim)
    assert kafka_cluster.pid(victim) != pid
    kafka_cluster.wait_for_in_sync("survivor")
    assert kafka_cluster.running == [1, 2, 3]


def test_another_controller_is_active_when_it_is_stopped(kafka_cluster: Cluster) -> None:
    active = kafka_cluster.controller()
    kafka_cluster.stop(active)
    assert kafka_cluster.controller() != active


def test_a_node_that_a_test_stopped_runs_again_for_the_next_test(kafka_cluster: Cluster) -> None:
    assert kafka_cluster.running == [1, 2, 3]
    assert any("Kafka Server started" in line for line in kafka_cluster.output(1))


def test_a_paused_node_answers_nothing_until_it_resumes(kafka_cluster: Cluster) -> None:
    kafka_cluster.pause(2)
    assert kafka_cluster.running == [1, 3]
    assert is_alive(kafka_cluster.pid(2))
    kafka_cluster.resume(2)
    assert kafka_cluster.running == [1, 2, 3]


def test_errors_are_kafkas_and_mistakes_are_reported_in_one_line(kafka_cluster: Cluster) -> None:
    kafka_cluster.create_topic("once")
    with pytest.raises(KafkaError) as refused:
        kafka_cluster.create_topic("once")
    assert refused.value.code == error_codes.TOPIC_ALREADY_EXISTS
    with pytest.raises(KafkaError, match="replication factor"):
        kafka_cluster.create_topic("many", replication_factor=4)
    with pytest.raises(BrokerFailed, match="there is no node 4"):
        kafka_cluster.kill(4)
    with pytest.raises(BrokerFailed, match="running already"):
        kafka_cluster.start()


def test_leaderships_go_back_to_preferred_replicas_by_themselves() -> None:
    often = {"leader.imbalance.check.interval.seconds": 1}
    with Cluster(3, often, process=False) as cluster:
        cluster.create_topic("led", partitions=3)
        preferred = [cluster.leader("led", index) for index in range(3)]
        cluster.stop(preferred[0])
        assert cluster.leader("led", 0) != preferred[0]
        cluster.restart(preferred[0])
        cluster._until(
            lambda: [cluster.leader("led", index) for index in range(3)] == preferred, 30, "leaders did not go back"
        )


def test_a_closed_cluster_leaves_nothing_whatever_its_nodes_did() -> None:
    with Cluster(2) as cluster:
        directory = cluster._directory
        assert directory is not None
        assert directory.exists()
        pids = [cluster.pid(node) for node in cluster.nodes]
        cluster.pause(2)
    assert not directory.exists()
    assert [is_alive(pid) for pid in pids] == [False, False]
    with pytest.raises(BrokerFailed, match="not running"):
        cluster.kill(1)


def test_a_node_that_does_not_come_up_says_why() -> None:
    with pytest.raises(BrokerFailed, match=r"log\.segment\.bytes"):
        Cluster(1, {"log.segment.bytes": 1}).start()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(BrokerFailed, match=r"node 1 ended with exit code 1\n(.*\n)*.*cannot serve metrics"):
            Cluster(1, {"kpybroker.http.listener": address}).start()


def test_nodes_may_share_this_process_and_a_directory_keeps_what_they_hold_for_one_more(tmp_path: Path) -> None:
    with Cluster(3, directory=tmp_path, process=False) as cluster:
        cluster.create_topic("kept", partitions=2)
        victim = cluster.leader("kept")
        cluster.kill(victim)
        assert cluster.leader("kept") != victim
        with pytest.raises(BrokerFailed, match="only a process can be held"):
            cluster.pause(1)
        with pytest.raises(BrokerFailed, match="share this process"):
            cluster.pid(1)
        assert cluster.output(1) == []
    with Cluster(4, directory=tmp_path, process=False) as cluster:
        assert cluster.running == [1, 2, 3, 4]
        cluster.wait_for_in_sync("kept")
        assert cluster.in_sync("kept", 1) == {1, 2, 3}
        cluster.create_topic("wide", replication_factor=4)
        assert cluster.in_sync("wide") == {1, 2, 3, 4}
