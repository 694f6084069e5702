"""The clients of a soak: each class is one kind of client in a thread of its own.

Moderate on purpose: the soak searches for growth, not speed. Each checks what it gets; the first thing that is wrong
goes to ``Troubles`` and is reported at the end.
"""

import random
import socket
import struct
import threading
import time
import uuid
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import TopicPartition as PythonTopicPartition

from benchmarks.raw import frames, many
from benchmarks.raw.asking import Address, Conversation

STEADY: Final = "steady"
PARTITIONS: Final = 6
STEADY_CONFIG: Final = {
    "segment.bytes": str(1 << 20),
    "retention.bytes": str(2 << 20),
    "file.delete.delay.ms": "1000",
}
RECORDS_PER_S: Final = 1200
VALUE_BYTES: Final = 1000
NUMBER: Final = struct.Struct(">q")
MOST_TROUBLES: Final = 20
ADMIN_TIMEOUT_S: Final = 30


class Troubles:
    """The failures, from any thread."""

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=MOST_TROUBLES)
        self.counted: dict[str, int] = {}

    def add(self, line: str) -> None:
        self.lines.append(line)

    def count(self, what: str, times: int = 1) -> None:
        """So much was done. Each name belongs to one thread."""
        self.counted[what] = self.counted.get(what, 0) + times


class Client(threading.Thread, ABC):
    """Does ``turn`` again and again until it is stopped."""

    pause_s = 0.0

    def __init__(self, address: Address, troubles: Troubles) -> None:
        super().__init__(name=type(self).__name__, daemon=True)
        self.address = address
        self.bootstrap = f"{address.host}:{address.port}"
        self.troubles = troubles
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            self.begin()
            while not self.stopping.is_set():
                self.turn()
                self.stopping.wait(self.pause_s)
            self.end()
        except Exception as error:
            self.troubles.add(f"{self.name}: {type(error).__name__}: {error}")

    def begin(self) -> None:
        """Before the first turn."""

    @abstractmethod
    def turn(self) -> None: ...

    def end(self) -> None:
        """After the last turn."""


class SteadyProducer(Client):
    """Idempotent, acks=all, numbers each partition's records from 0, compresses its batches."""

    pause_s = 0.02

    def begin(self) -> None:
        self._numbers = [0] * PARTITIONS
        self._rng = random.Random(1)
        self._rest = self._rng.randbytes(VALUE_BYTES - NUMBER.size)
        self._due_s = time.monotonic()
        self._producers = [
            Producer({"bootstrap.servers": self.bootstrap, "enable.idempotence": True, "compression.type": codec})
            for codec in ("none", "lz4", "zstd")
        ]

    def turn(self) -> None:
        now_s = time.monotonic()
        while self._due_s < now_s:
            self._due_s += 1 / RECORDS_PER_S
            index = self._rng.randrange(PARTITIONS)
            value = NUMBER.pack(self._numbers[index]) + self._rest
            producer = self._producers[index % len(self._producers)]
            producer.produce(STEADY, value, partition=index, on_delivery=self._delivered)
            self._numbers[index] += 1
        for producer in self._producers:
            producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self.troubles.add(f"a record was not acknowledged: {error}")
        else:
            self.troubles.count("produced")

    def end(self) -> None:
        for producer in self._producers:
            producer.flush(ADMIN_TIMEOUT_S)


class SteadyConsumer(Client):
    """Reads every partition from its start and checks that no number is missing, doubled or out of order."""

    def begin(self) -> None:
        self._next = [0] * PARTITIONS
        self._consumer = Consumer(
            {"bootstrap.servers": self.bootstrap, "group.id": "checker", "enable.auto.commit": False}
        )
        self._consumer.assign([TopicPartition(STEADY, index, 0) for index in range(PARTITIONS)])

    def turn(self) -> None:
        for message in self._consumer.consume(1000, 0.5):
            error, value, index = message.error(), message.value(), message.partition()
            if error is not None or value is None or index is None:
                self.troubles.add(f"the consumer got {error}")
                continue
            (number,) = NUMBER.unpack_from(value)
            if number != self._next[index]:
                self.troubles.add(f"partition {index} has record {number} where {self._next[index]} was due")
            self._next[index] = number + 1
            self.troubles.count("consumed")

    def end(self) -> None:
        self._consumer.close()


