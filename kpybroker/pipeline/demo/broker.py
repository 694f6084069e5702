"""A kpybroker of the demo's own: in a temporary directory, on a free port, ended with the demo."""

import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOST = "127.0.0.1"
START_TIMEOUT_S = 20.0
STOP_TIMEOUT_S = 10.0


class BrokerError(RuntimeError):
    """The broker did not start; the text ends with what it said."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])


def program() -> str:
    """The command ``kpybroker`` of this environment."""
    beside = Path(sys.executable).with_name("kpybroker")
    return str(beside) if beside.exists() else shutil.which("kpybroker") or "kpybroker"


@contextmanager
def running(directory: Path, http: str = "off") -> Iterator[str]:
    """The address of a broker that lives as long as the context; ``http`` is its second port. Raises BrokerError."""
    port = free_port()
    log = directory / "broker.log"
    command = [program(), "start", "--data", str(directory / "data"), "--listen", f"{HOST}:{port}", "--http", http]
    with open(log, "wb") as output:
        try:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        except OSError as error:
            raise BrokerError(f"cannot start {command[0]}: {error.strerror}") from None
    try:
        _wait_until_it_listens(process, port, log)
        yield f"{HOST}:{port}"
    finally:
        process.terminate()
        try:
            process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_it_listens(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        if process.poll() is not None or time.monotonic() > deadline:
            raise BrokerError(f"kpybroker does not start:\n{log.read_text(errors='replace').strip()}")
        try:
            socket.create_connection((HOST, port), timeout=1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
