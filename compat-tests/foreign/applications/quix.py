"""Quix Streams with exactly-once processing: a transaction for each checkpoint, state in a changelog topic.

A reader of committed records must find each of its results once and in order, whatever becomes of its processes.
"""

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka.admin
import pytest
from child_processes import die_with_parent
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

COUNTER = Path(__file__).with_name("quix_counter.py")
KEYS = 10
PATIENCE_S = 120.0
requests: Any = confluent_kafka.admin

Counts = dict[str, list[tuple[int, int]]]
"""Each key's numbers and their counts, in the order of the sink."""


def write(bootstrap_servers: str, topic: str, first: int, last: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for number in range(first, last):
        producer.produce(topic, key=str(number % KEYS), value=json.dumps({"number": number}))
    assert producer.flush(PATIENCE_S) == 0


def expected(last: int) -> Counts:
    return {str(key): [(number, number // KEYS) for number in range(key, last, KEYS)] for key in range(KEYS)}


class Committed:
    """A reader of the sink's committed records."""

    def __init__(self, bootstrap_servers: str, topic: str, group: str) -> None:
        settings = {"auto.offset.reset": "earliest", "isolation.level": "read_committed"}
        self._consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": group, **settings})
        self._consumer.subscribe([topic])
        self.counts: Counts = defaultdict(list)
        self.records = 0

    def until(self, records: int) -> Counts:
        """All records that have been read, once there are enough."""
        while self.records < records:
            message = self._consumer.poll(PATIENCE_S)
            assert message is not None, f"{self.records} of {records} records came"
            assert message.error() is None
            value = json.loads(message.value() or b"")
            self.counts[(message.key() or b"").decode()].append((value["number"], value["count"]))
            self.records += 1
        return self.counts

    def nothing_more(self) -> bool:
        return self._consumer.poll(2.0) is None

    def close(self) -> None:
        self._consumer.close()


@pytest.fixture
def source(new_topic: Callable[[int], str]) -> str:
    return new_topic(4)


@pytest.fixture
def sink(new_topic: Callable[[int], str]) -> str:
    return new_topic(4)


@pytest.fixture
def committed(bootstrap_servers: str, sink: str, name: str) -> Iterator[Committed]:
    reader = Committed(bootstrap_servers, sink, f"{name}-reader")
    yield reader
    reader.close()


@pytest.fixture
def counter(
    bootstrap_servers: str, name: str, source: str, sink: str, tmp_path: Path
) -> Callable[[str], "subprocess.Popen[bytes]"]:
    """Starts an instance of the application whose state is in the directory of this name."""

    def start(state: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, str(COUNTER), bootstrap_servers, name, source, sink, str(tmp_path / state)]
        with open(tmp_path / f"{state}.log", "ab") as log:
            return subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, preexec_fn=die_with_parent
            )

    return start


@contextmanager
def ended(*instances: "subprocess.Popen[bytes]") -> Iterator[None]:
    try:
        yield
    finally:
        for instance in instances:
            instance.terminate()
        for instance in instances:
            try:
                instance.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                instance.send_signal(signal.SIGABRT)  # its log then shows what each thread was at
                raise


def test_an_instance_that_is_killed_and_loses_its_state_goes_on_where_it_was(
    bootstrap_servers: str, source: str, committed: Committed, counter: Callable[[str], "subprocess.Popen[bytes]"]
) -> None:
    write(bootstrap_servers, source, 0, 1_000)
    first = counter("first")
    committed.until(200)
    write(bootstrap_servers, source, 1_000, 3_000)
    committed.until(1_200)
    first.kill()
    first.wait(PATIENCE_S)
    second = counter("second")
    with ended(second):
        assert committed.until(3_000) == expected(3_000)
        assert committed.nothing_more()


def test_two_instances_share_the_partitions_and_one_takes_over_the_others(
    bootstrap_servers: str, source: str, committed: Committed, counter: Callable[[str], "subprocess.Popen[bytes]"]
) -> None:
    with ended(counter("first")):
        write(bootstrap_servers, source, 0, 500)
        committed.until(500)
        second = counter("second")
        with ended(second):
            write(bootstrap_servers, source, 500, 1_500)
            committed.until(1_500)
        write(bootstrap_servers, source, 1_500, 2_000)
        assert committed.until(2_000) == expected(2_000)
        assert committed.nothing_more()


def test_the_changelog_is_a_compacted_topic(
    bootstrap_servers: str,
    source: str,
    name: str,
    committed: Committed,
    counter: Callable[[str], "subprocess.Popen[bytes]"],
) -> None:
    write(bootstrap_servers, source, 0, 100)
    with ended(counter("first")):
        assert committed.until(100) == expected(100)
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    topics = admin.list_topics(timeout=PATIENCE_S).topics
    (changelog,) = (topic for topic in topics if topic.startswith(f"changelog__{name}"))
    assert len(topics[changelog].partitions) == 4
    resource = requests.ConfigResource(requests.ConfigResource.Type.TOPIC, changelog)
    configs = admin.describe_configs([resource])[resource].result(PATIENCE_S)
    assert configs["cleanup.policy"].value == "compact"
