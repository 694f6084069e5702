"""Kafka Connect, distributed: workers share connectors by a group of their own protocol, and one takes over another's.

Lines of a file become records of a topic, and those the lines of another file. Every line is there once, in order.
So is every number of a source that supports exactly-once, to a reader of committed records, though a worker is killed.
"""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from oracle import SMALL_JVM, classpath, compile_java, free_port
from oracle.jars import LOGGING
from oracle.process import HOST, die_with_parent
from topics import create_topic, delete_topics
from waiting import eventually

pytestmark = pytest.mark.java

JAVA = Path(__file__).resolve().parent / "java"
LINES = 500
NUMBERS = 2_500
TASKS = 2
EXACTLY_ONCE = {"exactly_once_source_support": "enabled", "session_timeout_ms": "6000", "heartbeat_interval_ms": "1000"}


class Worker:
    """A worker in a JVM of its own, spoken to over its REST port."""

    def __init__(self, directory: Path, bootstrap_servers: str, cluster: str, **configs: str) -> None:
        self.port = free_port()
        self.output = directory / f"worker-{self.port}.log"
        properties = directory / f"worker-{self.port}.properties"
        converter = "org.apache.kafka.connect.storage.StringConverter"
        stores = {name: f"{cluster}-{name}" for name in ("offset", "config", "status")}
        settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": cluster,
            "key.converter": converter,
            "value.converter": converter,
            **{f"{name}.storage.topic": topic for name, topic in stores.items()},
            **{f"{name}.storage.replication.factor": 1 for name in stores},
            "offset.storage.partitions": 2,
            "status.storage.partitions": 1,
            "offset.flush.interval.ms": 500,
            "scheduled.rebalance.max.delay.ms": 0,
            "listeners": f"http://{HOST}:{self.port}",
            "plugin.discovery": "service_load",
            **{key.replace("_", "."): value for key, value in configs.items()},
        }
        properties.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        ours = compile_java(JAVA / "CountingSource.java")
        command = ["java", *SMALL_JVM, LOGGING, "-cp", classpath(JAVA, ours), main, str(properties)]
        with open(self.output, "wb") as output:
            self.process = Popen(command, stdout=output, stderr=STDOUT, preexec_fn=die_with_parent)

    def ask(self, path: str, body: Any = None) -> Any:
        """What the worker answers; None while it does not, or not yet."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://{HOST}:{self.port}{path}", data, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)
        except (urllib.error.URLError, ConnectionError, json.JSONDecodeError):
            return None

    def tasks(self, connector: str) -> list[tuple[str, str]]:
        """State and worker of each of the connector's tasks."""
        status = self.ask(f"/connectors/{connector}/status")
        return [] if status is None else [(task["state"], task["worker_id"]) for task in status["tasks"]]

    def runs(self, connector: str, within: set[str]) -> bool:
        """Whether the connector's one task runs on one of these workers."""
        tasks = self.tasks(connector)
        return [state for state, _ in tasks] == ["RUNNING"] and tasks[0][1] in within

    @property
    def id(self) -> str:
        return f"{HOST}:{self.port}"


@contextmanager
def worker(directory: Path, bootstrap_servers: str, cluster: str, **configs: str) -> Iterator[Worker]:
    started = Worker(directory, bootstrap_servers, cluster, **configs)
    try:
        yield started
    except BaseException:
        print(started.output.read_text(errors="replace")[-4_000:])
        raise
    finally:
        started.process.terminate()
        started.process.wait(30)


def answers(each: Worker) -> bool:
    return each.ask("/connectors") is not None


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
    with ExitStack() as both:
        stays = both.enter_context(worker(tmp_path, bootstrap_servers, cluster))
        with worker(tmp_path, bootstrap_servers, cluster) as leaves:
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
    """What a reader of committed records finds in each task's partition, in order."""

    def __init__(self, bootstrap_servers: str, topic: str) -> None:
        self.numbers: dict[int, list[int]] = {task: [] for task in range(TASKS)}
        settings = {"bootstrap.servers": bootstrap_servers, "group.id": topic, "isolation.level": "read_committed"}
        self._consumer = Consumer({**settings, "enable.auto.commit": False})
        self._consumer.assign([TopicPartition(topic, task, 0) for task in range(TASKS)])

    def reaches(self, count: int) -> bool:
        """Whether every partition holds at least so many."""
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
    start = partial(worker, tmp_path, bootstrap_servers, cluster, **EXACTLY_ONCE)
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
