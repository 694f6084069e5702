"""The commands that change a cluster of three nodes, or compare them: elections, voters, moves, replicas."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kpybroker.cli import main
from kpybroker.testing import Cluster
from support.waiting import eventually

TOPIC = "flights"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cluster")


@pytest.fixture(scope="module")
def cluster(directory: Path) -> Iterator[Cluster]:
    with Cluster(directory=directory, process=False) as running:
        running.create_topic(TOPIC, partitions=3, replication_factor=3)
        assert invoke(running, "produce", TOPIC, "-p", "0", stdin="record\n" * 50).exit_code == 0
        yield running


def invoke(cluster: Cluster, *words: str, stdin: str = "") -> Result:
    return CliRunner().invoke(main, [*words, "-b", cluster.bootstrap_servers], input=stdin)


def found(cluster: Cluster, *words: str) -> Any:
    return json.loads(invoke(cluster, *words, "--json").stdout)


def test_the_first_replicas_lead_again_after_an_election(cluster: Cluster) -> None:
    first = {each["partition"]: each["replicas"][0] for each in described(cluster)}
    partition, broker = next(iter(first.items()))
    cluster.stop(broker)
    eventually(lambda: leader_of(cluster, partition) not in (broker, -1), "another leader")
    cluster.restart(broker)
    cluster.wait_for_in_sync(TOPIC)
    elected = invoke(cluster, "cluster", "elect", "--all")
    assert f"Elected a leader of {TOPIC}-{partition}" in elected.stdout, elected.output
    eventually(lambda: leader_of(cluster, partition) == broker, "the first replica as the leader")


def described(cluster: Cluster) -> list[dict[str, Any]]:
    (topic,) = found(cluster, "topics", "describe", TOPIC)
    partitions: list[dict[str, Any]] = topic["partitions"]
    return partitions


def leader_of(cluster: Cluster, partition: int) -> int:
    return int(next(each["leader"] for each in described(cluster) if each["partition"] == partition))


def test_a_voter_leaves_the_quorum_and_comes_back_by_its_configuration(cluster: Cluster, directory: Path) -> None:
    leader = next(each["id"] for each in found(cluster, "cluster", "voters", "list") if each["role"] == "leader")
    other = next(node for node in (1, 2, 3) if node != leader)
    removed = invoke(cluster, "cluster", "voters", "remove", str(other))
    assert removed.stdout.startswith(f"Removed voter {other} with the directory "), removed.output
    assert other not in {each["id"] for each in found(cluster, "cluster", "voters", "list")}
    (file,) = directory.glob(f"**/*{other}/server.properties")
    eventually(lambda: added(cluster, file) == 0, "the voter again")
    assert [each["id"] for each in found(cluster, "cluster", "voters", "list")] == [1, 2, 3]


def added(cluster: Cluster, file: Path) -> int:
    return invoke(cluster, "cluster", "voters", "add", str(file)).exit_code


def test_replicas_move_as_a_file_says(cluster: Cluster, tmp_path: Path) -> None:
    cluster.create_topic("moved", partitions=1, replication_factor=1)
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"partitions": [{"topic": "moved", "partition": 0, "replicas": [3, 2]}]}))
    moved = invoke(cluster, "topics", "reassign", "--reassignment-json-file", str(file))
    assert moved.stdout == "Moved moved: 1 partition on brokers 2,3\n", moved.output
    (topic,) = found(cluster, "topics", "describe", "moved")
    assert topic["partitions"][0]["replicas"] == [3, 2]
    assert found(cluster, "topics", "reassignments") == []


def test_moves_are_shown_and_cancelled(cluster: Cluster) -> None:
    cluster.create_topic("kept", partitions=1, replication_factor=1)
    ((holder,),) = [each["replicas"] for each in found(cluster, "topics", "describe", "kept")[0]["partitions"]]
    leader = next(each["id"] for each in found(cluster, "cluster", "voters", "list") if each["role"] == "leader")
    away = next(node for node in (1, 2, 3) if node not in (holder, leader))
    cluster.stop(away)
    invoke(cluster, "topics", "reassign", "kept", "--broker-list", str(away), "--no-wait")
    moving = found(cluster, "topics", "reassignments")
    assert [(each["topic"], each["adding"], each["removing"]) for each in moving] == [("kept", [away], [holder])]
    assert invoke(cluster, "topics", "reassignments", "--cancel").stdout == "Cancelled the move of kept-0\n"
    eventually(lambda: found(cluster, "topics", "reassignments") == [], "the end of the move")
    verified = invoke(cluster, "replicas", "verify", TOPIC)
    assert (verified.exit_code, f"broker {away}" in verified.stdout) == (4, True), verified.output
    cluster.restart(away)
    cluster.wait_for_in_sync(TOPIC)


def test_a_replica_with_a_changed_byte_differs(cluster: Cluster, directory: Path) -> None:
    assert invoke(cluster, "replicas", "verify", TOPIC).exit_code == 0
    broker = next(each["replicas"][-1] for each in described(cluster) if each["partition"] == 0)
    cluster.stop(broker)
    (log,) = directory.glob(f"**/*{broker}/**/{TOPIC}-0/*.log")
    content = bytearray(log.read_bytes())
    content[-3] ^= 1
    log.write_bytes(content)
    cluster.restart(broker)
    cluster.wait_for_in_sync(TOPIC)
    verified = invoke(cluster, "replicas", "verify", TOPIC)
    assert verified.exit_code == 4, verified.output
    assert f"DIFFERS  bytes: {TOPIC}-0: broker {broker}: a batch is damaged" in verified.stdout


def test_a_broker_that_is_gone_is_unregistered(cluster: Cluster) -> None:
    assert "BROKER_ID_NOT_REGISTERED" in invoke(cluster, "cluster", "unregister", "9").stderr
    assert {each["id"] for each in found(cluster, "cluster", "controllers")} == {1, 2, 3}
