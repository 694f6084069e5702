"""One node becomes three while it is written to, by Kafka's own tools (`kafka-metadata-quorum add-controller`), then
the first one leaves, and two go on (KIP-853). No producer notices."""

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from oracle import free_port
from oracle.broker import CLUSTER_ID
from oracle.process import HOST
from support.clusters import SHARED, KpyNode, Place
from support.java_tools import JavaTools
from support.waiting import eventually

pytestmark = [pytest.mark.java, pytest.mark.slow]
PATIENCE_S = 60


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
        self.place, self.known = place, first or place
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


class Writer:
    """Writes one number after the other, and remembers whether any was refused."""

    def __init__(self, servers: str) -> None:
        self.written = 0
        self.refused: list[object] = []
        self._stop = threading.Event()
        self._producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
        self._thread = threading.Thread(target=self._write)

    def __enter__(self) -> "Writer":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(PATIENCE_S) == 0

    def go_on(self) -> None:
        """Wait until more is acknowledged."""
        enough = self.written + 50
        eventually(lambda: self.written >= enough or self.refused, "more records")
        assert not self.refused

    def _done(self, error: object, _message: object) -> None:
        if error is None:
            self.written += 1
        else:
            self.refused.append(error)

    def _write(self) -> None:
        number = 0
        while not self._stop.is_set():
            self._producer.produce("t", b"%d" % number, on_delivery=self._done)
            self._producer.poll(0.002)
            number += 1


class Operator:
    """Kafka's tools, at one server."""

    def __init__(self, java_tools: JavaTools, servers: str, directory: Path) -> None:
        self.java_tools = java_tools
        self.server = ("--bootstrap-server", servers)
        self.admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.plan = directory / "plan.json"

    def run(self, tool: str, *words: str) -> str:
        finished = self.java_tools.run(tool, *words)
        assert finished.exit_code == 0, finished.text
        return finished.text

    def add(self, node: GrowingNode) -> None:
        at = ("--bootstrap-controller", f"{HOST}:{node.known.controller_port}")
        added = self.run("kafka-metadata-quorum", "--command-config", str(node.file), *at, "add-controller")
        assert f"Added controller {node.place.node_id} with directory id" in added

    def voters(self) -> dict[int, str]:
        """Their directories' ids by their own."""
        status = self.run("kafka-metadata-quorum", *self.server, "describe", "--status")
        found = re.search(r"^CurrentVoters: +(\[.*\])$", status, re.MULTILINE)
        assert found
        return {each["id"]: each["directoryId"] for each in json.loads(found[1])}

    def remove(self, node_id: int) -> None:
        which = ("--controller-id", str(node_id), "--controller-directory-id", self.voters()[node_id])
        removed = self.run("kafka-metadata-quorum", *self.server, "remove-controller", *which)
        assert f"KRaft controller {node_id} with directory id" in removed

    def move(self, *replicas: int) -> None:
        """Give the topic these replicas."""
        wanted = [{"topic": "t", "partition": 0, "replicas": replicas}]
        self.plan.write_text(json.dumps({"version": 1, "partitions": wanted}))
        file = ("--reassignment-json-file", str(self.plan))
        self.run("kafka-reassign-partitions", *self.server, *file, "--execute")
        eventually(lambda: self.in_sync() == set(replicas), f"{replicas} to be in sync")

    def in_sync(self) -> set[int]:
        return set(self.admin.list_topics("t", PATIENCE_S).topics["t"].partitions[0].isrs)


def test_one_node_grows_to_three_and_leaves_and_nothing_is_lost_or_refused(
    first: GrowingNode, tmp_path: Path, java_tools: JavaTools
) -> None:
    operator = Operator(java_tools, first.bootstrap_servers, tmp_path)
    operator.admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
    with ExitStack() as stack:
        with Writer(first.bootstrap_servers) as writer:
            writer.go_on()
            others = []
            for node_id in (2, 3):
                node = stack.enter_context(GrowingNode(node_id, first.place, tmp_path / str(node_id)))
                operator.add(node)
                others.append(node)
                writer.go_on()
            assert set(operator.voters()) == {1, 2, 3}
            operator.move(1, 2, 3)
            writer.go_on()
            operator.move(2, 3)
            writer.go_on()
            operator = Operator(java_tools, others[0].bootstrap_servers, tmp_path)
            operator.remove(1)
            eventually(lambda: set(operator.voters()) == {2, 3}, "two voters")
            writer.go_on()
            first.stop()
            assert "is no longer registered" in operator.run(
                "kafka-cluster", "unregister", *operator.server, "--id", "1"
            )
            writer.go_on()
        assert writer.refused == []
        for node in others:
            eventually(partial(is_led, operator), "a leader")
            assert read(node.bootstrap_servers, writer.written) == list(map(str, range(writer.written)))


def is_led(operator: Operator) -> bool:
    return operator.admin.list_topics("t", PATIENCE_S).topics["t"].partitions[0].leader in (2, 3)


def read(servers: str, count: int) -> list[str]:
    """All records of the topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "log_level": 0})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found: list[str] = []
        while len(found) < count:
            messages = consumer.consume(count - len(found), PATIENCE_S)
            assert messages
            found += [(message.value() or b"").decode() for message in messages if message.error() is None]
        return found
    finally:
        consumer.close()
