"""Tutorials that tests play: their blocks of commands, an address where their ports are free, and a reader's shell."""

import os
import random
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from support.waiting import NotInTimeError, eventually

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```sh\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
"""A command, with what it prints where the page shows that."""
PATIENCE_S = 60.0
TRIES = 20


def free_host(ports: Iterable[int]) -> str | None:
    """An address of 127.0.0.0/8 where nobody listens on these ports; None if they are taken on all addresses."""
    for _ in range(TRIES):
        chosen = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
        with suppress(OSError):
            for port in ports:
                socket.create_server((chosen, port)).close()
            return chosen
    return None


@contextmanager
def nodes_in(directory: Path) -> Iterator[Path]:
    """The reader's directory. The nodes that were started there end with the block."""
    try:
        yield directory
    finally:
        for file in directory.glob("*.pid"):
            with suppress(ProcessLookupError):
                os.kill(int(file.read_text()), signal.SIGKILL)


def run(command: str, address: str, directory: Path) -> str:
    """All that a command prints."""
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "KPYBROKER_BOOTSTRAP_SERVER": f"{address}:9092",
    }
    process = subprocess.Popen(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        return process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise


def printed_by(look: Callable[[], str], agrees: Callable[[str], bool], *, is_repeated: bool) -> str:
    """The output of a command; of one that a reader repeats, the first that agrees with the page, if any does."""
    printed = [look()]

    def is_right() -> bool:
        printed.append(look())
        return agrees(printed[-1])

    if is_repeated and not agrees(printed[0]):
        with suppress(NotInTimeError):
            eventually(is_right, every_s=0.5)
    return printed[-1]
