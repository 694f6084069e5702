"""The second port of a node that does not serve clients yet: a supervisor has no reason to kill it."""

import asyncio
import random
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.formatter import Formatting, format_directories
from kpybroker.machines.metadata.chosen_levels import choose_levels
from kpybroker.node.node import Node
from kpybroker.testing import Broker
from kpystorage.disk import Disk
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from oracle.process import free_port
from support.waiting import eventually

PATIENCE_S = 60
MARKS = (".kpybroker_session", ".kafka_cleanshutdown")
"""The files by which a data directory says how its last writer ended."""
CLUSTER_ID = "a3B5YnJva2VyLW9yYWNsZQ"
RECOVERS_FOR_EVER = """
import threading, kpybroker.node
from kpystorage.log import Log
Log.open = lambda self: threading.Event().wait()
from kpybroker.cli import main
main()
"""


class SlowDisk(RealDisk):
    """A disk on which one directory is read when that is `allowed`."""

    def __init__(self, slow: str) -> None:
        super().__init__(Descriptors(512))
        self.slow = slow
        self.asked, self.allowed = threading.Event(), threading.Event()

    def list_directory(self, path: str) -> list[str]:
        if path == self.slow:
            self.asked.set()
            assert self.allowed.wait(PATIENCE_S)
        return super().list_directory(path)


def get(port: int, path: str) -> tuple[int, str]:
    """Status and text; (0, "") if nobody listens."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=PATIENCE_S) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""


class StartingNode:
    """A node whose start is begun, in a thread; `stop` ends it whatever has become of that."""

    def __init__(self, settings: dict[str, str], disk: Disk) -> None:
        self.http_port = free_port()
        http = {"kpybroker.http.listener": f"127.0.0.1:{self.http_port}"}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        config = BrokerConfig.load(None, {"listeners": "PLAINTEXT://127.0.0.1:0", **http, **settings})
        self._node = Node(config, self._loop, print)
        self._start = asyncio.run_coroutine_threadsafe(self._node.start(disk), self._loop)

    def get(self, path: str) -> tuple[int, str]:
        return get(self.http_port, path)

    def finish(self) -> None:
        """Wait until it serves."""
        self._start.result(PATIENCE_S)

    def call_off(self) -> None:
        self._start.cancel()

    def stop(self) -> None:
        self.call_off()
        asyncio.run_coroutine_threadsafe(self._node.stop(), self._loop).result(PATIENCE_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(PATIENCE_S)
        self._loop.close()


@contextmanager
def starting(settings: dict[str, str], disk: Disk) -> Iterator[StartingNode]:
    node = StartingNode(settings, disk)
    try:
        yield node
    finally:
        node.stop()


@pytest.fixture
def after_a_loss_of_power(tmp_path: Path) -> Path:
    """A data directory with a topic, of which nobody can say how its last writer ended."""
    with Broker(directory=tmp_path) as broker:
        broker.create_topic("kept")
        broker.produce("kept", "a record")
    for mark in MARKS:
        (tmp_path / mark).unlink(missing_ok=True)
    return tmp_path


def test_a_node_that_recovers_is_alive_and_not_ready(after_a_loss_of_power: Path) -> None:
    disk = SlowDisk(str(after_a_loss_of_power / "kept-0"))
    with starting({"log.dirs": str(after_a_loss_of_power)}, disk) as node:
        try:
            assert disk.asked.wait(PATIENCE_S)
            assert node.get("live") == (200, "live\n")
            recovered = f"recovering {after_a_loss_of_power}: 1 of 2 logs are done\n"
            eventually(lambda: node.get("ready") == (503, f"not ready: {recovered}"), "how far the recovery is")
            assert node.get("metrics") == (503, f"no metrics yet: {recovered}")
        finally:
            disk.allowed.set()
        node.finish()
        assert node.get("ready") == (200, "ready\n")
        assert node.get("metrics")[0] == 200


def test_a_start_that_is_called_off_lets_go_of_its_directories(after_a_loss_of_power: Path) -> None:
    disk = SlowDisk(str(after_a_loss_of_power / "kept-0"))
    with starting({"log.dirs": str(after_a_loss_of_power)}, disk) as node:
        assert disk.asked.wait(PATIENCE_S)
        node.call_off()
        disk.allowed.set()
    with Broker(directory=after_a_loss_of_power) as broker:
        broker.assert_records("kept", ["a record"])


def test_a_broker_that_finds_no_controller_is_alive_and_not_ready_and_shows_what_it_knows(tmp_path: Path) -> None:
    settings = {
        "node.id": "1",
        "process.roles": "broker",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": f"2@127.0.0.1:{free_port()}",
        "log.dirs": str(tmp_path),
    }
    disk = RealDisk(Descriptors(512))
    levels = choose_levels(None, {}, dynamic_quorum=False)
    formatting = Formatting(CLUSTER_ID, 1, [str(tmp_path)], str(tmp_path), levels, None)
    format_directories(disk, formatting, random.Random(1), 1_700_000_000_000)
    with starting(settings, disk) as node:
        reason = (503, "not ready: catching up with the metadata\n")
        eventually(lambda: node.get("ready") == reason, "what it waits for")
        assert node.get("live") == (200, "live\n")
        status, text = node.get("metrics")
        assert status == 200
        assert "kafka_server_kafkaserver_brokerstate 1\n" in text


def test_a_signal_ends_a_recovery_at_once(after_a_loss_of_power: Path) -> None:
    port = free_port()
    options = ["--data", str(after_a_loss_of_power), "--port", str(free_port()), "--http", f"127.0.0.1:{port}"]
    process = subprocess.Popen([sys.executable, "-c", RECOVERS_FOR_EVER, "start", *options])
    try:
        eventually(lambda: get(port, "live")[0] == 200, "a process that lives", PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == -signal.SIGTERM
    finally:
        process.kill()
        process.wait()
