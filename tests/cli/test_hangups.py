"""SIGHUP: a terminal is closed, and what runs in it stops cleanly though nobody reads what it says."""

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from oracle.process import die_with_parent, free_port
from support.waiting import becomes

WAIT_S = 60
STARTED = "Kafka Server started"


def start(log: Path, *options: str, prepare: Callable[[], object] = int) -> subprocess.Popen[bytes]:
    """The command with its output in a file, once it has started."""

    def before() -> None:
        die_with_parent()
        heed_hangups()
        prepare()

    command = [sys.executable, "-m", "kpybroker", "start", "--http", "off", *options]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, preexec_fn=before)
    becomes(lambda: STARTED in log.read_text() or process.poll() is not None, expected=True, within_s=WAIT_S)
    return process


def heed_hangups() -> None:
    """Undo what ``nohup`` does: the process that runs these tests may ignore the signal, and children inherit that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def is_clean(data: Path) -> bool:
    return (data / ".kafka_cleanshutdown").exists()


def test_a_hangup_that_comes_twice_and_with_a_signal_to_stop_is_one_clean_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    process = start(tmp_path / "said", "--data", str(data), "--port", str(free_port()))
    try:
        for number in (signal.SIGHUP, signal.SIGHUP, signal.SIGTERM):
            process.send_signal(number)
        assert process.wait(WAIT_S) == 0
        assert is_clean(data)
    finally:
        process.kill()
        process.wait()


def test_a_hangup_that_was_ignored_at_the_start_stays_ignored(tmp_path: Path) -> None:
    data = tmp_path / "data"
    options = ("--data", str(data), "--port", str(free_port()))
    process = start(
        tmp_path / "said", *options, prepare=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)
    )  # as nohup does
    try:
        process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert is_clean(data)
    finally:
        process.kill()
        process.wait()


def in_a_terminal(*options: str) -> tuple[int, int]:
    """(process id, descriptor) of the command in a terminal of its own, once it serves."""
    pid, terminal = pty.fork()
    if pid == 0:
        die_with_parent()
        heed_hangups()
        os.execv(sys.executable, [sys.executable, "-m", "kpybroker", "start", "--http", "off", *options])
    reported = b""
    while b"In Spark" not in reported:
        reported += os.read(terminal, 10_000)
    return pid, terminal


def ended(pid: int) -> int:
    """The exit code of a process, which is waited for; negative for a signal."""
    found: list[int] = []

    def is_over() -> bool:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            found.append(os.waitstatus_to_exitcode(status))
        return bool(done)

    try:
        becomes(is_over, expected=True, within_s=WAIT_S)
    finally:
        if not found:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    return found[0]


def test_a_broker_whose_terminal_is_closed_stops_cleanly(tmp_path: Path) -> None:
    data = tmp_path / "data"
    pid, terminal = in_a_terminal("--data", str(data), "--port", str(free_port()))
    os.close(terminal)
    assert ended(pid) == 0
    assert is_clean(data)


@pytest.mark.slow
def test_a_cluster_whose_terminal_is_closed_stops_cleanly(tmp_path: Path) -> None:
    port = free_port()
    data = tmp_path / "c"
    quick = ("--override", "broker.heartbeat.interval.ms=500")
    pid, terminal = in_a_terminal("--brokers", "2", "--data", str(data), "--port", str(port), *quick)
    os.close(terminal)
    assert ended(pid) == 0
    places = {path.parent for path in data.rglob("meta.properties")}
    assert len(places) >= 2
    assert all(is_clean(place) for place in places)
