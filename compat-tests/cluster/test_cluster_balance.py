"""``kpybroker balance`` on three nodes of Apache Kafka: a plan is carried out by us and by Kafka's own tool, and no
throttle is left."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from confluent_kafka import Producer

from kpybroker.cli import main
from kpybroker.client import balance_throttles
from kpybroker.client.balance_throttles import FoundThrottles
from kpybroker.client.client import Client
from support.clusters import PROGRAMS, Cluster
from support.java_tools import JavaTools
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(300)]
APACHE_KAFKA = "apache-kafka"
EVERYWHERE = ("--sample", "0", "--idle-disk", "0", "--disk-limit", "100")
"""Options with which the disk of the machine does not matter."""
RECORDS = 3000


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(PROGRAMS[APACHE_KAFKA], tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


def done(cluster: Cluster, *words: str) -> str:
    result = CliRunner().invoke(main, [*words, "-b", cluster.bootstrap_servers])
    assert result.exit_code == 0, result.output
    return result.stdout


def replicas(cluster: Cluster, name: str) -> list[list[int]]:
    (found,) = json.loads(done(cluster, "topics", "describe", name, "--json"))
    return [each["replicas"] for each in found["partitions"]]


def throttles(cluster: Cluster) -> FoundThrottles:
    with Client(cluster.bootstrap_servers) as client:
        return balance_throttles.found(client)


@pytest.fixture
def skewed(cluster: Cluster) -> str:
    """A topic that has all its replicas on brokers 1 and 2."""
    done(cluster, "topics", "create", "orders", "-p", "6", "-r", "2")
    done(cluster, "topics", "reassign", "orders", "--broker-list", "1,2")
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "acks": "all", "log_level": 0})
    for number in range(RECORDS):
        producer.produce("orders", b"x" * 2000, partition=number % 6)
    assert producer.flush(30) == 0
    return "orders"


def test_apache_kafka_is_balanced_by_us_and_by_its_own_tool(
    cluster: Cluster, skewed: str, java_tools: JavaTools, tmp_path: Path
) -> None:
    plan = tmp_path / "plan.json"
    done(cluster, "balance", "plan", "-o", str(plan), *EVERYWHERE)
    wanted = {each["partition"]: each["replicas"] for each in json.loads(plan.read_text())["partitions"]}
    assert wanted
    words = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
    read = java_tools.run("kafka-reassign-partitions", *words, "--verify")
    assert read.exit_code == 0, read.text
    assert all(f"{skewed}-{number}" in read.out for number in wanted)

    output = done(cluster, "balance", "apply", str(plan), "--disk-limit", "100")
    assert output.endswith("No throttle is left.\n")
    after = replicas(cluster, skewed)
    assert {number: after[number] for number in wanted} == wanted
    assert throttles(cluster) == FoundThrottles({}, {})
    assert "Nothing has to move." in done(cluster, "balance", "plan", *EVERYWHERE)

    done(cluster, "balance", "drain", "3", "-o", str(plan), *EVERYWHERE)
    begun = java_tools.run("kafka-reassign-partitions", *words, "--execute", "--throttle", "100000000")
    assert "Successfully started partition reassignments for" in begun.out, begun.text
    eventually(lambda: not any(3 in each for each in replicas(cluster, skewed)), "an empty broker 3")
    assert not throttles(cluster).is_empty
    done(cluster, "balance", "stop", str(plan))
    assert throttles(cluster) == FoundThrottles({}, {})


def test_nodes_of_apache_kafka_find_their_turn(cluster: Cluster) -> None:
    plan = json.loads(done(cluster, "cluster", "roll-plan", "--json"))
    assert sorted(plan["sets"]) == [[1], [2], [3]]
    waited = done(cluster, "cluster", "leave", "2", "--until-safe", "--hold", "6")
    assert waited == "Node 2 may stop now.\n"
