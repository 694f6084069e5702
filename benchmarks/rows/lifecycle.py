"""Starting, stopping, and memory."""

import subprocess
import time

from benchmarks import processes
from benchmarks.figures import Figure
from benchmarks.raw import frames
from benchmarks.raw.asking import Address, ask
from benchmarks.rows.row import Effort, RoundError, Row
from benchmarks.sides import Side
from oracle import BrokerProcess

START = Figure("start to first answer", "ms", False)
IDLE_RSS = Figure("RSS idle", "MB", False)
STOP = Figure("clean stop", "ms", False)
LOADED_RSS = Figure("RSS loaded", "MB", False)
SETTLE_S = 2.0
START_TIMEOUT_S = 60.0
LOOK_EVERY_S = 0.002


class StartAndStop(Row):
    """A second broker on a directory that is formatted already: start, first ApiVersions answer, 2 s idle, SIGTERM."""

    key = "lifecycle"
    title = "start and stop"
    figures = (START, IDLE_RSS, STOP)
    warms_up = False
    expected_s = 60.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.brokers: dict[Side, BrokerProcess] = {}

    def open(self, side: Side) -> None:
        broker = self.brokers[side] = side.another("lifecycle")
        broker.prepare()
        start_ms(broker)
        broker.stop()

    def play(self, side: Side) -> dict[str, float]:
        broker = self.brokers[side]
        took_ms = start_ms(broker)
        time.sleep(SETTLE_S)
        idle_mb = processes.rss_bytes(broker.pid) / 1e6
        return {START.name: took_ms, IDLE_RSS.name: idle_mb, STOP.name: broker.stop() * 1000}

    def close(self, side: Side) -> None:
        broker = self.brokers.pop(side)
        if broker.process is not None:
            broker.kill()


class LoadedMemory(Row):
    """Memory of the broker that has just played the rows before."""

    key = "loaded-memory"
    title = "memory after the rows above"
    figures = (LOADED_RSS,)
    warms_up = False

    def play(self, side: Side) -> dict[str, float]:
        return {LOADED_RSS.name: side.rss_bytes() / 1e6}


def start_ms(broker: BrokerProcess, timeout_s: float = START_TIMEOUT_S) -> float:
    """Starts the program and looks every 2 ms whether it answers ApiVersions. Raises RoundError."""
    began = time.perf_counter()
    with open(broker.output, "ab") as output:
        broker.process = subprocess.Popen(
            broker.command(), stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
    while not answers(Address("127.0.0.1", broker.port)):
        if broker.process.poll() is not None or time.perf_counter() - began > timeout_s:
            raise RoundError(f"{broker.program} did not start{broker.tail()}")
        time.sleep(LOOK_EVERY_S)
    return (time.perf_counter() - began) * 1000


def answers(address: Address) -> bool:
    """Whether ApiVersions is answered."""
    try:
        ask(address, frames.api_versions())
    except OSError:
        return False
    return True
