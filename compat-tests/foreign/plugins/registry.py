"""A pytest plugin: Apicurio Registry in a child process, which keeps its schemas in topics of the broker under test.

The fixture is the registry itself, so that a test can stop it and start another one on the same topics.
"""

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from child_processes import die_with_parent

HOST = "127.0.0.1"
PATIENCE_S = 400.0


def free_port() -> int:
    with socket.socket() as candidate:
        candidate.bind((HOST, 0))
        return int(candidate.getsockname()[1])


class Registry:
    """One registry; ``url`` speaks Confluent's interface."""

    def __init__(self, home: Path, bootstrap_servers: str, log: Path) -> None:
        self.home, self.bootstrap_servers, self.log = home, bootstrap_servers, log
        self.port = free_port()
        self.url = f"http://{HOST}:{self.port}/apis/ccompat/v7"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait until it has read its topics and answers."""
        (jar,) = self.home.glob("*-runner.jar")
        environment = {
            **os.environ,
            "APICURIO_STORAGE_KIND": "kafkasql",
            "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": self.bootstrap_servers,
        }
        options = ("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
        listening = (f"-Dquarkus.http.host={HOST}", f"-Dquarkus.http.port={self.port}")
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                ["java", *options, *listening, "-jar", str(jar)],
                cwd=self.home,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the registry does not answer:\n{self.log.read_text(errors='replace')[-3_000:]}")
            time.sleep(0.1)

    def stop(self) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(PATIENCE_S)

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return False


@pytest.fixture(scope="session")
def registry(bootstrap_servers: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    started = Registry(
        Path(os.environ["FOREIGN_REGISTRY"]), bootstrap_servers, tmp_path_factory.mktemp("registry") / "log"
    )
    try:
        started.start()
        yield started
    finally:
        started.stop()
