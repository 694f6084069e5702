"""The kills of a run: each comes at a random moment after the query has gone on since the one before."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import pyspark
from confluent_kafka.admin import AdminClient

from oracle import BrokerProcess
from oracle.process import die_with_parent
from sink_kills.program import ROWS_PER_BATCH
from sink_kills.watcher import PARTITIONS, Watcher, faults
from support.spark_home import home_with_bytecode
from support.topics import create_topic
from support.waiting import eventually

TOPIC: Final = "numbers"
DRIVER, WORKER, BROKER = KINDS = ("driver", "worker", "broker")
GOES_ON_S: Final = 900.0
LATEST_S: Final = 4.0
"""The latest moment of a kill after the query has gone on."""
ENDS_S: Final = 600.0
PACKAGE: Final = Path(__file__).parents[1]
CHECKOUT: Final = PACKAGE.parent
PYSPARK: Final = Path(pyspark.__file__).parents[1]
"""The directory of the PySpark in use, which is not always the installed one (`spark_versions`)."""


class Verdict(NamedTuple):
    """The result of a run."""

    kills: Counter[str]
    rows: int
    faults: list[str]


class Driver:
    """The process of the query with its JVM and workers, which are a session of their own. They end when this process
    ends, however it ends: the driver is killed then, and the others read the end of their standard input."""

    def __init__(self, broker: BrokerProcess, directory: Path, way: str) -> None:
        self.over = directory / "over"
        self._command = [sys.executable, "-m", "sink_kills.program", broker.bootstrap_servers, TOPIC, str(directory)]
        self._command += [way, str(self.over)]
        self._output = directory / "driver.txt"
        self._start()

    def _start(self) -> None:
        path = os.pathsep.join(map(str, (PACKAGE, CHECKOUT / "wire", CHECKOUT / "storage", CHECKOUT, PYSPARK)))
        environment = {**os.environ, "PYTHONPATH": path, "PYSPARK_PYTHON": sys.executable}
        environment["SPARK_HOME"] = str(home_with_bytecode())
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                self._command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )
        self._session: int | None = self._process.pid

    def kill(self) -> None:
        """Kill the driver with all that it has started."""
        while members := self.members():
            for pid in members:
                _kill(pid)
            self._process.poll()
            time.sleep(0.01)
        self._process.wait()
        self._session = None

    def restart(self) -> None:
        self.kill()
        self._start()

    def kill_worker(self, rng: random.Random) -> bool:
        """Kill one of Spark's processes of Python: a task, the writing of a plan, or the commit of a micro-batch."""
        workers = [pid for pid in self.members() if _is_worker(command_of(pid))]
        if workers:
            _kill(rng.choice(workers))
        return bool(workers)

    def end(self) -> None:
        """Let it end by itself."""
        self.over.touch()
        try:
            self._process.wait(ENDS_S)
        finally:
            self.kill()

    def has_ended(self) -> bool:
        """Whether it has ended without being killed: an error that is no query's."""
        return self._process.poll() is not None

    def tail(self) -> str:
        return "\n".join(self._output.read_text(errors="replace").splitlines()[-15:])

    def members(self) -> list[int]:
        """The processes of the session: the driver, those that it has started, and those that they have."""
        return [] if self._session is None else processes_of(self._session)


def run(
    broker: BrokerProcess, directory: Path, kinds: Sequence[str], *, way: str, seed: int, limit_s: float | None = None
) -> Verdict:
    """Kill once for each of ``kinds``, unless the time is over. Raises TimeoutError if the query does not go on, and
    RuntimeError if its driver ends."""
    began_s = time.monotonic()
    rng = random.Random(seed)
    create_topic(AdminClient({"bootstrap.servers": broker.bootstrap_servers}), TOPIC, PARTITIONS)
    watcher = Watcher(broker.bootstrap_servers, TOPIC)
    driver = Driver(broker, directory, way)
    kills: Counter[str] = Counter()
    with watcher.watching():
        try:
            for kind in kinds:
                if limit_s is not None and time.monotonic() - began_s > limit_s:
                    break
                _wait_for_rows(watcher, driver)
                time.sleep(rng.uniform(0, LATEST_S))
                kills[kind] += _kill_one(kind, driver, broker, rng)
                print(f"{sum(kills.values())} kills, {len(watcher)} rows: {kind}", flush=True)
            _wait_for_rows(watcher, driver)
            driver.end()
        finally:
            driver.kill()
        _wait_for_quiet(watcher)
    return Verdict(kills, len(watcher), faults(watcher.values, ROWS_PER_BATCH))


def _kill_one(kind: str, driver: Driver, broker: BrokerProcess, rng: random.Random) -> int:
    if kind == DRIVER:
        driver.restart()
    elif kind == BROKER:
        broker.restart(kill=True)
    else:
        eventually(lambda: driver.kill_worker(rng), lambda: f"a worker to kill:\n{driver.tail()}", GOES_ON_S, 0.01)
    return 1


def _wait_for_rows(watcher: Watcher, driver: Driver) -> None:
    """Wait for rows of a micro-batch that is new."""
    before = len(watcher)

    def have_come() -> bool:
        if driver.has_ended():
            raise RuntimeError(f"the driver has ended:\n{driver.tail()}")
        return len(watcher) >= before + ROWS_PER_BATCH

    eventually(have_come, lambda: f"rows of a new micro-batch:\n{driver.tail()}", GOES_ON_S)


def _wait_for_quiet(watcher: Watcher) -> None:
    before = -1
    while before != len(watcher):
        before = len(watcher)
        time.sleep(3)


def processes_of(session: int) -> list[int]:
    """The processes of a session that have not ended."""
    everything = [entry for entry in Path("/proc").iterdir() if entry.name.isdecimal()]
    return sorted(int(entry.name) for entry in everything if _session_of(entry) == session)


def _session_of(process: Path) -> int | None:
    """The session of a process; None if it has ended."""
    try:
        state, _parent, _group, session = (process / "stat").read_text().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return None
    return None if state == "Z" else int(session)


def command_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


def _is_worker(command: str) -> bool:
    return "pyspark" in command and "java" not in command


def _kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
