"""Apache ZooKeeper as a child process, from the jars of the last Kafka that needed it."""

import contextlib
import re
import shutil
import socket
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from oracle.broker import SMALL_JVM as KAFKA_JVM
from oracle.broker import SMALL_PROPERTIES, ApacheKafka
from oracle.jars import KAFKA_BEFORE_4, classpath
from oracle.process import HOST, BrokerProcess, free_port
from oracle.quick import QUICK

SMALL_JVM: Final = ("-Xmx128m", "-Xss512k", *QUICK)
LOGGING: Final = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",)


class ZooKeeper(BrokerProcess):
    """``with ZooKeeper() as zookeeper: ... zookeeper.bootstrap_servers``: one server, alone without a ``number``.

    ``properties`` are added to its configuration, ``jvm`` to the flags of its JVM. Without a ``directory`` it works in
    a temporary one, which is removed at the end. ``launcher`` goes before its command.
    """

    program = "ZooKeeper"

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
        jvm: Sequence[str] = (),
        host: str = HOST,
        launcher: Sequence[str] = (),
        number: int | None = None,
    ) -> None:
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="zookeeper-")), port or free_port())
        self.host, self.launcher, self.number = host, launcher, number
        self.jvm = [*SMALL_JVM, *LOGGING, *jvm]
        self.properties = {
            "dataDir": str(self.data),
            "clientPort": str(self.port),
            "clientPortAddress": host,
            "admin.enableServer": "false",
            "tickTime": "500",
            "maxClientCnxns": "0",
            "4lw.commands.whitelist": "*",
            **(properties or {}),
        }

    def prepare(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "zookeeper.properties").write_text("".join(lines))
        if self.number is not None:
            self.data.mkdir(exist_ok=True)
            (self.data / "myid").write_text(str(self.number))

    def command(self) -> Sequence[str]:
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        jars = classpath(release=KAFKA_BEFORE_4)
        return [
            *self.launcher,
            "java",
            *self.jvm,
            "-cp",
            jars,
            main,
            str(self.directory / "zookeeper.properties"),
        ]

    @property
    def mode(self) -> str | None:
        """``standalone``, ``leader`` or ``follower``; None if it serves nobody, as without a quorum (``srvr``)."""
        reported = b""
        with contextlib.suppress(OSError), socket.create_connection((self.host, self.port), 1) as asking:
            asking.sendall(b"srvr")
            while part := asking.recv(4096):
                reported += part
        found = re.search(rb"^Mode: (\w+)", reported, re.MULTILINE)
        return None if found is None else found[1].decode()

    @property
    def answers(self) -> bool:
        """Whether it serves clients."""
        return self.mode is not None

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
    """A broker of Apache Kafka in ZooKeeper mode, 3.9 and small if nothing else is said."""

    start_timeout_s = 180.0

    def __init__(
        self,
        broker_id: int,
        connect: str,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
        host: str = HOST,
        launcher: Sequence[str] = (),
        jvm: Sequence[str] = KAFKA_JVM,
        tuning: Mapping[str, str] = SMALL_PROPERTIES,
        release: str = KAFKA_BEFORE_4,
    ) -> None:
        super().__init__(directory=directory, port=port, release=release, jvm=jvm, tuning=tuning)
        self.host, self.launcher, self.broker_id = host, launcher, broker_id
        self.properties = {key: value for key, value in self.properties.items() if key not in OF_KRAFT}
        self.properties |= {
            "broker.id": str(broker_id),
            "zookeeper.connect": connect,
            "listeners": f"PLAINTEXT://{host}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{host}:{self.port}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT",
            **(properties or {}),
        }

    def prepare(self) -> None:
        self.write_properties()

    def command(self) -> Sequence[str]:
        return [*self.launcher, *super().command()]
