"""Starts that are refused, and a disk that fills up: one line says what, where and how to mend it; nothing is left.

What the lines must not hold: numbers of errors, tracebacks, a directory that was formatted for nothing.
"""

import asyncio
import errno
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random

import pytest
from faulty_broker import FaultyBroker, create, produce
from small_disk import mounted

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.node.assembly.storage import StoredNode, open_storage
from kpybroker.node.local_cluster.layout import CONTROLLERS_OF_MANY, PORTS_BETWEEN
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpystorage.disk import Disk
from kpystorage.disk_errors import in_words
from kpystorage.errors import DiskFailure
from kpystorage.memory_disk import MemoryDisk
from kpystorage.sim_disk import SimDisk
from support.waiting import becomes

SMALL_BYTES = 3 << 20
ERRORS = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.ENOTDIR, errno.ENOENT, errno.EIO)
FULL = "No space left on device; the disk is full: make room on it, then start this node again"
FILE_IN_PLACE = "a file is where a directory should be: move it away, or name another directory"
READ_ONLY = "let it be mounted for writing, or name another directory"


@pytest.fixture
def small(tmp_path: Path) -> Iterator[tuple[Path, list[str]]]:
    """(a small disk, the prefix of a command that sees it)."""
    with mounted(tmp_path / "small", SMALL_BYTES) as prefix:
        yield tmp_path / "small", prefix


