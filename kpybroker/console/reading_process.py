"""The process that reads and searches records for the console: ``python -m kpybroker.console.reading_process PARENT``.

Frames are a length (u32) and a pickle, as `kpybroker.io.worker` writes them: in come tasks, out go their answers. The
pipe leads only to the process that started this one, and with that process it ends.
"""

import os
import pickle
import signal
import sys
from struct import Struct
from threading import Thread
from time import sleep
from typing import BinaryIO, Final

from kpybroker.console.record_tasks import Ended, Task, work
from kpystorage.reading_disk import ReadingDisk
from kpystorage.real_disk import Descriptors

LENGTH: Final = Struct(">I")
NICENESS: Final = 10
PARENT_CHECK_S: Final = 0.5


def serve(tasks: BinaryIO, answers: BinaryIO) -> None:
    """Do tasks until there are no more."""
    disk = ReadingDisk(Descriptors(16))
    while len(head := tasks.read(LENGTH.size)) == LENGTH.size:
        task: Task = pickle.loads(tasks.read(LENGTH.unpack(head)[0]))
        try:
            for answer in work(disk, task):
                _send(answers, answer)
        except Exception as error:
            _send(answers, Ended(f"{type(error).__name__}: {error}", ()))


def _send(answers: BinaryIO, answer: object) -> None:
    data = pickle.dumps(answer)
    answers.write(LENGTH.pack(len(data)) + data)
    answers.flush()


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        sleep(PARENT_CHECK_S)
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(NICENESS)
    Thread(target=_end_with, args=(int(sys.argv[1]),), daemon=True).start()
    serve(sys.stdin.buffer, sys.stdout.buffer)
