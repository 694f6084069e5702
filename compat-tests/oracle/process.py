"""A broker as a child process: start it, wait until it answers, stop it, kill it, start it again.

It knows nothing of the program it runs, which its command line decides. It never outlives this process: the kernel
kills it when its parent dies.
"""

import contextlib
import ctypes
import os
import random
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Protocol, Self

HOST = "127.0.0.1"
PR_SET_PDEATHSIG = 1
API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)
METADATA_V1_NO_TOPICS = struct.pack(">hhihi", 3, 1, 2, -1, 0)


class BrokerProcessError(RuntimeError):
    """The broker ended, or did not answer in time; the text holds the end of what it wrote."""


_given: Final[deque[int]] = deque(maxlen=1000)
"""The last ports that this process has given away. Nobody may listen there yet."""


def free_port(rng: random.Random | None = None) -> int:
    """A TCP port nobody listens on, below the range the kernel gives to clients, and another one each time.

    A client that keeps connecting to a dead broker's port can be given that very port, and then talks to itself.
    """
    rng = rng or random.Random()
    while True:
        port = rng.randrange(15_000, 32_000)
        if port in _given:
            continue
        with socket.socket() as candidate, contextlib.suppress(OSError):
            candidate.bind((HOST, port))
            _given.append(port)
            return port


def has_ipv6_loopback() -> bool:
    """Whether ``::1`` can be listened on, also by who listens on IPv4 with the same socket."""
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return socket.has_dualstack_ipv6()
    except OSError:
        return False


class ChildProcess(Protocol):
    """The part of ``subprocess.Popen`` that is used here; a container can be one too."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class BrokerProcess(ABC):
    """One broker in a child process, used as a context manager; the directory it works in outlives its restarts."""

    program = "broker"
    start_timeout_s = 60.0
    stop_timeout_s = 30.0
    host = HOST
    is_broker = True
    """False for a node that is only a controller: it answers as soon as its port is open."""
    process_group: int | None = None
    """0 for a group of its own, which Ctrl-C in a terminal does not reach."""

    def __init__(self, directory: Path, port: int) -> None:
        self.directory = directory
        self.port = port
        self.process: ChildProcess | None = None

    @abstractmethod
    def command(self) -> Sequence[str]:
        """The command line that starts the broker on ``port`` with its data below ``directory``."""

    def prepare(self) -> None:  # noqa: B027  most programs need nothing
        """Do the work that comes once before the first start, such as formatting the directory."""

    @property
    def bootstrap_servers(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def data(self) -> Path:
        """The log directory: topic directories, checkpoints and ``__cluster_metadata-0``."""
        return self.directory / "data"

    @property
    def output(self) -> Path:
        """The file that holds everything the broker writes."""
        return self.directory / "output.log"

    @property
    def pid(self) -> int:
        return self._running().pid

    def start(self) -> None:
        """Start and return once the broker answers; raises BrokerProcessError with its last lines otherwise."""
        self.launch()
        self.wait_until_it_answers()

    def launch(self) -> None:
        """Start and return at once, whatever becomes of it."""
        if self.process is not None:
            raise RuntimeError(f"{self.program} runs already, as process {self.process.pid}")
        with open(self.output, "ab") as output:
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=as_installed(),
                preexec_fn=die_with_parent,
                process_group=self.process_group,
            )

    def stop(self) -> float:
        """Stop by SIGTERM, by SIGKILL where that does not help; the seconds it took."""
        process, began = self._running(), time.monotonic()
        process.terminate()
        try:
            wait_for_end(process, self.stop_timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise BrokerProcessError(
                f"{self.program} ignored SIGTERM for {self.stop_timeout_s} s{self.tail()}"
            ) from None
        self.process = None
        return time.monotonic() - began

    def kill(self) -> None:
        """SIGKILL: the broker gets no chance to say goodbye to its disk or its clients."""
        process = self._running()
        process.kill()
        process.wait()
        self.process = None

    def restart(self, *, kill: bool = False) -> None:
        """Stop (or kill) and start again on the same port and directory."""
        if kill:
            self.kill()
        else:
            self.stop()
        self.start()

    def pause(self) -> None:
        """SIGSTOP: the broker holds its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def tail(self, lines: int = 40) -> str:
        """The last lines the broker wrote, ready to be added to a message."""
        if not self.output.exists():
            return ""
        text = self.output.read_text(errors="replace").splitlines()
        return "".join(f"\n  | {line}" for line in text[-lines:])

    def __enter__(self) -> Self:
        self.directory.mkdir(parents=True, exist_ok=True)
        try:
            self.prepare()
            self.start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        """End the process in whatever state it is; quietly, since this also runs after a failure."""
        if self.process is None:
            return
        with contextlib.suppress(BrokerProcessError):
            self.process.send_signal(signal.SIGCONT)
            self.stop()

    def _running(self) -> ChildProcess:
        if self.process is None:
            raise RuntimeError(f"{self.program} is not running")
        return self.process

    @property
    def answers(self) -> bool:
        """Whether it answers at this moment."""
        return _answers(self.host, self.port) if self.is_broker else _listens(self.host, self.port)

    def wait_until_it_answers(self) -> None:
        """After `launch`; raises BrokerProcessError with its last lines if it ends, or does not answer in time."""
        process, deadline = self._running(), time.monotonic() + self.start_timeout_s
        while not self.answers:
            if process.poll() is not None:
                self.process = None
                raise BrokerProcessError(f"{self.program} ended with code {process.returncode}{self.tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerProcessError(f"{self.program} did not answer within {self.start_timeout_s} s{self.tail()}")
            time.sleep(0.02)


def wait_for_end(process: ChildProcess, timeout_s: float) -> None:
    """Wait for a process without the steps of ``Popen.wait``, which looks after 1, 3, 7, 15, 31 ms. Raises
    subprocess.TimeoutExpired."""
    if isinstance(process, subprocess.Popen) and hasattr(os, "pidfd_open") and process.poll() is None:
        descriptor = os.pidfd_open(process.pid)
        try:
            select.select([descriptor], [], [], timeout_s)
        finally:
            os.close(descriptor)
        timeout_s = 0.1 if process.poll() is None else timeout_s
    process.wait(timeout_s)


def as_installed() -> dict[str, str]:
    """The environment for a program that is not to find a checkout in place of what was installed."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def die_with_parent() -> None:
    """For a child before it runs its program: be killed when the parent dies, however it does (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _listens(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=5):
        return True
    return False


def _answers(host: str, port: int) -> bool:
    """Whether a broker at this address answers ApiVersions without an error and names itself in its metadata."""
    try:
        with socket.create_connection((host, port), timeout=5) as connection:
            versions = _ask(connection, API_VERSIONS_V0)
            metadata = _ask(connection, METADATA_V1_NO_TOPICS)
    except OSError:
        return False
    _, error_code = struct.unpack_from(">ih", versions)
    _, brokers = struct.unpack_from(">ii", metadata)
    return bool(error_code == 0 and brokers > 0)


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(struct.pack(">i", len(request)) + request)
    (size,) = struct.unpack(">i", _read(connection, 4))
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    received = bytearray()
    while len(received) < size:
        part = connection.recv(size - len(received))
        if not part:
            raise ConnectionError("the broker closed the connection")
        received += part
    return bytes(received)
