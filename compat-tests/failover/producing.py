"""Producers that remember what was acknowledged, and when: one per client library, in threads of this process."""

import json
import subprocess
import tempfile
import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Producer

from failover.verdict import Place
from oracle.jars import jvm
from oracle.process import die_with_parent
from support.access import Access

PAD: Final = b"." * 80
FLUSH_TIMEOUT_S: Final = 120
RECORDS_A_TURN: Final = 50
JAVA_RECORDS_PER_S: Final = 3_000
JAVA_PREFIX: Final = "7"
"""Some thousands of records a second: the cluster is to be busy, not the measure of its speed."""


class Writer(ABC):
    """Writes to all partitions in turn until it is stopped, in a thread of its own."""

    def __init__(self, name: str, access: Access, topic: str, partitions: int) -> None:
        self.name, self.access, self.topic, self.partitions = name, access, topic, partitions
        self.acknowledged: dict[Place, list[int]] = defaultdict(list)
        self.times_s: list[float] = []
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.run, name=name)

    def start(self) -> None:
        self.thread.start()

    def stop(self) -> None:
        """Write no more, and wait for what is under way."""
        self.stopping.set()
        self.thread.join()

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return len(self.times_s)

    def note(self, partition: int, number: int, error: Any) -> None:
        """A record was acknowledged, or given up."""
        if error is None:
            self.acknowledged[self.name, partition].append(number)
            self.times_s.append(time.monotonic())
        else:
            self.failures.append(f"{self.name} {partition} {number}: {error}")

    @abstractmethod
    def run(self) -> None:
        """Write until `stopping` is set, and then until all is acknowledged or given up."""


class Sender(Writer):
    """One that sends record by record through a library of this process."""

    turn_s = 0.005
    """The pause between turns."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._next = [0] * self.partitions

    def run(self) -> None:
        try:
            while not self.stopping.is_set():
                for _ in range(RECORDS_A_TURN):
                    partition = sum(self._next) % self.partitions
                    number = self._next[partition]
                    if self.send(partition, number, b"%s:%d:%b" % (self.name.encode(), number, PAD)):
                        self._next[partition] = number + 1
                self.turn()
                time.sleep(self.turn_s)
            self.finish()
        except Exception as error:
            self.failures.append(repr(error))

    @abstractmethod
    def send(self, partition: int, number: int, value: bytes) -> bool:
        """Begin to send; False when there is no room for more."""

    @abstractmethod
    def turn(self) -> None:
        """Let what was sent go on."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for everything that was sent."""


class ConfluentWriter(Sender):
    """librdkafka, idempotent, with its defaults but for how long it tries."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._producer = Producer(
            {
                **self.access.librdkafka,
                "enable.idempotence": True,
                "delivery.timeout.ms": FLUSH_TIMEOUT_S * 1000,
                "queue.buffering.max.messages": 20_000,
            }
        )

    def send(self, partition: int, number: int, value: bytes) -> bool:
        def done(error: Any, _message: Any) -> None:
            self.note(partition, number, error)

        try:
            self._producer.produce(self.topic, value, partition=partition, on_delivery=done)
        except BufferError:
            return False
        return True

    def turn(self) -> None:
        self._producer.poll(0)

    def finish(self) -> None:
        left = self._producer.flush(FLUSH_TIMEOUT_S)
        if left:
            self.failures.append(f"{self.name}: {left} records neither acknowledged nor given up")


class KafkaPythonWriter(Sender):
    """kafka-python, idempotent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            **self.access.kafka_python,
            enable_idempotence=True,
            acks="all",
            delivery_timeout_ms=FLUSH_TIMEOUT_S * 1000,
            max_block_ms=FLUSH_TIMEOUT_S * 1000,
        )

    def send(self, partition: int, number: int, value: bytes) -> bool:
        future = self._producer.send(self.topic, value, partition=partition)
        future.add_callback(lambda _: self.note(partition, number, None))
        future.add_errback(lambda error: self.note(partition, number, error))
        return True

    def turn(self) -> None:
        pass

    def finish(self) -> None:
        self._producer.flush(FLUSH_TIMEOUT_S)
        self._producer.close()


class JavaWriter(Writer):
    """Kafka's VerifiableProducer, which sends increasing numbers to all partitions; idempotent, as is its default."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._directory = tempfile.TemporaryDirectory(prefix="failover-java-")
        config = Path(self._directory.name) / "producer.properties"
        config.write_text(
            f"retries=2147483647\nenable.idempotence=true\ndelivery.timeout.ms={FLUSH_TIMEOUT_S * 1000}\n"
            "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner\n" + self.access.java
        )
        tool = ["--bootstrap-server", self.access.servers, "--topic", self.topic, "--command-config", str(config)]
        tool += ["--throughput", str(JAVA_RECORDS_PER_S), "--value-prefix", JAVA_PREFIX]
        command = [*jvm(), "org.apache.kafka.tools.VerifiableProducer", *tool]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, preexec_fn=die_with_parent
        )

    def run(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            reported = json.loads(line)
            if reported["name"] == "producer_send_success":
                self.note(reported["partition"], int(reported["value"].partition(".")[2]), None)
            elif reported["name"] == "producer_send_error" and not self.stopping.is_set():
                self.failures.append(f"{self.name}: {reported.get('exception')}: {reported.get('message')}")

    def stop(self) -> None:
        self.stopping.set()
        self._process.terminate()  # what it has not sent by then it gives up
        super().stop()
        self._process.wait()
        self._directory.cleanup()


def written(value: bytes) -> tuple[str, int]:
    """The writer of a record, and its number."""
    if value.startswith(f"{JAVA_PREFIX}.".encode()):
        return "java", int(value.partition(b".")[2])
    name, number, _ = value.split(b":", 2)
    return name.decode(), int(number)


WRITERS: Final[dict[str, type[Writer]]] = {
    "confluent-kafka": ConfluentWriter,
    "kafka-python": KafkaPythonWriter,
    "java": JavaWriter,
}
