"""The image in ZooKeeper mode: the scripts and the compose file as they are, with Apache ZooKeeper from its jars."""

import re
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from images import DOCKER, echoed, free_address, laid_out, started

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.environment import from_environment
from oracle.zookeeper import ZooKeeper

COMPOSE = (DOCKER / "compose.zookeeper.yaml").read_text()
PAIR = re.compile(r"^ +(KAFKA_[A-Z_]+): (.*)$", re.MULTILINE)
INSIDE, OUTSIDE = "29092", "9092"
ELSEWHERE = "127.0.0.2"
"""An address of this machine that scripts do not take for the container's own."""


def environments() -> dict[int, dict[str, str]]:
    """The variables of each broker's container."""
    shared, _, services = COMPOSE.partition("\nservices:\n")
    common = dict(PAIR.findall(shared))
    brokers = re.split(r"^  kafka-(\d):$", services, flags=re.MULTILINE)[1:]
    return {
        int(number): {**common, **dict(PAIR.findall(text))} for number, text in zip(*[iter(brokers)] * 2, strict=True)
    }


def test_each_container_is_a_broker_of_its_own_in_zookeeper_mode() -> None:
    configs = {number: from_environment(each) for number, each in environments().items()}
    assert {number: each["broker.id"] for number, each in configs.items()} == {1: "1", 2: "2", 3: "3"}
    assert len({each["advertised.listeners"] for each in configs.values()}) == 3
    for each in configs.values():
        config = BrokerConfig(each)
        assert config.is_in_zookeeper_mode
        assert config.warnings == []
    ports = re.findall(r'ports: \["(\d+):9092"\]', COMPOSE)
    assert ports == [each["advertised.listeners"].rpartition(":")[2] for each in configs.values()]
    assert "hostname: zookeeper\n" in COMPOSE


@pytest.mark.java
def test_the_containers_become_one_cluster_and_come_back(tmp_path: Path) -> None:
    places = {(node, port): free_address() for node in (1, 2, 3) for port in (INSIDE, OUTSIDE)}
    images = {number: laid_out(tmp_path / f"kafka-{number}") for number in environments()}
    with ZooKeeper(directory=tmp_path / "zookeeper", host=ELSEWHERE) as zookeeper, ExitStack() as stack:

        def run(number: int) -> ExitStack:
            """The container of a broker, with all addresses on this machine."""
            variables = environments()[number]
            for name in ("KAFKA_LISTENERS", "KAFKA_ADVERTISED_LISTENERS"):
                listed = variables[name].replace("localhost:909", "0.0.0.0:909")
                listed = re.sub(r"0\.0\.0\.0:909\d", places[number, OUTSIDE], listed)
                variables[name] = re.sub(rf"(0\.0\.0\.0|kafka-\d):{INSIDE}", places[number, INSIDE], listed)
            server = variables["KAFKA_ZOOKEEPER_CONNECT"].replace("zookeeper:2181", zookeeper.bootstrap_servers)
            variables["KAFKA_ZOOKEEPER_CONNECT"] = server
            # The last broker finds nobody who takes its partitions over.
            variables["KAFKA_CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS"] = "100"
            container = stack.enter_context(ExitStack())
            command = [str(images[number] / "etc/kafka/docker/run")]
            container.enter_context(started(images[number], command, f"[KafkaServer id={number}] started", **variables))
            return container

        containers = {number: run(number) for number in images}
        assert echoed(places[1, OUTSIDE]) == b"world"
        admin = AdminClient({"bootstrap.servers": places[2, OUTSIDE]})
        found = admin.list_topics(timeout=10)
        assert sorted(found.brokers) == [1, 2, 3]
        assert {len(each.replicas) for each in found.topics["hello"].partitions.values()} == {3}
        containers[3].close()
        run(3)
        assert echoed(places[3, OUTSIDE]) == b"world"
    meta = (tmp_path / "kafka-1" / "data" / "meta.properties").read_text()
    assert {"version=0", "broker.id=1"} <= set(meta.splitlines())
