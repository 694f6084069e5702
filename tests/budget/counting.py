"""Plays the workload on the subject and counts: calls, memory, and system calls where strace is at hand."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from benchmarks.raw.asking import Conversation

from .scenarios import Scenario, conversation_with, scenarios

SUBJECT = Path(__file__).with_name("subject.py")
ROOT = SUBJECT.parents[2]
TOLERANCE = 0.03
"""The share by which work may grow before it counts as grown."""
ROUNDS, TIMES = 12, 20
UNCOUNTED = 30
"""Before anything is counted, so that what is made at the first use is there."""
RARE = 0.15
"""The share of requests below which a call counts as part of the counting itself, once in each round."""
MARK = "getppid"
"""The function that the subject calls to mark a request, and never else."""
UNCOUNTED_CALLS = {"futex", "clock_gettime"}
"""Waits of other threads for the interpreter's lock, and looks at the processor's time where a request takes long."""
TRACED = re.compile(r"^(?:\[pid +\d+\] )?(\w+)\(")
PATIENCE_S = 20.0

Work = dict[str, Any]
"""The work of one request: ``python`` and ``c`` calls by name, ``system`` calls by name or None, bytes of memory."""


class Subject:
    """The process that is counted."""

    def __init__(self, directory: Path) -> None:
        command = [sys.executable, str(SUBJECT), str(directory)]
        path = ":".join(str(ROOT / part) for part in ("", "wire", "storage"))
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env={"PYTHONPATH": path}
        )
        self.port = int(self._line())

    def _line(self) -> str:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"the broker ended with code {self.process.wait()}")
        return line

    def tell(self, command: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        return self._line()

    def end(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(PATIENCE_S)


def measured(directory: Path) -> dict[str, Work]:
    """The work of one request of each scenario. Raises what a scenario raises, RuntimeError."""
    subject = Subject(directory / "data")
    try:
        with conversation_with(subject.port) as conversation:
            return {
                scenario.name: of(scenario, subject, conversation, directory)
                for scenario in scenarios(conversation, int(time.time() * 1000))
            }
    finally:
        subject.end()


def of(scenario: Scenario, subject: Subject, conversation: Conversation, directory: Path) -> Work:
    """The least of several rounds, for a timer, or a request that comes in two pieces, adds what was not asked for."""
    play(scenario, conversation, UNCOUNTED)
    calls = [counted(scenario, subject, conversation, "calls") for _ in range(ROUNDS)]
    memory = [counted(scenario, subject, conversation, "memory") for _ in range(ROUNDS)]
    system: list[Counter[str]] = []
    if not missing_for_strace():
        with traced(subject.process.pid, directory / "strace") as system:
            for _ in range(ROUNDS):
                play(scenario, conversation, TIMES)
                subject.tell("mark")
    return {
        "python": each(least([seen["python"] for seen in calls]), TIMES),
        "c": each(least([seen["c"] for seen in calls]), TIMES),
        "system": each(least(system), TIMES) if system else None,
        "peak_bytes": min(seen["peak"] for seen in memory),
        "held_bytes": round(min(seen["held"] for seen in memory) / TIMES),
    }


def counted(scenario: Scenario, subject: Subject, conversation: Conversation, what: str) -> dict[str, Any]:
    """One round, as the subject counted it."""
    subject.tell(what)
    play(scenario, conversation, TIMES)
    seen: dict[str, Any] = json.loads(subject.tell("stop"))
    return seen


def least(rounds: Sequence[Mapping[str, int]]) -> dict[str, int]:
    """The least count of each function."""
    return {name: min(seen.get(name, 0) for seen in rounds) for name in rounds[0]}


def play(scenario: Scenario, conversation: Conversation, times: int) -> None:
    for _ in range(times):
        scenario.checked(conversation.ask(next(scenario.requests)))


def each(calls: dict[str, int], times: int) -> dict[str, float]:
    """Per request, the most frequent first; without what is rare."""
    per_request = {name: round(count / times, 2) for name, count in calls.items()}
    ordered = sorted(per_request.items(), key=lambda item: (-item[1], item[0]))
    return {name: count for name, count in ordered if count >= RARE}


@cache
def missing_for_strace() -> str | None:
    """Why system calls cannot be counted here, in one line. Some systems let only a parent look at a process."""
    if shutil.which("strace") is None:
        return "needs strace: not found"
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        try:
            with attached(other.pid, Path(os.devnull)):
                return None
        except RuntimeError as problem:
            return f"needs strace to be allowed: {problem}"
        finally:
            other.kill()


@contextmanager
def attached(pid: int, output: Path) -> Iterator[None]:
    """strace writes the system calls of a process's main thread. Raises RuntimeError if it may not."""
    command = ["strace", "-p", str(pid), "-s", "0", "-o", str(output)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        reported = tracer.stderr.readline()
        if "attached" not in reported:
            tracer.kill()
            raise RuntimeError(reported.strip())
        try:
            yield
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(PATIENCE_S)


@contextmanager
def traced(pid: int, output: Path) -> Iterator[list[Counter[str]]]:
    """Counts the system calls of a process's main thread from mark to mark; they are there at the end of the block."""
    rounds: list[Counter[str]] = []
    with attached(pid, output):
        yield rounds
    calls = [match[1] for line in output.read_text().splitlines() if (match := TRACED.match(line))]
    while MARK in calls:
        end = calls.index(MARK)
        rounds.append(Counter(name for name in calls[:end] if name not in UNCOUNTED_CALLS))
        calls = calls[end + 1 :]
