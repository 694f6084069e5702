"""A cluster in ZooKeeper mode that migrates to KRaft, step by step, under load. Brokers and controllers of either
program."""

import contextlib
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from kafka import KafkaConsumer
from kafka.errors import KafkaError as KafkaPythonError
from kazoo.client import KazooClient

from oracle import BrokerProcess, BrokerProcessError, free_port, jars, java
from oracle.broker import SMALL_JVM
from oracle.jars import classpath
from oracle.process import HOST, as_installed
from oracle.quick import LOGGING
from support.access import Access
from support.zookeeper_clients import PATIENCE_S, soon
from support.zookeeper_clusters import BrokerOf, ZooKeeperCluster

PROGRAM: Final = str(Path(sys.executable).with_name("kpybroker"))
FLAG: Final = "zookeeper.metadata.migration.enable"
LISTENERS: Final = {
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
}
SESSIONS: Final = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "4000"}


START_S: Final = 180.0


class Controller(BrokerProcess):
    """One KRaft controller of kpybroker, which migrates a cluster."""

    program = "kpybroker"
    start_timeout_s = stop_timeout_s = START_S

    def __init__(
        self, node_id: int, cluster_id: str, properties: Mapping[str, str], directory: Path, port: int
    ) -> None:
        super().__init__(directory, port)
        self.node_id = node_id
        self.cluster_id = cluster_id
        self.properties = {
            "process.roles": "controller",
            "node.id": str(node_id),
            "listeners": f"CONTROLLER://{HOST}:{port}",
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "log.dirs": str(self.data),
            **SESSIONS,
            **properties,
        }

    @property
    def file(self) -> Path:
        return self.directory / "controller.properties"

    def write(self) -> None:
        own = {"kpybroker.http.listener": ""} if self.program == "kpybroker" else {}
        lines = (f"{key}={value}\n" for key, value in {**self.properties, **own}.items())
        self.file.write_text("".join(lines))

    def format(self) -> Sequence[str]:
        return [PROGRAM, "format", "--cluster-id", self.cluster_id, "--config", str(self.file), *RELEASE]

    def prepare(self) -> None:
        self.write()
        if (self.data / "meta.properties").exists():
            return
        formatted = subprocess.run(
            self.format(), capture_output=True, text=True, timeout=60, env=as_installed(), check=False
        )
        if formatted.returncode != 0:
            raise BrokerProcessError(f"format:\n{formatted.stdout}{formatted.stderr}")

    def command(self) -> Sequence[str]:
        return [PROGRAM, "start", str(self.file)]

    @property
    def answers(self) -> bool:
        """Whether its port is open."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1):
            return True
        return False


RELEASE: Final = ("--release-version", "3.9")


class KafkaController(Controller):
    """One KRaft controller of Apache Kafka 3.9, which migrates a cluster."""

    program = "Apache Kafka"

    def prepare(self) -> None:
        self.write()
        if (self.data / "meta.properties").exists():
            return
        options = ("-t", self.cluster_id, "-c", str(self.file), *RELEASE)
        formatted = java("kafka.tools.StorageTool", "format", *options, release=jars.KAFKA_BEFORE_4)
        if formatted.returncode != 0:
            raise BrokerProcessError(f"kafka-storage format:\n{formatted.stdout}{formatted.stderr}")

    def command(self) -> Sequence[str]:
        path = classpath(release=jars.KAFKA_BEFORE_4)
        return ["java", *SMALL_JVM, LOGGING, "-cp", path, "kafka.Kafka", str(self.file)]


class MigratingCluster(ZooKeeperCluster):
    """The cluster, and its controllers once they are there."""

    def __init__(
        self,
        directory: Path,
        brokers: Mapping[int, BrokerOf],
        controller_of: type[Controller] = Controller,
        quorum: Sequence[int] = (3000,),
        properties: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(
            directory, brokers, {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT", **(properties or {})}
        )
        for each in self.brokers.values():
            each.start_timeout_s = each.stop_timeout_s = START_S
        self._directory = directory
        self._controller_of = controller_of
        self.of_controllers: dict[str, str] = {}
        self.of_brokers: dict[str, str] = {}
        """The further configs of controllers, and of brokers that take part."""
        self._ports = {node_id: free_port() for node_id in quorum}
        self.controllers: dict[int, Controller] = {}

    @property
    def voters(self) -> str:
        return ",".join(f"{node_id}@{HOST}:{port}" for node_id, port in self._ports.items())

    @property
    def controller_servers(self) -> str:
        return ",".join(f"{HOST}:{port}" for port in self._ports.values())

    def tree(self) -> KazooClient:
        client = KazooClient(self.connect)
        client.start()
        return client

    def start_controllers(self) -> None:
        """Format and start controllers with the id of the cluster."""
        tree = self.tree()
        cluster_id = json.loads(tree.get("/cluster/id")[0])["id"]
        tree.stop()
        tree.close()
        configs = {
            "controller.quorum.voters": self.voters,
            "zookeeper.connect": self.connect,
            FLAG: "true",
            **self.of_controllers,
        }
        for node_id, port in self._ports.items():
            directory = self._directory / f"controller-{node_id}"
            self.controllers[node_id] = self._controller_of(node_id, cluster_id, configs, directory, port)
        for each in self.controllers.values():
            each.directory.mkdir(parents=True, exist_ok=True)
            each.prepare()
            each.launch()
        for each in self.controllers.values():
            each.wait_until_it_answers()

    def change(self, broker_id: int, properties: Mapping[str, str], without: Sequence[str] = ()) -> None:
        """Restart a broker with another configuration."""
        broker: Any = self.brokers[broker_id]
        broker.stop()
        kept = {key: value for key, value in broker.properties.items() if key not in without}
        broker.properties = {**kept, **properties}
        broker.prepare()
        broker.start()

    def enable(self, broker_id: int) -> None:
        """Restart a broker so that it takes part."""
        configs = {**LISTENERS, **SESSIONS, **self.of_brokers, "controller.quorum.voters": self.voters, FLAG: "true"}
        self.change(broker_id, configs)

    def to_kraft(self, broker_id: int) -> None:
        """Restart a broker as a KRaft broker."""
        roles = {"process.roles": "broker", "node.id": str(broker_id)}
        without = [
            FLAG,
            "zookeeper.connect",
            "zookeeper.session.timeout.ms",
            "broker.id",
            "controlled.shutdown.retry.backoff.ms",
        ]
        self.change(broker_id, roles, without)

    def to_zookeeper(self, broker_id: int, *, takes_part: bool = True) -> None:
        """Restart a broker as a broker in ZooKeeper mode."""
        modes = {"zookeeper.connect": self.connect, "broker.id": str(broker_id), "zookeeper.session.timeout.ms": "4000"}
        flag = {FLAG: "true"} if takes_part else {}
        without = [
            "process.roles",
            "node.id",
            *([] if takes_part else [FLAG, "controller.quorum.voters", "controller.listener.names"]),
        ]
        self.change(broker_id, {**modes, **flag}, without)

    def finalise(self) -> None:
        """Restart the controllers without ZooKeeper."""
        for each in self.controllers.values():
            each.stop()
            each.properties = {
                key: value for key, value in each.properties.items() if key not in ("zookeeper.connect", FLAG)
            }
            each.write()
            each.start()

    def leave_controllers(self) -> int:
        """Stop the controllers and forget them; the broker that is the controller then."""
        for each in self.controllers.values():
            each.stop()
        tree = self.tree()
        tree.delete("/controller")
        tree.delete("/migration")
        found, _ = soon(lambda: tree.exists("/controller") and tree.get("/controller"))
        tree.stop()
        tree.close()
        return int(json.loads(found)["brokerid"])

    def status(self) -> dict[str, Any]:
        """The answer of ``kpybroker migrate status``."""
        words = ["migrate", "status", self.connect, "--json", "--bootstrap-controller", self.controller_servers]
        ended = subprocess.run([PROGRAM, *words], capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode in (0, 4), ended.stderr
        found: dict[str, Any] = json.loads(ended.stdout)
        return found

    def wait_for(self, phase: str) -> dict[str, Any]:
        def found() -> dict[str, Any] | None:
            status = self.status()
            return status if status["phase"] == phase else None

        status: dict[str, Any] = soon(found)
        return status

    def __exit__(self, *details: Any) -> None:
        for each in self.controllers.values():
            each.__exit__(*details)
        super().__exit__(*details)


class Load:
    """An idempotent producer of librdkafka and a group of kafka-python, from the beginning to the end; each partition
    gets the numbers from 0 on.

    A consumer of librdkafka would wait for ever for a coordinator that Apache Kafka's brokers once left out of Metadata
    (its issues 5456 and 5511).
    """

    GROUPS: Final = ("load", "judge")

    def __init__(self, access: Access, topic: str, partitions: int) -> None:
        self.acknowledged = [0] * partitions
        self.refused: list[str] = []
        self.seen: set[tuple[int, int]] = set()
        self._access = access
        self._topic = topic
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=each, name=name, daemon=True)
            for name, each in (("producer", self._produce), ("consumer", self._consume))
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *_details: object) -> None:
        self._is_over.set()
        for each in self._threads:
            each.join(3 * PATIENCE_S)
            if each.is_alive():
                self.refused.append(f"the {each.name} never ended")

    def _produce(self) -> None:
        config = {"enable.idempotence": True, "linger.ms": 5, "delivery.timeout.ms": 120_000, "error_cb": self._failed}
        producer = Producer({**self._access.librdkafka, **config})
        number = 0

        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self.refused.append(str(error))
            else:
                self.acknowledged[message.partition()] += 1

        while not self._is_over.is_set():
            for partition in range(len(self.acknowledged)):
                producer.produce(self._topic, str(number).encode(), partition=partition, on_delivery=delivered)
            number += 1
            producer.poll(0.02)
        if left := producer.flush(2 * PATIENCE_S):
            self.refused.append(f"{left} records were neither acknowledged nor refused")

    def _consume(self) -> None:
        config = {"group_id": "load", "auto_offset_reset": "earliest"}
        consumer = KafkaConsumer(self._topic, **self._access.kafka_python, **config)
        while not self._is_over.is_set():
            try:
                batches = consumer.poll(200)
            except KafkaPythonError as error:
                self.refused.append(f"the consumer: {error!r}")
                time.sleep(1)
            else:
                self.seen |= {(place.partition, int(each.value)) for place, read in batches.items() for each in read}
        consumer.close()

    def _failed(self, error: Any) -> None:
        """A failed login is no matter of retries."""
        if error.code() == KafkaError._AUTHENTICATION:
            self.refused.append(str(error))

    def judge(self) -> int:
        """Check that each partition has every acknowledged number once, in order; their count."""
        assert not self.refused, self.refused[:3]
        for partition, count in enumerate(self.acknowledged):
            consumer = Consumer({**self._access.librdkafka, "group.id": "judge"})
            place = TopicPartition(self._topic, partition, 0)
            consumer.assign([place])
            _, end = consumer.get_watermark_offsets(place, timeout=30)
            found: list[int] = []
            deadline = time.monotonic() + PATIENCE_S
            while len(found) < end and time.monotonic() < deadline:
                messages = consumer.consume(1_000, 1.0)
                found += [int(each.value() or b"-1") for each in messages if each.error() is None]
            consumer.close()
            assert found == list(range(len(found))), f"partition {partition}"
            assert len(found) == count, f"partition {partition}"
        return sum(self.acknowledged)
