"""``kpybroker start --brokers``: one command, a whole cluster; what becomes of it is said in lines."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from threading import Thread
from urllib.request import urlopen

import pytest
from click.testing import CliRunner

from kpybroker.cli import main
from oracle import free_port
from support.waiting import eventually

WAIT_S = 60


class Started:
    """The command in a process, and what it says."""

    def __init__(self, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "kpybroker", "start", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            process_group=0,
        )
        self.printed: list[str] = []
        self._lines: Queue[str | None] = Queue()
        Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip())
        self._lines.put(None)

    def wait_for(self, pattern: str) -> str:
        while (line := self._lines.get(timeout=WAIT_S)) is not None:
            self.printed.append(line)
            if re.search(pattern, line):
                return line
        raise AssertionError(f"it never said {pattern}:\n" + "\n".join(self.printed))

    def end(self, number: int) -> int:
        self.process.send_signal(number)
        while (line := self._lines.get(timeout=WAIT_S)) is not None:
            self.printed.append(line)
        return self.process.wait(WAIT_S)

    def pid_of_node(self, node: int) -> int:
        for directory in Path("/proc").glob("[0-9]*"):
            command = (directory / "cmdline").read_bytes().decode().split("\0")
            parent = re.search(r"^PPid:\t(\d+)", (directory / "status").read_text(), re.MULTILINE)
            if parent and int(parent[1]) == self.process.pid and any(f"node-{node}/" in part for part in command):
                return int(directory.name)
        raise AssertionError(f"no process of node {node}")


@contextmanager
def started(*options: str) -> Iterator[Started]:
    running = Started(*options)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.wait()


def cli(*arguments: str, given: str = "") -> str:
    result = CliRunner().invoke(main, arguments, input=given)
    assert result.exit_code == 0, result.output
    return result.output


def first_finding(*server: str) -> str:
    found = json.loads(CliRunner().invoke(main, ["doctor", "--patience", "0", "--json", *server]).stdout)
    assert not [each for each in found if each["check"] == "replication factors"], "a broker that is away counts"
    message: str = found[0]["message"]
    return message


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_a_cluster_starts_survives_a_node_stops_and_starts_again(tmp_path: Path) -> None:
    port = free_port()
    options: tuple[str, ...] = (
        "--brokers",
        "3",
        "--data-dir",
        str(tmp_path / "c"),
        "--port",
        str(port),
        "--http",
        "off",
    )
    options = (*options, "--override", "broker.heartbeat.interval.ms=500")  # each stop takes that long
    server = ("--bootstrap-server", f"127.0.0.1:{port}")
    with started(*options) as cluster:
        addresses = ",".join(f"127.0.0.1:{port + number}" for number in range(3))
        cluster.wait_for(rf"^kpybroker: 3 brokers serve {addresses}, data in {tmp_path}/c$")
        assert sorted(line for line in cluster.printed if line.endswith("is ready")) == [
            f"kpybroker: node {number} is ready" for number in (1, 2, 3)
        ]
        cli("topics", "create", "kept", "--partitions", "3", *server)
        cli("produce", "kept", *server, given="before\n")
        os.kill(cluster.pid_of_node(2), signal.SIGKILL)
        ended = cluster.wait_for("^kpybroker: node 2 was ended by SIGKILL; the others go on. To start it again, in ")
        properties = tmp_path / "c" / "node-2" / "server.properties"
        assert ended.endswith(f" start {properties}"), "the command is there to be pasted"
        cli("produce", "kept", *server, given="after\n")
        eventually(lambda: first_finding(*server) == "broker 2 is registered and not alive", "the doctor names it")
        assert cluster.end(signal.SIGINT) == 1
        assert any(line == "kpybroker: stopping 2 nodes" for line in cluster.printed)
        assert sum("This node has stopped" in line for line in cluster.printed) == 2
        assert not any("Traceback" in line for line in cluster.printed)
    with started(*options) as cluster:
        cluster.wait_for("3 brokers serve")
        assert sorted(cli("consume", "kept", "-c", "2", *server).split()) == ["after", "before"]
        assert cluster.end(signal.SIGTERM) == 0


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_consoles_are_printed_in_order_link_to_each_other_and_a_node_starts_again_by_hand(tmp_path: Path) -> None:
    options = ("--brokers", "3", "--data-dir", str(tmp_path / "c"), "--port", str(free_port()))
    with started(*options) as cluster:
        cluster.wait_for("3 brokers serve")
        consoles = [cluster.wait_for(f"console of node {node}: ").rpartition(": ")[2] for node in (1, 2, 3)]
        ports = [int(each.rstrip("/").rpartition(":")[2]) for each in consoles]
        assert ports == sorted(ports)

        def nodes() -> list[tuple[str, str | None]]:
            with urlopen(f"{consoles[0]}api/cluster", timeout=WAIT_S) as answer:
                return [(each["state"], each["console"]) for each in json.load(answer)["nodes"]]

        linked = [("alive", None), ("alive", consoles[1]), ("alive", consoles[2])]
        eventually(lambda: nodes() == linked, "links to both others")
        again = cluster.wait_for("a node that has ended starts again, here node 3: ").rpartition(" start ")[2]
        os.kill(cluster.pid_of_node(3), signal.SIGKILL)
        cluster.wait_for("node 3 was ended by SIGKILL")
        eventually(lambda: nodes()[2] == ("fenced", None), "node 3 is away")
        with started(again) as node:
            node.wait_for("Kafka Server started")
            eventually(lambda: nodes()[2][0] == "alive" and nodes()[2][1], "node 3 is back, with a link")
            assert node.end(signal.SIGTERM) == 0


@pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")
def test_no_node_outlives_the_process_that_started_it(tmp_path: Path) -> None:
    port = str(free_port())
    http = ("--override", "kpybroker.http.listener=127.0.0.1:0")
    with started("--brokers", "1", "--data-dir", str(tmp_path), "--port", port, *http) as cluster:
        cluster.wait_for("1 broker serves")
        console = cluster.wait_for("console of node 1").removeprefix("  console of node 1: ")
        with urlopen(f"{console}api/cluster", timeout=WAIT_S) as answer:
            assert json.load(answer)["node_id"] == 1
        pid = cluster.pid_of_node(1)
        cluster.process.kill()
        cluster.process.wait()
        while Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes():
            os.sched_yield()


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (("--brokers", "0"), "Invalid value for '--brokers': 0 is not in the range x>=1."),
        (("--brokers", "3", "--port", "65000"), "there are not enough ports."),
        (("--brokers", "3", "--override", "listeners=PLAINTEXT://:1"), "--brokers decides about listeners itself."),
        (("--brokers", "3", "--listen", "here"), "here is not HOST:PORT"),
        (("--brokers", "3", "--listen", "here:1", "--port", "2"), "Give one of --listen and --port."),
        (("--brokers", "3", "--http", "127.0.0.1:1"), "With --brokers, --http can only be off"),
        (
            ("--brokers", "3", "--override", "log.segment.bytes=1"),
            "Invalid value 1 for configuration log.segment.bytes",
        ),
    ],
)
def test_impossible_options_are_refused_in_one_line(tmp_path: Path, options: tuple[str, ...], line: str) -> None:
    result = CliRunner().invoke(main, ["start", "--data", str(tmp_path / "c"), *options])
    assert result.exit_code != 0
    assert line in result.output
    assert "Traceback" not in result.output
    assert list(tmp_path.rglob("meta.properties")) == []
