"""The process that compacts logs for a broker: ``python -m kpystorage.compaction PARENT MODES``, tasks and answers by
pipe.

A frame is a length (u32) and a pickle. In come (LogToClean, CleanerConfig, now_ms); out go CleanedSegments as they are
complete, then Cleaned or Failed. The pipe leads only to the process that started this one.

Invariant: it does not outlive its parent, not even by one write. The next process that opens the log directory has it
to itself.
"""

import os
import pickle
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from struct import Struct
from threading import Thread
from time import monotonic, sleep
from typing import BinaryIO

from kpystorage.compaction.task import CleanerConfig, LogToClean, PassFailed
from kpystorage.disk import Disk

LENGTH = Struct(">I")
NICENESS = 10
NICENESS_OF_MUCH = 19
MUCH_BYTES = 64 << 20
LONG_SLICE_NS = 100_000_000
"""A scheduler slice longer than that of any other process: a process that wakes has a shorter one, and need not wait
until this one is used up."""
AUTOGROUP = "/proc/self/autogroup"
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
"""The number of the system call. The C library got a function for it only recently."""
_SCHED_ATTR = Struct("=IIQiIQQQ")
"""size, policy, flags, nice, priority, runtime, deadline, period (sched_setattr(2), its first version)."""
_PR_SET_PDEATHSIG = 1
_SHORTEST_SLEEP_S = 0.02


class Pace:
    """Keeps reading and writing below a rate, measured over the time since it was made. The more is done, the longer it
    waits."""

    def __init__(self, bytes_per_second: float) -> None:
        self._bytes_per_second = bytes_per_second
        self._bytes = 0
        self._since = monotonic()

    def __call__(self, size_bytes: int) -> None:
        """Wait until ``size_bytes`` more bytes may have been read or written."""
        if self._bytes < MUCH_BYTES <= self._bytes + size_bytes:
            stand_back(NICENESS_OF_MUCH)
        self._bytes += size_bytes
        ahead_s = self._bytes / self._bytes_per_second - (monotonic() - self._since)
        if ahead_s >= _SHORTEST_SLEEP_S:
            sleep(ahead_s)


def send(pipe: BinaryIO, message: object) -> None:
    """Write one frame."""
    data = pickle.dumps(message)
    pipe.write(LENGTH.pack(len(data)) + data)
    pipe.flush()


def answer(disk: Disk, task: tuple[LogToClean, CleanerConfig, int], answers: BinaryIO) -> None:
    """Do one task and send its results."""
    from kpystorage.compaction.cleaner import clean

    log, config, now_ms = task
    try:
        cleaning = clean(disk, log, config, now_ms, Pace(config.max_io_bytes_per_second))
        while True:
            try:
                send(answers, next(cleaning))
            except StopIteration as ended:
                send(answers, ended.value)
                return
    except Exception as error:
        send(answers, PassFailed.of(error))


def die_with(parent: int) -> None:
    """Make this process end when its parent does, at once where the system supports that."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def stand_back(niceness: int) -> None:
    """Use only CPU that other processes leave idle, since a broker must not wait for its cleaner.

    Where Linux weighs sessions instead of processes (``sched_autogroup_enabled``), the session's niceness counts; ours
    leads one. A broker of real-time priority passes that on to its children.
    """
    os.setpriority(os.PRIO_PROCESS, 0, max(niceness, os.getpriority(os.PRIO_PROCESS, 0)))
    if sys.platform != "linux":
        return
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    ask_for_long_slices()
    if os.getsid(0) == os.getpid():
        with suppress(OSError), open(AUTOGROUP, "w") as file:
            file.write(str(niceness))


def ask_for_long_slices() -> None:
    """Ask the scheduler to let other processes run as soon as they wake. Linux 6.12 and later do so; older ones ignore
    it."""
    number = _SCHED_SETATTR.get(os.uname().machine)
    if number is None:
        return
    import ctypes

    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    attributes = _SCHED_ATTR.pack(_SCHED_ATTR.size, os.SCHED_BATCH, 0, niceness, 0, LONG_SLICE_NS, 0, 0)
    ctypes.CDLL(None).syscall(number, 0, attributes, 0)


def serve(tasks: BinaryIO, answers: BinaryIO, modes: Sequence[int]) -> None:
    """Do tasks until the pipe ends. A thread of its own watches for that, since a task may take long. ``modes`` are
    those of the files that it makes."""
    from queue import SimpleQueue

    from kpystorage.modes import Modes
    from kpystorage.real_disk import RealDisk
    from kpystorage.real_file import Descriptors

    waiting: SimpleQueue[bytes] = SimpleQueue()

    def read() -> None:
        while len(head := tasks.read(LENGTH.size)) == LENGTH.size:
            waiting.put(tasks.read(LENGTH.unpack(head)[0]))
        os._exit(0)

    Thread(target=read, daemon=True).start()
    disk = RealDisk(Descriptors(modes=Modes(*modes)))
    while True:
        answer(disk, pickle.loads(waiting.get()), answers)


if __name__ == "__main__":
    die_with(int(sys.argv[1]))
    stand_back(NICENESS)
    pipe = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a print would be taken for an answer
    try:
        serve(sys.stdin.buffer, pipe, [int(each) for each in sys.argv[2:]])
    except BrokenPipeError:
        os._exit(0)
