"""A cleaner is in nobody's way: it stands behind others, makes no long calls, and may lack something for a while."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kpystorage.compaction import __main__ as process
from kpystorage.compaction import pieces
from kpystorage.compaction.task import PassFailed
from kpystorage.disk import DescriptorsExhausted
from kpystorage.errors import CorruptRecord
from support.waiting import becomes

TIMEOUT_S = 60


class RecordedFile:
    """A file in memory that notes how much each call was about."""

    path = "recorded"

    def __init__(self, content: bytes = b"") -> None:
        self.content = bytearray(content)
        self.sizes: list[int] = []

    def pread(self, length: int, position: int) -> bytes:
        self.sizes.append(length)
        return bytes(self.content[position : position + length])

    def pwrite(self, data: bytes | bytearray | memoryview, position: int) -> None:
        self.sizes.append(len(data))
        self.content[position : position + len(data)] = data


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_a_cleaner_stands_behind_its_broker_in_a_session_of_its_own() -> None:
    command = [sys.executable, "-P", "-m", "kpystorage.compaction", str(os.getpid())]
    found = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": found},
        start_new_session=True,
    ) as cleaner:  # fmt: skip
        autogroup = Path(f"/proc/{cleaner.pid}/autogroup")
        by_session = autogroup.exists() and Path("/proc/sys/kernel/sched_autogroup_enabled").read_text().strip() == "1"

        def seen() -> tuple[bool, bool, bool]:
            is_nice = os.getpriority(os.PRIO_PROCESS, cleaner.pid) >= process.NICENESS
            is_batch = os.sched_getscheduler(cleaner.pid) == os.SCHED_BATCH
            is_weighed = not by_session or autogroup.read_text().split()[-1] == str(process.NICENESS)
            return is_nice, is_batch, is_weighed

        becomes(seen, (True, True, True), TIMEOUT_S)
        assert cleaner.stdin is not None
        cleaner.stdin.close()


def slice_ns_of(pid: int) -> int | None:
    """For how long the scheduler lets a process run at once; None where it does not tell, or does not let one ask."""
    path = Path(f"/proc/{pid}/sched")
    release = tuple(int(part) for part in os.uname().release.split(".", 2)[:2])
    if release < (6, 12) or not path.exists():
        return None
    notified = [line.rpartition(":")[2] for line in path.read_text().splitlines() if line.startswith("se.slice")]
    return int(notified[0]) if notified else None


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
def test_whoever_wakes_need_not_wait_until_a_cleaner_has_used_its_time_up() -> None:
    notified = (
        "from kpystorage.compaction import __main__ as process; process.stand_back(19); print(flush=True); input()"
    )
    found = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, "-P", "-c", notified], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": found}, start_new_session=True,
    ) as cleaner:  # fmt: skip
        assert cleaner.stdout is not None
        assert cleaner.stdout.readline() == b"\n"
        assert os.getpriority(os.PRIO_PROCESS, cleaner.pid) == 19
        assert os.sched_getscheduler(cleaner.pid) == os.SCHED_BATCH
        assert slice_ns_of(cleaner.pid) in (None, process.LONG_SLICE_NS)
        cleaner.communicate(b"\n")


def test_a_thread_with_much_work_pauses_longer_and_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(process, "stand_back", asked.append)
    pace = process.Pace(float("inf"))
    pace(process.MUCH_BYTES - 1)
    assert asked == []
    for _ in range(3):
        pace(process.MUCH_BYTES)
    assert asked == [process.NICENESS_OF_MUCH]


@pytest.mark.parametrize("size", [0, 1, pieces.PIECE_BYTES, pieces.PIECE_BYTES + 1, 5 * pieces.PIECE_BYTES + 7])
def test_reading_and_writing_in_small_pieces_gives_the_same_bytes(size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    written = RecordedFile(b"before")
    pieces.write(written, data, 6)  # type: ignore[arg-type]
    assert written.content == b"before" + data
    read = RecordedFile(b"before" + data)
    assert pieces.read(read, size, 6) == data  # type: ignore[arg-type]
    assert pieces.read(read, size + 100_000, 6) == data  # type: ignore[arg-type]
    assert max(written.sizes + read.sizes, default=0) <= pieces.PIECE_BYTES


@pytest.mark.parametrize(
    ("error", "may_pass"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (OSError(errno.ENOMEM, "Cannot allocate memory"), True),
        (DescriptorsExhausted(errno.EMFILE, "Too many open files"), True),
        (MemoryError(), True),
        (OSError(errno.EIO, "Input/output error"), False),
        (CorruptRecord("no whole batch"), False),
        (KeyError("a mistake of ours"), False),
    ],
)
def test_only_what_a_system_is_short_of_may_pass(error: Exception, may_pass: bool) -> None:
    assert PassFailed.of(error).may_pass == may_pass
