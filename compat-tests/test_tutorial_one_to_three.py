"""docs/one-to-three.md is played: its commands run as they stand, and print what the page shows.

Numbers, ids and the names of the machine and the directory may differ. The commands differ in the address only: another
one of 127.0.0.0/8, so that the ports of the page are free.
"""

import os
import random
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "one-to-three.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```(?:\n\n```text\n(.*?)^```)?", re.MULTILINE | re.DOTALL)
"""A command, with what it prints where the page shows that."""
READS = ("grep ", "kpybroker cluster ", "kpybroker topics describe ")
"""Commands that a reader repeats until they show what the page shows."""
PORTS = [*range(9092, 9095), *range(9192, 9195), *range(9404, 9407)]
HOME = "/srv/three"
"""The directory of the page."""
PATIENCE_S = 60.0

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(sys.platform != "linux", reason="only Linux answers on every address of 127.0.0.0/8"),
]


@pytest.fixture
def address() -> str:
    """A loopback address where nobody listens on the page's ports."""
    chosen = f"127.{random.randrange(1, 255)}.{random.randrange(256)}.{random.randrange(1, 255)}"
    for port in PORTS:
        try:
            socket.create_server((chosen, port)).close()
        except OSError:
            pytest.skip(f"port {port} of the page is taken on all addresses")
    return chosen


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """The reader's empty directory. The nodes that were started there end with the test."""
    yield tmp_path
    for file in tmp_path.glob("*.pid"):
        with suppress(ProcessLookupError):
            os.kill(int(file.read_text()), signal.SIGKILL)


def masked(text: str) -> list[str]:
    """The lines without what differs each time: ids, numbers, the host's name, and the width of columns."""
    text = re.sub(r"(?<=\s)[\w-]{22}(?=\s)", "ID", text)
    text = re.sub(r"\b(?:leader|voter)\b", "ROLE", text)
    text = re.sub(r"[\d.]+ (?:[KM]iB|B)$", "SIZE", text, flags=re.MULTILINE)
    text = re.sub(r"(ADDRESS\s.*|\d:\d+) .*$", r"\1", text, flags=re.MULTILINE)
    return [" ".join(re.sub(r"-?\d+", "N", line).split()) for line in text.splitlines()]


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
        printed = process.communicate(timeout=PATIENCE_S)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return printed.replace(str(directory), HOME)


def roles(text: str) -> list[str]:
    return sorted(re.findall(r"\b(?:leader|voter|observer)\b", text))


def in_sync(text: str) -> list[int]:
    """The number of replicas in sync of each partition."""
    return [len(each.split(",")) for each in re.findall(r"^ +\d+ +\d+ +\S+ +(\S+)", text, re.MULTILINE)]


def agrees(shown: str, printed: str) -> bool:
    return (masked(shown), roles(shown), in_sync(shown)) == (masked(printed), roles(printed), in_sync(printed))


def test_the_page_is_played(address: str, directory: Path) -> None:
    played = 0
    for command, shown in BLOCK.findall(PAGE.read_text().replace("127.0.0.1", address)):
        printed = run(command, address, directory)
        deadline_s = time.monotonic() + PATIENCE_S
        while shown and command.startswith(READS) and not agrees(shown, printed) and time.monotonic() < deadline_s:
            time.sleep(0.5)
            printed = run(command, address, directory)
        assert not shown or agrees(shown, printed), f"{command}printed:\n{printed}\nand the page shows:\n{shown}"
        played += 1
    assert played > 12
