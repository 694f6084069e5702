"""Kafka Connect, distributed: workers share connectors by a group of their own protocol, and one takes over another's.

Lines of a file become records of a topic, and those the lines of another file. Every line is there once, in order.
So is every number of a source that supports exactly-once, to a reader of committed records, though a worker is killed.
"""

import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from oracle import compile_java
from support.connect_workers import EXACTLY_ONCE, answers, worker
from support.topics import create_topic, delete_topics
from support.waiting import eventually

pytestmark = pytest.mark.java

JAVA = Path(__file__).resolve().parents[1] / "java"
LINES = 500
NUMBERS = 2_500
TASKS = 2


def lines_in(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().splitlines()] if path.exists() else []


def write_lines(path: Path, first: int, last: int) -> None:
    with open(path, "a") as file:
        file.writelines(f"{number}\n" for number in range(first, last))


@pytest.fixture
def cluster(bootstrap_servers: str) -> Iterator[str]:
    name = f"connect-{secrets.token_hex(4)}"
    yield name
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    delete_topics(admin, [topic for topic in admin.list_topics(timeout=30).topics if topic.startswith(name)])


def test_workers_share_connectors_and_take_over(tmp_path: Path, bootstrap_servers: str, cluster: str) -> None:
    source, sink = tmp_path / "source.txt", tmp_path / "sink.txt"
    write_lines(source, 0, LINES)
    of_files, topic = "org.apache.kafka.connect.file.FileStream", f"{cluster}-lines"
    connectors = {
        "source": {"connector.class": f"{of_files}SourceConnector", "file": str(source), "topic": topic},
        "sink": {"connector.class": f"{of_files}SinkConnector", "file": str(sink), "topics": topic},
    }
    classes = (compile_java(JAVA / "AppInfoParser.java"),)
    with ExitStack() as both:
        stays = both.enter_context(worker(tmp_path, bootstrap_servers, cluster, classes))
        with worker(tmp_path, bootstrap_servers, cluster, classes) as leaves:
            for each in (stays, leaves):
                eventually(partial(answers, each), "a worker that answers", 120)
            for name, config in connectors.items():
                made = {"name": name, "config": config}
                eventually(partial(stays.ask, "/connectors", made), f"the connector {name}", 60, 1)
            eventually(lambda: len(lines_in(sink)) >= LINES, "the lines in the other file", 60)
            known = {stays.id, leaves.id}
            eventually(lambda: all(stays.runs(name, known) for name in connectors), "both tasks", 60)
        write_lines(source, LINES, 2 * LINES)
        eventually(lambda: all(stays.runs(name, {stays.id}) for name in connectors), "the tasks on one worker", 90)
        eventually(lambda: len(lines_in(sink)) >= 2 * LINES, "the rest of the lines", 60)
    assert lines_in(sink) == list(range(2 * LINES))


class Committed:
    """The records that a reader of committed records finds in each task's partition, in order."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.numbers: dict[int, list[int]] = {task: [] for task in range(TASKS)}
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": topic, "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, task, 0) for task in range(TASKS)])

    def reaches(self, count: int) -> bool:
        """Whether every partition holds at least this number of records."""
        polled: list[Any] = self._consumer.consume(1_000, 0.2)
        for message in polled:
            if message.error() is None:
                self.numbers[message.partition()].append(int(message.value()))
        return all(len(numbers) >= count for numbers in self.numbers.values())

    def close(self) -> None:
        self._consumer.close()


def test_a_source_writes_exactly_once_though_its_worker_is_killed(
    tmp_path: Path, bootstrap_servers: str, cluster: str
) -> None:
    topic = f"{cluster}-numbers"
    create_topic(AdminClient({"bootstrap.servers": bootstrap_servers}), topic, TASKS)
    connector = {"connector.class": "CountingSource", "topic": topic, "numbers": NUMBERS, "tasks.max": TASKS}
    made = {"name": "numbers", "config": {**connector, "exactly.once.support": "required"}}
    classes = (JAVA, compile_java(JAVA / "CountingSource.java"))
    start = partial(worker, tmp_path, bootstrap_servers, cluster, classes, **EXACTLY_ONCE)
    with ExitStack() as stack:
        committed = Committed(bootstrap_servers, topic)
        stack.callback(committed.close)
        stays, dies = stack.enter_context(start()), stack.enter_context(start())
        for each in (stays, dies):
            eventually(partial(answers, each), "a worker that answers", 120)
        eventually(partial(stays.ask, "/connectors", made), "the connector", 60, 1)
        on_both = {("RUNNING", stays.id), ("RUNNING", dies.id)}
        eventually(lambda: set(stays.tasks("numbers")) == on_both, "a task on either worker", 90, 0.2)
        eventually(partial(committed.reaches, 50), "the first numbers", 60)
        dies.process.kill()
        assert not committed.reaches(NUMBERS), "the worker was killed too late to show anything"
        eventually(lambda: stays.tasks("numbers") == [("RUNNING", stays.id)] * TASKS, "both tasks on one", 120, 0.2)
        eventually(partial(committed.reaches, NUMBERS), "all numbers", 90)
        assert not committed.reaches(NUMBERS + 1)
    assert committed.numbers == {task: list(range(NUMBERS)) for task in range(TASKS)}
