"""SIGKILL under load loses nothing that was acknowledged or read.

Three librdkafka producers write while the broker is killed at random moments, sometimes in the middle of its recovery,
and started again on what it left behind. Afterwards every acknowledged record lies where its acknowledgement said;
idempotent records lie there exactly once and in order, the others at least once; and whatever a consumer was shown
before a kill is still there after it. (The page cache survives the process: this is not about power cuts.)
"""

import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from conftest import StartBroker
from oracle import BrokerProcess
from support.clients import Confluent, Stored
from support.topics import create_topic
from support.waiting import eventually

PARTITIONS = 3
QUEUED_MAX = 3_000
PADDING = b"." * 300

WRITERS: Mapping[str, Mapping[str, Any]] = {
    "idempotent": {"acks": "all", "enable.idempotence": True},
    "acks-all": {"acks": "all", "enable.idempotence": False, "max.in.flight": 1, "compression.type": "lz4"},
    "acks-1": {"acks": "1", "enable.idempotence": False, "max.in.flight": 1},
}


class Writer(threading.Thread):
    """Writes numbered records to a topic until told to stop, and notes which offset each was acknowledged with."""

    def __init__(self, bootstrap_servers: str, topic: str, settings: Mapping[str, Any]) -> None:
        super().__init__(name=f"writer of {topic}", daemon=True)
        self.topic = topic
        self.acknowledged: dict[tuple[int, int], int] = {}
        self.errors: list[str] = []
        self.stopping = threading.Event()
        self.patience_s = 120.0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 2,
                "batch.num.messages": 100,
                "delivery.timeout.ms": 300_000,
                "socket.timeout.ms": 10_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "error_cb": self._note_fatal,
                "log_level": 0,
                **settings,
            }
        )

    def run(self) -> None:
        number = 0
        while not self.stopping.is_set():
            while len(self._producer) > QUEUED_MAX and not self.stopping.is_set():
                self._producer.poll(0.01)
            for partition in range(PARTITIONS):
                note = partial(self._note, number)
                self._producer.produce(self.topic, value=value_of(number), partition=partition, on_delivery=note)
            self._producer.poll(0)
            number += 1
        left = self._producer.flush(self.patience_s)
        if left:
            self.errors.append(f"{left} records were neither acknowledged nor refused")

    def _note(self, number: int, error: KafkaError | None, message: Any) -> None:
        if error is not None:
            self.errors.append(f"record {number}: {error}")
        else:
            self.acknowledged[message.partition(), number] = message.offset()

    def _note_fatal(self, error: KafkaError) -> None:
        if error.fatal():
            self.errors.append(f"fatal: {error}")


class Watcher(threading.Thread):
    """Reads a topic as it grows, and keeps everything it was shown, including what it was shown twice."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        super().__init__(name=f"watcher of {topic}", daemon=True)
        self.seen: list[Any] = []
        self.errors: list[str] = []
        self.stopping = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "assign-only",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def run(self) -> None:
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, 0.05):
                error = message.error()
                if error is None:
                    self.seen.append((message.partition(), message.offset(), message.value()))
                elif error.code() == KafkaError._AUTO_OFFSET_RESET:
                    self.errors.append(str(error))
        self._consumer.close()


def value_of(number: int) -> bytes:
    return b"%d %b" % (number, PADDING)


def number_of(record: Stored) -> int:
    return int((record.value or b"").split()[0])


@contextmanager
def writing(broker: BrokerProcess) -> Iterator[tuple[dict[str, Writer], Watcher]]:
    """All writers and a watcher at work; at the end the writers wait for their last acknowledgements."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for topic in WRITERS:
        create_topic(admin, topic, PARTITIONS, {"segment.bytes": str(1024 * 1024)})
    writers = {topic: Writer(broker.bootstrap_servers, topic, how) for topic, how in WRITERS.items()}
    watcher = Watcher(broker.bootstrap_servers, "idempotent")
    threads: list[Writer | Watcher] = [*writers.values(), watcher]
    for thread in threads:
        thread.start()
    try:
        yield writers, watcher
    except BaseException:
        for writer in writers.values():
            writer.patience_s = 0.0
        raise
    finally:
        for thread in threads:
            thread.stopping.set()
        for thread in threads:
            thread.join(150)


def all_reached(goals: list[tuple[Writer, int]]) -> bool:
    """Whether each writer has that many acknowledgements."""
    return all(len(writer.acknowledged) >= wanted for writer, wanted in goals)


def kill_and_restart(broker: BrokerProcess, rng: random.Random) -> None:
    """One end at a random moment, one in four a clean one; one in four is followed by a kill during the new start."""
    time.sleep(rng.uniform(0, 0.6))
    if rng.random() < 0.25:
        broker.stop()
    else:
        broker.kill()
    if rng.random() < 0.25:
        broker.launch()
        time.sleep(rng.uniform(0, 0.5))
        broker.kill()
    broker.start()


def check(topic: str, writer: Writer, records: list[Stored]) -> None:
    at = {(record.partition, record.offset): number_of(record) for record in records}
    lost = [
        f"record {number} of partition {partition} at offset {offset}, where {at.get((partition, offset))} is"
        for (partition, number), offset in writer.acknowledged.items()
        if at.get((partition, offset)) != number
    ]
    assert not lost, f"{topic}: {len(lost)} of {len(writer.acknowledged)} acknowledged are lost, such as {lost[:3]}"
    for partition in range(PARTITIONS):
        numbers = [number_of(record) for record in records if record.partition == partition]
        if topic == "idempotent":
            assert numbers == list(range(len(numbers))), f"partition {partition} has duplicates or gaps"
        else:
            assert list(dict.fromkeys(numbers)) == sorted(set(numbers)), f"partition {partition} is out of order"


def survive(broker: BrokerProcess, kills: int, seed: int) -> None:
    rng = random.Random(seed)
    with writing(broker) as (writers, watcher):
        for _ in range(kills):
            goals = [(writer, len(writer.acknowledged) + 500) for writer in writers.values()]
            eventually(partial(all_reached, goals), "every producer to get on after the restart", within_s=90)
            kill_and_restart(broker, rng)
    reader = Confluent(broker.bootstrap_servers)
    for topic, writer in writers.items():
        assert not writer.errors, writer.errors[:3]
        check(topic, writer, reader.read(topic, dict.fromkeys(range(PARTITIONS), 0)))
    everything = reader.read("idempotent", dict.fromkeys(range(PARTITIONS), 0))
    stored = {(record.partition, record.offset): record.value for record in everything}
    gone = [
        (partition, offset) for partition, offset, value in watcher.seen if stored.get((partition, offset)) != value
    ]
    assert not watcher.errors
    assert watcher.seen
    assert not gone, f"a consumer was shown records that are not there any more: {gone[:3]}"


def test_a_few_kills_lose_nothing(start_broker: StartBroker, request: pytest.FixtureRequest) -> None:
    survive(start_broker(), 4, request.config.getoption("--seed"))


@pytest.mark.slow
@pytest.mark.timeout(3_000)
def test_many_kills_lose_nothing(start_broker: StartBroker, request: pytest.FixtureRequest) -> None:
    survive(start_broker(), request.config.getoption("--kills"), request.config.getoption("--seed") + 1)
