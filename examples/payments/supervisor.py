"""Programs that are killed and started again: the broker, the tills and Spark.

A program that ends with an error by itself is started again too, which is all the tills and Spark need to know about
errors. Nothing here is particular to payments.
"""

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

HOST = "127.0.0.1"
START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 20.0
LOG_LINES = 30


class Hopeless(RuntimeError):
    """A program does not get going, however often it is started; the text ends with what it wrote."""


class Program:
    """One program, with all processes that it starts, and a file with all it writes."""

    def __init__(
        self, name: str, command: Sequence[str], directory: Path, works: Callable[[], object] | None = None
    ) -> None:
        """``works`` gives something that changes when the program has done a piece of work."""
        self.name = name
        self.command = command
        self._works = works
        self._work_before: object = None
        self.log = directory / f"{name.replace(' ', '-')}.log"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """In a session of its own: a kill meets its children too, such as Spark's JVM."""
        self._work_before = self._works() if self._works else None
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )

    def send(self, number: signal.Signals) -> None:
        """To all of its processes; whatever does not end by SIGTERM is killed."""
        process = self._started()
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_TIMEOUT_S)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def restart(self, number: signal.Signals) -> None:
        self.send(number)
        self.start()

    @property
    def worth_a_blow(self) -> bool:
        """Whether it has done something since it was started, if it says so."""
        return self._works is None or self._works() != self._work_before

    @property
    def done(self) -> bool:
        """Whether it has come to its end."""
        return self._started().poll() == 0

    @property
    def failed(self) -> bool:
        """Whether it has ended with an error."""
        return self._started().poll() not in (None, 0)

    def tail(self) -> str:
        """The last lines it wrote."""
        lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
        return "".join(f"\n  | {line}" for line in lines)

    def stop(self) -> None:
        """End it if it runs."""
        if self.process is not None and self.process.poll() is None:
            self.send(signal.SIGTERM)

    def _started(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self.process


class Broker(Program):
    """A kpybroker on a free port, that has started when it answers."""

    def __init__(self, directory: Path) -> None:
        with socket.socket() as probe:
            probe.bind((HOST, 0))
            self.port = int(probe.getsockname()[1])
        beside = Path(sys.executable).with_name("kpybroker")
        program = str(beside) if beside.exists() else shutil.which("kpybroker") or "kpybroker"
        listen = ("--listen", self.address, "--http", "off")
        super().__init__("broker", [program, "start", "--data", str(directory / "data"), *listen], directory)

    @property
    def address(self) -> str:
        return f"{HOST}:{self.port}"

    def start(self) -> None:
        """Raises Hopeless."""
        super().start()
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                socket.create_connection((HOST, self.port), timeout=1).close()
            except OSError:
                if self.failed or time.monotonic() > deadline:
                    raise Hopeless(f"kpybroker does not start:{self.tail()}") from None
                time.sleep(0.02)
            else:
                return


class Blow(NamedTuple):
    """A blow to a program; SIGKILL gives it no chance to put anything in order."""

    after_s: float
    program: str
    signal: signal.Signals


class Chaos:
    """Blows at random moments: of the same seed as far as programs take the same time."""

    def __init__(self, programs: Sequence[Program], seed: int, mean_pause_s: float) -> None:
        self.programs = programs
        self._rng = random.Random(seed)
        self._mean_pause_s = mean_pause_s

    def rage(self, until: Callable[[], bool], within_s: float, notified: Callable[[Blow], None]) -> None:
        """Kill and restart until something holds, and at least every program once. Raises Hopeless."""
        began_s = time.monotonic()
        next_s = began_s + self._mean_pause_s
        waiting = list(self.programs)
        while not until() or waiting:
            now_s = time.monotonic()
            if now_s > began_s + within_s:
                raise Hopeless(f"no end in {within_s:.0f} s" + "".join(each.tail() for each in self.programs))
            for program in self.programs:
                if program.failed:
                    program.restart(signal.SIGKILL)
            worth = [each for each in self.programs if each.worth_a_blow]
            ready = [each for each in worth if each in waiting] or worth
            if now_s >= next_s and ready:
                chosen = self._rng.choice(ready)
                waiting = [each for each in waiting if each is not chosen]
                blow = Blow(now_s - began_s, chosen.name, self._rng.choice((signal.SIGKILL, signal.SIGTERM)))
                chosen.restart(blow.signal)
                notified(blow)
                next_s = time.monotonic() + self._rng.uniform(0.5, 1.5) * self._mean_pause_s
            time.sleep(0.1)
