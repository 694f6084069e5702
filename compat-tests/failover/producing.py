"""Producers that remember what was acknowledged, and when: one per client library, in threads of this process."""

import threading
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Any, Final

from confluent_kafka import Producer

from failover.verdict import Place

PAD: Final = b"." * 80
FLUSH_TIMEOUT_S: Final = 120
RECORDS_A_TURN: Final = 50
TURN_S: Final = 0.005
"""Some thousands of records a second: the cluster is to be busy, not the measure of its speed."""


class Writer(ABC):
    """Writes to all partitions in turn until it is told to stop."""

    def __init__(self, name: str, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.name, self.bootstrap_servers, self.topic, self.partitions = name, bootstrap_servers, topic, partitions
        self.acknowledged: dict[Place, list[int]] = defaultdict(list)
        self.times_s: list[float] = []
        self.failures: list[str] = []
        self._next = [0] * partitions
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Write no more, and wait for what is under way."""
        self._stop.set()
        self._thread.join()

    @property
    def count(self) -> int:
        """How many records were acknowledged so far."""
        return len(self.times_s)

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                for _ in range(RECORDS_A_TURN):
                    partition = sum(self._next) % self.partitions
                    number = self._next[partition]
                    if self.send(partition, number, b"%s:%d:%b" % (self.name.encode(), number, PAD)):
                        self._next[partition] = number + 1
                self.turn()
                time.sleep(TURN_S)
            self.finish()
        except Exception as error:
            self.failures.append(repr(error))

    def note(self, partition: int, number: int, error: Any) -> None:
        """A record was acknowledged, or given up."""
        if error is None:
            self.acknowledged[self.name, partition].append(number)
            self.times_s.append(time.monotonic())
        else:
            self.failures.append(f"{self.name} {partition} {number}: {error}")

    @abstractmethod
    def send(self, partition: int, number: int, value: bytes) -> bool:
        """Begin to send; False when there is no room for more."""

    @abstractmethod
    def turn(self) -> None:
        """Let what was sent go on."""

    @abstractmethod
    def finish(self) -> None:
        """Wait for everything that was sent."""


class ConfluentWriter(Writer):
    """librdkafka, idempotent, with its defaults but for how long it tries."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._producer = Producer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "enable.idempotence": True,
                "delivery.timeout.ms": FLUSH_TIMEOUT_S * 1000,
                "queue.buffering.max.messages": 20_000,
                "log_level": 0,
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


class KafkaPythonWriter(Writer):
    """kafka-python, idempotent."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        from kafka import KafkaProducer

        self._producer = KafkaProducer(
            bootstrap_servers=self.bootstrap_servers.split(","),
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


WRITERS: Final[dict[str, type[Writer]]] = {"confluent-kafka": ConfluentWriter, "kafka-python": KafkaPythonWriter}