class Churn(Client):
    """Topics that come, are written and read by clients of their own, and go."""

    pause_s = 0.5
    topics, partitions, records = 3, 4, 40

    def begin(self) -> None:
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def turn(self) -> None:
        names = [f"churn-{uuid.uuid4().hex[:8]}" for _ in range(self.topics)]
        new = [NewTopic(name, self.partitions, 1, config={"file.delete.delay.ms": "1000"}) for name in names]
        for created in self._admin.create_topics(new).values():
            created.result(ADMIN_TIMEOUT_S)
        for name in names:
            self._write_and_read(name)
        for deleted in self._admin.delete_topics(names).values():
            deleted.result(ADMIN_TIMEOUT_S)
        self.troubles.count("topics", len(names))

    def _write_and_read(self, name: str) -> None:
        producer = KafkaProducer(bootstrap_servers=self.bootstrap)
        for number in range(self.records):
            producer.send(name, NUMBER.pack(number), partition=number % self.partitions)
        producer.flush(ADMIN_TIMEOUT_S)
        producer.close(ADMIN_TIMEOUT_S)
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, auto_offset_reset="earliest")
        consumer.assign([PythonTopicPartition(name, index) for index in range(self.partitions)])
        seen: list[int] = []
        deadline = time.monotonic() + ADMIN_TIMEOUT_S
        while len(seen) < self.records and time.monotonic() < deadline:
            for records in consumer.poll(timeout_ms=500).values():
                seen += [NUMBER.unpack(record.value)[0] for record in records]
        consumer.close()
        if sorted(seen) != list(range(self.records)):
            self.troubles.add(f"{name} gave {len(seen)} records for {self.records}")


class Visitors(Client):
    """Connections that come, ask what clients ask first, stay a while and go, some in the middle of a request."""

    pause_s = 0.2
    most_staying = 60

    def begin(self) -> None:
        self._rng = random.Random(2)
        self._staying: deque[Conversation] = deque()

    def turn(self) -> None:
        visitor = Conversation(self.address)
        visitor.ask(frames.api_versions())
        visitor.ask(many.client_metadata())
        self.troubles.count("connections")
        self._staying.append(visitor)
        while len(self._staying) > self.most_staying:
            self._staying.popleft().__exit__(None, None, None)
        with socket.create_connection(self.address) as rude:
            rude.sendall(many.client_metadata()[: self._rng.randrange(1, 20)])

    def end(self) -> None:
        while self._staying:
            self._staying.popleft().__exit__(None, None, None)


class Group(Client):
    """A consumer group whose members come and go and commit what they read."""

    most_members, stays_s = 3, 6.0

    def begin(self) -> None:
        self._members: deque[Consumer] = deque()
        self._joined_s = 0.0

    def turn(self) -> None:
        if time.monotonic() - self._joined_s > self.stays_s:
            self._joined_s = time.monotonic()
            if len(self._members) == self.most_members:
                self._members.popleft().close()
            self._members.append(self._member())
            self.troubles.count("members")
        for member in self._members:
            for message in member.consume(500, 0.1):
                error = message.error()
                if error is not None and error.fatal():
                    self.troubles.add(f"a member of the group got {error}")
                else:
                    self.troubles.count("consumed by the group")

    def _member(self) -> Consumer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "workers",
            "auto.commit.interval.ms": 1000,
            "auto.offset.reset": "latest",
            "session.timeout.ms": 10_000,
        }
        member = Consumer(settings)
        member.subscribe([STEADY])
        return member

    def end(self) -> None:
        for member in self._members:
            member.close()


CLIENTS: Final[tuple[Callable[[Address, Troubles], Client], ...]] = (
    SteadyProducer,
    SteadyConsumer,
    Churn,
    Visitors,
    Group,
)


def create_steady(address: Address) -> None:
    """The topic that records flow through all the time. Raises confluent_kafka.KafkaException."""
    admin = AdminClient({"bootstrap.servers": f"{address.host}:{address.port}"})
    admin.create_topics([NewTopic(STEADY, PARTITIONS, 1, config=STEADY_CONFIG)])[STEADY].result(ADMIN_TIMEOUT_S)