def start(*options: str, prefix: Sequence[str] = ()) -> str:
    """The last line of a start that is refused."""
    command = [*prefix, sys.executable, "-m", "kpybroker", "start", *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1, done.stdout
    lines = [line for line in done.stderr.splitlines() if "has little room" not in line]
    assert len(lines) == 1, done.stderr
    assert "[Errno" not in lines[0]
    return lines[0]


def alone(directory: Path, port: int = 0) -> list[str]:
    return ["--data", str(directory), "--listen", f"127.0.0.1:{port}", "--http", "off"]


def several(directory: Path, port: int = 0) -> list[str]:
    return ["--brokers", "2", "--data", str(directory), "--port", str(port or free_ports()), "--http", "off"]


def free_ports() -> int:
    """The first of the ports that a cluster would take, as far as one look can say. All are below the range that the
    system gives to clients."""
    rng = Random()
    while True:
        first = rng.randrange(15_000, 31_000)
        of_controllers = range(first + PORTS_BETWEEN, first + PORTS_BETWEEN + CONTROLLERS_OF_MANY)
        if all(map(is_free, (first, first + 1, *of_controllers))):
            return first


def is_free(port: int) -> bool:
    """Whether no process listens on a port."""
    with socket.socket() as sock:
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


@pytest.mark.parametrize("options", [alone, several])
@pytest.mark.parametrize("name", ["file", "file/below"])
def test_a_file_where_a_directory_should_be_is_one_line(
    tmp_path: Path, options: Callable[[Path], list[str]], name: str
) -> None:
    (tmp_path / "file").write_text("no directory")
    line = start(*options(tmp_path / name))
    assert line.startswith("kpybroker: ")
    assert f"{tmp_path / name} cannot be used: Not a directory (" in line
    assert line.endswith(FILE_IN_PLACE)


def test_a_file_system_that_is_read_only_is_one_line(small: tuple[Path, list[str]]) -> None:
    directory, prefix = small
    formatting = ["format", "--override", f"log.dirs={directory}/formatted", "--standalone"]
    subprocess.run([*prefix, sys.executable, "-m", "kpybroker", *formatting], check=True, capture_output=True)
    subprocess.run([*prefix, "mkdir", str(directory / "empty")], check=True)
    subprocess.run([*prefix, "mount", "-o", "remount,ro", str(directory)], check=True)
    for name in ("formatted", "empty", "missing"):
        line = start(*alone(directory / name), prefix=prefix)
        assert f"log directory {directory / name} " in line
        assert ": Read-only file system (" in line
        assert line.endswith(READ_ONLY)
    assert f"{directory / 'cluster'} cannot be used: Read-only" in start(*several(directory / "cluster"), prefix=prefix)


def test_a_full_disk_is_one_line_and_the_start_works_once_there_is_room(
    tmp_path: Path, small: tuple[Path, list[str]]
) -> None:
    directory, prefix = small
    fill = f"mkdir {directory}/empty; cat /dev/zero > {directory}/fill; true"
    subprocess.run([*prefix, "sh", "-c", fill], check=True, capture_output=True)
    assert start(*alone(directory / "empty"), prefix=prefix).endswith(f"{directory}/empty cannot be used: {FULL}")
    subprocess.run([*prefix, "rm", str(directory / "fill")], check=True)
    with FaultyBroker(tmp_path, {"log.dirs": str(directory / "empty")}, prefix) as broker, broker.connect() as client:
        create(client, "works", directory / "empty")
        assert produce(client, "works", b"1") == 0
        assert "has little room: 3.0 of 3.0 MiB are free" in broker.log_text()


def test_the_last_line_of_a_node_with_a_full_disk_names_the_full_disk(
    tmp_path: Path, small: tuple[Path, list[str]]
) -> None:
    directory, prefix = small
    with FaultyBroker(tmp_path, {"log.dirs": str(directory / "data")}, prefix) as broker:
        with broker.connect() as client:
            create(client, "full", directory / "data")
            for _ in range(2 * SMALL_BYTES // 50_000):
                if produce(client, "full", os.urandom(50_000)):
                    break
        becomes(lambda: broker.log_text().splitlines()[-1].startswith("kpybroker: "), expected=True)
        last = broker.log_text().splitlines()[-1]
        assert f"log directory {directory / 'data'} is offline: {FULL}" in last
        assert "[Errno" not in broker.log_text()


@pytest.mark.parametrize("which", ["--listen", "--http"])
def test_a_port_that_is_taken_names_its_option_and_nothing_is_formatted(tmp_path: Path, which: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = {"--listen": "127.0.0.1:0", "--http": "off", which: address}
        line = start("--data", str(tmp_path / "data"), *(word for option in options.items() for word in option))
    assert f"{address}: Address already in use; {which} HOST:PORT names another address" in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("offset", [0, 1, 1_000])
def test_no_node_of_a_cluster_is_formatted_where_one_finds_its_port_taken(tmp_path: Path, offset: int) -> None:
    first = free_ports()
    with socket.create_server(("127.0.0.1", first + offset)):
        line = start(*several(tmp_path / "cluster", first))
    assert f"127.0.0.1:{first + offset}: Address already in use; --listen HOST:PORT names" in line
    assert not (tmp_path / "cluster").exists()


def opened(disk: Disk) -> StoredNode:
    async def open_it() -> StoredNode:
        scheduler = LoopScheduler(asyncio.get_running_loop())
        try:
            return await open_storage(BrokerConfig({"log.dirs": "/data"}), disk, Random(1), scheduler)
        finally:
            await scheduler.close()

    return asyncio.run(open_it())


def why_refused(disk: Disk) -> str | None:
    try:
        opened(disk).abandon()
    except (StartRefused, DiskFailure) as refusal:
        return str(refusal)
    return None


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
def test_a_failed_start_names_the_directory_and_no_errno(number: int) -> None:
    refused = 0
    for call in range(1, 1_000):
        disk = SimDisk(Random(call))
        disk.failure = lambda: OSError(number, os.strerror(number))
        disk.fail_at = call
        refusal = why_refused(disk)
        if refusal is not None:
            assert "/data " in refusal
            assert in_words(disk.failure()) in refusal
            refused += 1
        if disk.calls < call:
            break
    assert refused > 10
    assert "[Errno" not in in_words(disk.failure())
    assert ";" in in_words(disk.failure())


@pytest.mark.parametrize(
    ("free_bytes", "total_bytes", "warns"),
    [
        (63 << 20, 100 << 20, True),
        (65 << 20, 100 << 20, False),
        (2 << 30, 100 << 30, True),
        (4 << 30, 100 << 30, False),
        (11 << 30, 4 << 40, False),
        (9 << 30, 4 << 40, True),
        (0, 0, False),
    ],
)
def test_a_disk_with_little_room_is_a_warning_that_says_how_much(
    caplog: pytest.LogCaptureFixture, free_bytes: int, total_bytes: int, warns: bool
) -> None:
    class Measured(MemoryDisk):
        def free_bytes(self, path: str) -> int:
            return free_bytes if path == "/data" else 1 << 60

        def total_bytes(self, path: str) -> int:
            return total_bytes if path == "/data" else 1 << 60

    opened(Measured()).abandon()
    log_text = f"directory /data has little room: {free_bytes / 2**20:.1f} of {total_bytes / 2**20:.1f} MiB are free."
    assert ("has little room" in caplog.text, log_text in caplog.text) == (warns, warns)
