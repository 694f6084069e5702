"""A Python module that runs in its own process, beside the event loop. It receives and returns objects.

It is for long work on many bytes, which would hold the GIL in a thread. The module reads frames of a length (u32) and a
pickle from its standard input, and writes such frames to its output. Its first argument is the broker's process id, so
that it can end with the broker. Its output is trusted like the broker's own code, which it is.

The process starts with the first task and stays for the next ones until `stop`, which kills it at once.

Invariant: the end of each task is reported once, on the loop, by its last answer or by :class:`WorkerDied`.
"""

import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import SimpleQueue
from struct import Struct
from threading import Thread
from typing import Any

from kpybroker.runtime.io.scheduler import Scheduler

_LENGTH = Struct(">I")


class WorkerDied(Exception):
    """The process ended before it had answered; the message says how."""


class Worker:
    """One process, which does one task at a time."""

    def __init__(
        self, scheduler: Scheduler, module: str, is_last: Callable[[Any], bool], arguments: Iterable[str] = ()
    ) -> None:
        """``is_last`` tells whether an answer is the last one of its task; ``arguments`` are further ones."""
        self.is_stopped = False
        self._scheduler = scheduler
        self._module = module
        self._is_last = is_last
        self._arguments = tuple(arguments)
        self._tasks: SimpleQueue[tuple[object, Callable[[Any], object]] | None] = SimpleQueue()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = Thread(target=self._run, name=f"kpybroker-{module}", daemon=True)
        self._thread.start()

    def ask(self, task: object, on_answer: Callable[[Any], object]) -> None:
        """Give the process a task; ``on_answer`` is called with each answer."""
        self._tasks.put((task, on_answer))

    def stop(self) -> None:
        """Kill the process, in the middle of its work if need be. Safe to call twice."""
        self.is_stopped = True
        if self._process is not None:
            self._process.kill()
        self._tasks.put(None)

    def join(self) -> None:
        """Wait until a stopped process is gone. May run in a thread."""
        self._thread.join()

    # In a thread of its own, which holds the GIL only to take a message apart.

    def _run(self) -> None:
        while (asked := self._tasks.get()) is not None:
            task, on_answer = asked
            try:
                self._do(task, on_answer)
            except WorkerDied as death:
                self._tell(on_answer, death)
            except Exception as error:
                self._tell(on_answer, WorkerDied(f"{type(error).__name__}: {error}"))
                self._end()
        self._end()

    def _do(self, task: object, on_answer: Callable[[Any], object]) -> None:
        if self._process is None:
            self._process = self._start()
        if self.is_stopped:
            self._process.kill()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        data = pickle.dumps(task)
        try:
            process.stdin.write(_LENGTH.pack(len(data)) + data)
            process.stdin.flush()
            while True:
                head = process.stdout.read(_LENGTH.size)
                if len(head) < _LENGTH.size:
                    break
                answer = pickle.loads(process.stdout.read(_LENGTH.unpack(head)[0]))
                self._tell(on_answer, answer)
                if self._is_last(answer):
                    return
        except (OSError, EOFError, pickle.UnpicklingError):
            pass  # it ended, in the middle of a frame perhaps
        raise WorkerDied(f"its process ended with {self._end()}")

    def _start(self) -> "subprocess.Popen[bytes]":
        found = os.pathsep.join(path for path in sys.path if path)
        return subprocess.Popen(
            [sys.executable, "-P", "-m", self._module, str(os.getpid()), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": found},
            start_new_session=True,  # a Ctrl-C in the terminal is for us: we end it when it is time
        )

    def _end(self) -> str:
        """Kill the process if it still runs. Return the signal or the code that it ended with."""
        process, self._process = self._process, None
        if process is None:
            return "nothing"
        process.kill()
        code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what was left in it has nobody to read it
                    pipe.close()
        return f"signal {-code}" if code < 0 else f"code {code}"

    def _tell(self, on_answer: Callable[[Any], object], answer: object) -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody is left to hear of it
            self._scheduler.call_soon_threadsafe(on_answer, answer)
