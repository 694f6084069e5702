"""One node becomes three while it serves, by Kafka's own tools: `kafka-metadata-quorum add-controller` (KIP-853)."""

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from clusters import SHARED, KpyNode, Place
from java_tools import JavaTools
from oracle import free_port
from oracle.broker import CLUSTER_ID
from oracle.process import HOST

pytestmark = pytest.mark.java
RECORDS = 1_000
PATIENCE_S = 30


class GrowingNode(KpyNode):
    """A node whose quorum is found at the first one's; ``joins`` is how it is formatted."""

    def __init__(self, node_id: int, first: Place | None, directory: Path) -> None:
        place = Place(node_id, free_port(), free_port())
        controller = f"CONTROLLER://{HOST}:{place.controller_port}"
        own = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://{HOST}:{place.port},{controller}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{place.port},{controller}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{(first or place).controller_port}",
        }
        super().__init__(place, {**SHARED, **own}, directory)
        self.place = place
        self.option = "--standalone" if first is None else "--no-initial-controllers"

    def prepare(self) -> None:
        self.file.write_text("".join(f"{key}={value}\n" for key, value in self.properties.items()))
        command = [str(self.path), "format", self.option, "--cluster-id", CLUSTER_ID, "--config", str(self.file)]
        subprocess.run(command, check=True, capture_output=True)


@pytest.fixture
def first(target: str, tmp_path: Path) -> Iterator[GrowingNode]:
    if target != "kpybroker":
        pytest.skip("starts and formats nodes of its own")
    with GrowingNode(1, None, tmp_path / "1") as node:
        yield node


def reassignment(path: Path, topic: str) -> Path:
    """What makes Kafka's tool give a topic's partition three replicas."""
    wanted = [{"topic": topic, "partition": 0, "replicas": [1, 2, 3]}]
    path.write_text(json.dumps({"version": 1, "partitions": wanted}))
    return path


def test_one_node_grows_to_three_and_loses_nothing(first: GrowingNode, tmp_path: Path, java_tools: JavaTools) -> None:
    servers = first.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    for number in range(RECORDS):
        producer.produce("t", str(number))
    assert producer.flush(PATIENCE_S) == 0
    controller = f"{HOST}:{first.place.controller_port}"
    with ExitStack() as nodes:
        for node_id in (2, 3):
            node = nodes.enter_context(GrowingNode(node_id, first.place, tmp_path / str(node_id)))
            added = java_tools.run(
                "kafka-metadata-quorum",
                *("--command-config", str(node.file), "--bootstrap-controller", controller, "add-controller"),
            )
            assert f"Added controller {node_id} with directory id" in added.text
        status = java_tools.run("kafka-metadata-quorum", "--bootstrap-server", servers, "describe", "--status").out
        voters = re.search(r"^CurrentVoters: +(\[.*\])$", status, re.MULTILINE)
        assert voters
        assert sorted(each["id"] for each in json.loads(voters[1])) == [1, 2, 3]
        plan = str(reassignment(tmp_path / "plan.json", "t"))
        moved = java_tools.run(
            "kafka-reassign-partitions",
            *("--bootstrap-server", servers, "--reassignment-json-file", plan, "--execute"),
        )
        assert moved.exit_code == 0, moved.text
        deadline_s = time.monotonic() + PATIENCE_S
        while len(admin.list_topics("t", PATIENCE_S).topics["t"].partitions[0].isrs) < 3:
            assert time.monotonic() < deadline_s
            time.sleep(0.1)
        first.kill()
        assert read(node.bootstrap_servers) == list(map(str, range(RECORDS)))


def read(servers: str) -> list[str]:
    """All records of the topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[str] = []
        while len(found) < RECORDS:
            messages = consumer.consume(RECORDS, PATIENCE_S)
            assert messages
            found += [(message.value() or b"").decode() for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()
