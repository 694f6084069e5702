"""The two sides of a comparison: a running broker each, with its topics and what its processes cost."""

import shutil
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import AlterConfigOpType, ConfigEntry, ConfigResource
from confluent_kafka.cimpl import NewTopic

from benchmarks import processes
from benchmarks.raw import frames
from benchmarks.raw.asking import Address, ask
from oracle import SERVER_JVM, SERVER_PROPERTIES, ApacheKafka, BrokerProcess, free_port
from oracle.jars import KAFKA_VERSION

TOPIC_CONFIG: Final = {"file.delete.delay.ms": "1000"}
BROKER_CONFIG: Final = {"log.segment.delete.delay.ms": "1000"}
"""Apache Kafka goes by this one where a whole topic is deleted, and keeps all its files open until then."""
ADMIN_TIMEOUT_S: Final = 30
LEADERS_TIMEOUT_S: Final = 120
"""A thousand partitions take a broker on a busy disk more than half a minute."""
HOST: Final = "127.0.0.1"
MOST_FAILURE_TEXT: Final = 500


class Kpybroker(BrokerProcess):
    """kpybroker as an environment has it installed; ``launcher`` goes before its path.

    ``advertised`` is the address that clients get, if it is not the one where it listens. ``properties`` are further
    keys of the configuration; listeners among them take the place of the usual one.
    """

    program = "kpybroker"
    path = Path(sys.executable).with_name("kpybroker")
    """The command that is started: this environment's, unless ``--kpybroker`` names another one's."""

    def __init__(self, directory: Path, launcher: Sequence[str] = (), advertised: Address | None = None) -> None:
        super().__init__(directory, free_port())
        self.launcher = launcher
        self.advertised = advertised
        self.http_port = free_port()
        self.properties: dict[str, str] = {}

    def command(self) -> Sequence[str]:
        properties = {"listeners": f"PLAINTEXT://{self.bootstrap_servers}", **self.properties}
        started = [*self.launcher, str(self.path), "start", "--data", str(self.data)]
        for key, value in properties.items():
            started += ["--override", f"{key}={value}"]
        if self.advertised:
            host, port = self.advertised
            started += ["--override", f"advertised.listeners=PLAINTEXT://{host}:{port}"]
        return [*started, "--http", f"{HOST}:{self.http_port}"]


class KpybrokerBefore(Kpybroker):
    """An older kpybroker, of the environment that ``--before`` names."""

    program = "kpybroker-before"


def apache_kafka(directory: Path) -> BrokerProcess:
    """With the heap, collector and thread counts its distribution ships."""
    return ApacheKafka(directory=directory, jvm=SERVER_JVM, tuning=SERVER_PROPERTIES)


class SideError(RuntimeError):
    """A broker did not do what a round needs."""


PROGRAMS: Final[dict[str, Callable[[Path], BrokerProcess]]] = {
    "apache-kafka": apache_kafka,
    "kpybroker": Kpybroker,
    "kpybroker-before": KpybrokerBefore,
}


def version(program: str) -> str:
    """The program that a key of PROGRAMS stands for now, in words. Raises SideError."""
    if program == "apache-kafka":
        return f"Apache Kafka {KAFKA_VERSION}"
    path = KpybrokerBefore.path if program == KpybrokerBefore.program else Kpybroker.path
    try:
        asked = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SideError(f"{path} does not say its version: {error}") from None
    return asked.stdout.strip()


