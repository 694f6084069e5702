"""The life of a process that works beside the node: frames of tasks in, frames of answers out.

Frames are a length (u32) and a pickle, as `kpybroker.runtime.io.worker` writes them. The pipe leads only to the process
that started this one, and with that process it ends.
"""

import os
import pickle
import signal
import sys
from collections.abc import Callable, Iterable
from struct import Struct
from threading import Thread
from time import sleep
from typing import Any, BinaryIO, Final

LENGTH: Final = Struct(">I")
NICENESS: Final = 10
PARENT_CHECK_S: Final = 0.5


def run(work: Callable[[Any], Iterable[object]], failed: Callable[[str], object]) -> None:
    """Do tasks until there are no more. ``failed`` makes the last answer to a task that raised an error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    serve(sys.stdin.buffer, sys.stdout.buffer, work, failed)


def serve(
    tasks: BinaryIO,
    answers: BinaryIO,
    work: Callable[[Any], Iterable[object]],
    failed: Callable[[str], object],
) -> None:
    """Answer the tasks of a pipe."""
    while len(head := tasks.read(LENGTH.size)) == LENGTH.size:
        task = pickle.loads(tasks.read(LENGTH.unpack(head)[0]))
        try:
            for answer in work(task):
                _send(answers, answer)
        except Exception as error:
            _send(answers, failed(f"{type(error).__name__}: {error}"))


def _send(answers: BinaryIO, answer: object) -> None:
    data = pickle.dumps(answer)
    answers.write(LENGTH.pack(len(data)) + data)
    answers.flush()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        sleep(PARENT_CHECK_S)
    os._exit(1)
