"""A node in a process of its own: ``python -m kpybroker start``, with its output passed on line by line.

The child ends cleanly when its standard input ends, so it never outlives the process that started it, however that one
ended. It is in a process group of its own: Ctrl-C in a terminal is for its parent.
"""

import importlib.util
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Final

CONSOLE: Final = "console: "
"""The beginning of the line with the address of a node's console, before `READY`."""
READY: Final = "Kafka Server started"
"""The line that a node prints once it serves clients."""
_PACKAGES = ("kpybroker", "kpywire", "kpystorage")


class Child:
    """A node's process. ``report`` is called with its lines and ``ended`` with its exit code, both in a thread."""

    def __init__(
        self,
        properties: Path,
        report: Callable[[str], object],
        ended: Callable[[int], object],
        options: Sequence[str] = (),
    ) -> None:
        """Prepare the process. ``options`` are further options of ``kpybroker start``."""
        self._command = [sys.executable, "-P", "-m", "kpybroker", "start", str(properties), "--member", *options]
        self._report = report
        self._ended = ended
        self._process: subprocess.Popen[str] | None = None
        self._reader: Thread | None = None

    @property
    def pid(self) -> int:
        """The id of the process that was started last."""
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists, even if it is stopped."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process. Its output shows whether it comes up."""
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONPATH": python_path(), "PYTHONUNBUFFERED": "1"},
            text=True,
            encoding="utf-8",
            errors="replace",
            process_group=0,
        )
        self._reader = Thread(target=self._read, args=(self._process,), name="kpybroker-child", daemon=True)
        self._reader.start()

    def signal(self, number: int) -> None:
        """Send a signal. Nothing happens if the process is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait. Return whether the process is gone within that time, and all of its output was passed on."""
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return True
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return False
        reader.join(timeout_s)
        return True

    def end(self, timeout_s: float) -> None:
        """Stop the process cleanly, or by force when that takes longer than the timeout."""
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        if not self.wait(timeout_s):
            self.signal(signal.SIGKILL)
            self.wait()

    def _read(self, process: subprocess.Popen[str]) -> None:
        output: IO[str] | None = process.stdout
        assert output is not None
        with output:
            for line in output:
                self._report(line.rstrip("\n"))
        code = process.wait()
        if process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()
        self._ended(code)


def fate(code: int) -> str:
    """The way a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        return f"was ended by {signal.Signals(-code).name}"
    return f"was ended by signal {-code}"


def python_path(environment: Mapping[str, str] = os.environ) -> str:
    """The path of this project's packages, before that of the environment: the child finds them, however this process
    did."""
    places = []
    for name in _PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            places.append(str(Path(spec.origin).parent.parent))
    return os.pathsep.join(dict.fromkeys([*places, *filter(None, [environment.get("PYTHONPATH")])]))
