"""A broker as a process that can be killed and started again on the same port, and commands that talk to it."""

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from oracle import free_port
from support.waiting import eventually

PATIENCE_S = 60.0


class KillableBroker:
    """``kpybroker start`` with its data in a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.http_port = free_port(), free_port()
        self.server = f"127.0.0.1:{self.port}"
        self.http = f"127.0.0.1:{self.http_port}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> Self:
        words = ["--port", str(self.port), "--data", str(self.directory / "data"), "--http", self.http]
        with open(self.directory / "broker.log", "ab") as log:
            command = [sys.executable, "-m", "kpybroker", "start", *words]
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        eventually(self._answers, lambda: f"its port, and it logged {self.log_text()}", PATIENCE_S)
        return self

    def _answers(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log_text()
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True

    def log_text(self) -> str:
        return (self.directory / "broker.log").read_text()

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE_S)
            self.process = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


class Command:
    """A command that runs, with what it has said so far."""

    def __init__(self, server: str, *words: str) -> None:
        command = [sys.executable, "-m", "kpybroker", *words, "-b", server]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.out: list[str] = []
        self.err: list[str] = []
        self._threads = [
            threading.Thread(target=self._read, args=pair)
            for pair in ((self.process.stdout, self.out), (self.process.stderr, self.err))
        ]
        for thread in self._threads:
            thread.start()

    @staticmethod
    def _read(stream: IO[bytes], lines: list[str]) -> None:
        lines.extend(line.decode().rstrip("\n") for line in stream)

    def write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def has(self, lines: list[str], part: str, times: int = 1) -> None:
        """Wait until this stands in enough of the lines."""
        eventually(
            lambda: sum(part in line for line in list(lines)) >= times,
            lambda: f"{part!r} in {lines}, beside {self.out} and {self.err}",
            PATIENCE_S,
        )

    def end(self, number: int | None = None) -> int:
        """Close its input, or send a signal; its exit code."""
        assert self.process.stdin is not None
        if number is not None:
            self.process.send_signal(number)
        else:
            self.process.stdin.close()
        code = self.process.wait(PATIENCE_S)
        for thread in self._threads:
            thread.join(PATIENCE_S)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert stream is not None
            stream.close()
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.end(signal.SIGKILL)
