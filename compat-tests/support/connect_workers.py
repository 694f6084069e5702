"""Workers of Kafka Connect, distributed, in JVMs of their own: for tests that start several and kill some."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import STDOUT, Popen
from typing import Any

from oracle import free_port
from oracle.jars import jvm
from oracle.process import HOST, die_with_parent

EXACTLY_ONCE = {"exactly_once_source_support": "enabled", "session_timeout_ms": "6000", "heartbeat_interval_ms": "1000"}
"""Settings for workers of an exactly-once cluster; a dead one is missed soon."""


class Worker:
    """A worker in a JVM of its own, spoken to over its REST port."""

    def __init__(
        self, directory: Path, bootstrap_servers: str, cluster: str, classes: Sequence[Path] = (), **configs: str
    ) -> None:
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
        command = [*jvm(*classes, heap="384m"), main, str(properties)]
        with open(self.output, "wb") as output:
            self.process = Popen(command, stdout=output, stderr=STDOUT, preexec_fn=die_with_parent)

    def ask(self, path: str, body: Any = None) -> Any:
        """The worker's answer; None while it does not answer, or not yet."""
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
def worker(
    directory: Path, bootstrap_servers: str, cluster: str, classes: Sequence[Path] = (), **configs: str
) -> Iterator[Worker]:
    """A worker that runs until the block ends or kills it; ``classes`` come before Kafka's on its class path."""
    started = Worker(directory, bootstrap_servers, cluster, classes, **configs)
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
