"""Apache Kafka 3.9 as a broker of a cluster in ZooKeeper, as a child process."""

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from oracle.broker import SMALL_JVM, SMALL_PROPERTIES
from oracle.jars import KAFKA_BEFORE_4, classpath
from oracle.process import HOST, BrokerProcess, free_port


class ZooKeeperBroker(BrokerProcess):
    """``with ZooKeeperBroker(1, zookeeper.bootstrap_servers + "/kafka") as broker: ...``."""

    program = "Apache Kafka 3.9"

    def __init__(
        self,
        broker_id: int,
        zookeeper_connect: str,
        properties: Mapping[str, str] | None = None,
        *,
        directory: Path | None = None,
    ) -> None:
        self._temporary = directory is None
        super().__init__(directory or Path(tempfile.mkdtemp(prefix="kafka-zookeeper-")), free_port())
        self.properties = {
            **SMALL_PROPERTIES,
            "broker.id": str(broker_id),
            "zookeeper.connect": zookeeper_connect,
            "zookeeper.session.timeout.ms": "6000",
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(self.data),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }

    def prepare(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        jars = classpath(release=KAFKA_BEFORE_4)
        return ["java", *SMALL_JVM, "-cp", jars, "kafka.Kafka", str(self.directory / "server.properties")]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, trace)
        if self._temporary:
            shutil.rmtree(self.directory, ignore_errors=True)
