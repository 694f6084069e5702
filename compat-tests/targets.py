"""The targets of the suites: kpybroker, Apache Kafka from its jars or in a container, or somebody else's broker.

A target starts brokers; the suites see only ``BrokerProcess`` or a bootstrap address, never which program answers.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from oracle import ApacheKafka, BrokerProcess, free_port
from oracle.container import ContainedKafka
from oracle.process import HOST


class KpyBroker(BrokerProcess):
    """kpybroker in a child process, told what to do by a ``server.properties`` as Kafka would be."""

    program = "kpybroker"
    path = Path(sys.executable).with_name("kpybroker")
    """The command that is started: this environment's, unless ``--kpybroker`` names another one's."""
    start_timeout_s = 20.0
    stop_timeout_s = 10.0

    def __init__(self, properties: Mapping[str, str] | None = None, *, directory: Path) -> None:
        super().__init__(directory, free_port())
        self.properties = {
            "listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "advertised.listeners": f"PLAINTEXT://{HOST}:{self.port}",
            "log.dirs": str(directory / "data"),
            "group.initial.rebalance.delay.ms": "0",
            **(properties or {}),
        }

    def prepare(self) -> None:
        lines = (f"{key}={value}\n" for key, value in self.properties.items())
        (self.directory / "server.properties").write_text("".join(lines))

    def command(self) -> Sequence[str]:
        return [str(self.path), "start", str(self.directory / "server.properties"), "--http", "off"]


def apache_kafka(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return ApacheKafka(properties, directory=directory)


def kpybroker(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return KpyBroker(properties, directory=directory)


def container(properties: Mapping[str, str] | None = None, *, directory: Path) -> BrokerProcess:
    return ContainedKafka(properties, directory=directory)


EXTERNAL: Final = "external"
"""The target that ``--bootstrap-server`` names: it can be neither started nor configured."""
TARGETS: Final[Mapping[str, Callable[..., BrokerProcess]]] = {
    "kpybroker": kpybroker,
    "apache-kafka": apache_kafka,
    "container": container,
}
