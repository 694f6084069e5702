"""Apache ZooKeeper as a child process, from the jars of the last Kafka that needed it."""

import contextlib
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from oracle.broker import ApacheKafka
from oracle.jars import KAFKA_BEFORE_4, classpath
from oracle.process import HOST, BrokerProcess, free_port

SMALL_JVM: Final = ("-Xmx128m", "-Xss512k", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
LOGGING: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


class ZooKeeper(BrokerProcess):
    """``with ZooKeeper() as zookeeper: ... zookeeper.bootstrap_servers``: one server without an ensemble.

    ``properties`` are added to its configuration, ``jvm`` to the flags of its JVM. Without a ``directory`` it works in
    a temporary one, which is removed at the end.
    """

    program = "ZooKeeper"

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
        jvm: Sequence[str] = (),
    ) -> None:
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="zookeeper-")), port or free_port())
        self.jvm = [*SMALL_JVM, *LOGGING, *jvm]
        self.properties = {
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "admin.enableServer": "false",
            "tickTime": "500",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "*",
            **(properties or {}),
        }

    def prepare(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "zookeeper.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        jars = classpath(release=KAFKA_BEFORE_4)
        return ["java", *self.jvm, "-cp", jars, main, str(self.directory / "zookeeper.properties")]

    @property
    def answers(self) -> bool:
        """Whether the server says that it is well (``ruok``)."""
        with contextlib.suppress(OSError), socket.create_connection((HOST, self.port), 1) as asking:
            asking.sendall(b"ruok")
            return asking.recv(4) == b"imok"
        return False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)


OF_KRAFT: Final = (
    "process.roles",
    "node.id",
    "controller.listener.names",
    "controller.quorum.bootstrap.servers",
    "share.coordinator.state.topic.replication.factor",
    "share.coordinator.state.topic.min.isr",
    "share.coordinator.state.topic.num.partitions",
)


class KafkaOnZooKeeper(ApacheKafka):
    """A broker of Apache Kafka 3.9 in ZooKeeper mode, small."""

    def __init__(
        self,
        broker_id: int,
        connect: str,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
    ) -> None:
        super().__init__(directory=directory, port=port, release=KAFKA_BEFORE_4)
        self.properties = {key: value for key, value in self.properties.items() if key not in OF_KRAFT}
        self.properties |= {
            "broker.id": str(broker_id),
            "zookeeper.connect": connect,
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            **(properties or {}),
        }

    def prepare(self) -> None:
        self.write_properties()