class Side:
    """One broker of the comparison, used as a context manager: ``letter`` is A or B, ``program`` a key of PROGRAMS.

    ``broker`` is one of that program, of a directory of its own if none is given.
    """

    def __init__(self, letter: str, program: str, directory: Path, broker: BrokerProcess | None = None) -> None:
        self.letter, self.program, self.directory = letter, program, directory
        self.broker = broker or PROGRAMS[program](directory / "broker")
        self.others: dict[str, Side] = {}
        """Further brokers of the program that some rows use, by their purpose. They run as long as this one."""

    def refuses(self, row: str) -> str | None:  # noqa: ARG002  most sides play all
        """Why it cannot play the row of this key, if it cannot."""
        return None

    @property
    def last_words(self) -> str:
        """The last words of its program, where they tell more than the failure of its client."""
        return ""

    def rehearse(self, play: Callable[[], object]) -> None:
        """A row is open, and ``play`` does a short round of it, which does not count."""

    def end_row(self) -> None:
        """No more rounds of the row that was rehearsed: it is closed next."""

    def __enter__(self) -> Self:
        self.broker.__enter__()
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        self.configure_brokers(BROKER_CONFIG)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for other in self.others.values():
            other.__exit__(kind, error, trace)
        self.broker.__exit__(kind, error, trace)

    def another(self, name: str) -> BrokerProcess:
        """A second broker of the same program, not started, with a directory of its own."""
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        return PROGRAMS[self.program](directory)

    @property
    def ended(self) -> int | None:
        """The exit code of the broker, if it is not running any more."""
        return None if self.broker.process is None else self.broker.process.poll()

    def revive(self) -> None:
        """Start the broker again if it has ended. Raises BrokerProcessError."""
        if self.ended is not None:
            self.broker.process = None
            self.broker.start()

    @property
    def bootstrap_servers(self) -> str:
        return self.broker.bootstrap_servers

    @property
    def address(self) -> Address:
        return Address(HOST, self.broker.port)

    def keep_output(self, directory: Path) -> Path:
        """Copies what the broker has written so far to a file that outlives it."""
        target = directory / f"{self.letter}-{self.program}.log"
        if self.broker.output.exists():
            shutil.copyfile(self.broker.output, target)
        return target

    def cpu_seconds(self) -> float:
        return processes.cpu_seconds(self.broker.pid)

    def rss_bytes(self) -> int:
        return processes.rss_bytes(self.broker.pid)

    def create_topic(self, purpose: str, partitions: int, config: Mapping[str, str] | None = None) -> str:
        """A new topic whose leaders answer; its name. Raises SideError, confluent_kafka.KafkaException."""
        name = f"{purpose}-{uuid.uuid4().hex[:8]}"
        configs = {**TOPIC_CONFIG, **(config or {})}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=1, config=configs)
        self._admin.create_topics([topic])[name].result(ADMIN_TIMEOUT_S)
        deadline = time.monotonic() + LEADERS_TIMEOUT_S
        while any(error for error, _ in self._ends(name, partitions)):
            if time.monotonic() > deadline:
                raise SideError(f"{self.program}: {name} has no leaders after {LEADERS_TIMEOUT_S} s")
            time.sleep(0.02)
        return name

    def configure_topic(self, name: str, config: Mapping[str, str]) -> None:
        """Raises confluent_kafka.KafkaException."""
        self._configure(ConfigResource(ConfigResource.Type.TOPIC, name), config)

    def configure_brokers(self, config: Mapping[str, str]) -> None:
        """Raises confluent_kafka.KafkaException."""
        for node_id in self._admin.list_topics(timeout=ADMIN_TIMEOUT_S).brokers:
            self._configure(ConfigResource(ConfigResource.Type.BROKER, str(node_id)), config)

    def _configure(self, resource: ConfigResource, config: Mapping[str, str]) -> None:
        for name, value in config.items():
            resource.add_incremental_config(ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET))
        for future in self._admin.incremental_alter_configs([resource]).values():
            future.result(ADMIN_TIMEOUT_S)

    def delete_topic(self, name: str) -> None:
        """Raises confluent_kafka.KafkaException."""
        self._admin.delete_topics([name])[name].result(ADMIN_TIMEOUT_S)

    def deleted_logs(self) -> int:
        """How many logs of deleted topics are still on the disk, and may be open."""
        return sum(1 for _ in self.broker.data.glob("*-delete"))

    def record_count(self, topic: str, partitions: int) -> int:
        """How many records the topic got by its offsets, so that a round can prove it. Raises SideError."""
        ends = self._ends(topic, partitions)
        if any(error for error, _ in ends):
            raise SideError(f"{self.program}: the ends of {topic} are {ends}")
        return sum(offset for _, offset in ends)

    def _ends(self, topic: str, partitions: int) -> list[tuple[int, int]]:
        """Error code and end offset of each partition."""
        answer = ask(self.address, frames.latest_offsets(topic, partitions))
        return frames.answered_offsets(topic, partitions, answer)


def failure_text(side: Side, failure: Exception) -> str:
    """The failure in one line: where, what, and whether the broker is still there."""
    code = side.ended
    gone = "" if code is None else f" (the broker has ended with code {code})"
    words = " ".join(str(failure).split())
    return f"on {side.letter} ({side.program}){gone}: {type(failure).__name__}: {words[:MOST_FAILURE_TEXT]}"
