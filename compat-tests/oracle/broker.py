"""Apache Kafka itself, 4.4.0 by default, one node that is broker and controller, started from its jars.

For tests it takes few resources (a small heap, one compiler tier, few threads); a benchmark passes ``SERVER_JVM`` and
``SERVER_PROPERTIES`` and gets what ``kafka-server-start.sh`` and the shipped ``server.properties`` give.
"""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final

from oracle.jars import HERE, KAFKA_VERSION, classpath, compile_java, java, sharing
from oracle.process import HOST, BrokerProcess, BrokerProcessError, free_port
from oracle.quick import LOGGING, QUICK

CLUSTER_ID = "a3B5YnJva2VyLW9yYWNsZQ"

RECEIVER: Final = {"metric.reporters": "TelemetryReceiver"}
"""Properties with which Apache Kafka receives clients' metrics; to kpybroker they say nothing."""
SMALL_JVM: Final = ("-Xmx384m", "-Xms64m", "-Xss512k", *QUICK, "-Xshare:auto")
SERVER_JVM: Final = (
    "-Xmx1G",
    "-Xms1G",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-XX:MaxInlineLevel=15",
    "-Djava.awt.headless=true",
)

ONE_NODE: Final = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "inter.broker.listener.name": "PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}
SMALL_PROPERTIES: Final = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "background.threads": "2",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
    "share.coordinator.state.topic.num.partitions": "2",
    "log.cleaner.dedupe.buffer.size": "4194304",
    "log.initial.task.delay.ms": "3600000",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
}
SERVER_PROPERTIES: Final = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
}


class ApacheKafka(BrokerProcess):
    """``with ApacheKafka() as kafka: ... kafka.bootstrap_servers``.

    ``properties`` are added to the one-node configuration and win over it; ``tuning`` is ``SMALL_PROPERTIES`` or
    ``SERVER_PROPERTIES``; ``jvm`` holds the JVM flags and ``heap`` (such as ``"512m"``) replaces their ``-Xmx``.
    ``formatting`` are options of ``kafka-storage format``, used where nothing is formatted yet. ``plugins`` are more
    directories and jars of its class path.
    Without a ``directory`` it works in a temporary one, removed at the end. Raises BrokerProcessError.
    """

    program = "Apache Kafka"

    def __init__(
        self,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
        port: int | None = None,
        tuning: Mapping[str, str] = SMALL_PROPERTIES,
        jvm: Sequence[str] = SMALL_JVM,
        heap: str | None = None,
        release: str = KAFKA_VERSION,
        formatting: Sequence[str] = ("--standalone",),
        plugins: Sequence[Path] = (),
    ) -> None:
        self.release = release
        self.plugins = plugins
        self.formatting = formatting
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="apache-kafka-")), port or free_port())
        self.controller_port = free_port()
        self.jvm = [*(flag for flag in jvm if not (heap and flag[:4] in ("-Xmx", "-Xms")))]
        if heap:
            self.jvm.append(f"-Xmx{heap}")
        self.properties = {
            **ONE_NODE,
            **tuning,
            "listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port},CONTROLLER://{HOST}:{self.controller_port}",
            "controller.quorum.bootstrap.servers": f"{HOST}:{self.controller_port}",
            "log.dirs": str(self.data),
            **(properties or {}),
        }

    @property
    def properties_file(self) -> Path:
        return self.directory / "server.properties"

    def write_properties(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        self.properties_file.write_text("".join(lines))

    def prepare(self) -> None:
        self.write_properties()
        if any((Path(part) / "meta.properties").exists() for part in self.properties["log.dirs"].split(",")):
            return
        options = (*self.formatting, "-t", CLUSTER_ID, "-c", str(self.properties_file))
        formatted = java("kafka.tools.StorageTool", "format", *options, release=self.release)
        if formatted.returncode != 0:
            raise BrokerProcessError(f"kafka-storage format:\n{formatted.stdout}{formatted.stderr}")

    def command(self) -> Sequence[str]:
        receives = self.properties.items() >= RECEIVER.items()
        classes = [compile_java(HERE / "TelemetryReceiver.java")] if receives else []
        jars = classpath(*classes, *self.plugins, release=self.release)
        shared = sharing(self.release) if "-Xshare:auto" in self.jvm else []
        return ["java", *self.jvm, *shared, LOGGING, "-cp", jars, "kafka.Kafka", str(self.properties_file)]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
