"""The programs of a run as processes, which are killed, paused, doubled and started again from outside.

What they do is in `exactly_once.program`, and for Java in ``java/ExactlyOnceProgram.java``.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final

from exactly_once.clients import TRANSACTION_TIMEOUT_MS
from exactly_once.diary import lines_of, transactions_of
from exactly_once.history import Outcome
from oracle.jars import compile_java, jvm
from oracle.process import die_with_parent
from support.waiting import eventually

JAVA, JAVA_MEMBER = "java", "java-member"
"""The Java clients; as members of a group of the consumer protocol (KIP-848), too."""
PARTITIONS: Final = 4
START_S: Final = 60.0
STUCK_S: Final = 10.0
"""A program that wrote nothing down for so long is killed: librdkafka 2.x waits forever for the coordinator of a group
that went away in ``send_offsets_to_transaction``, with Apache Kafka too."""
STOP_TIMEOUT_S: Final = 60.0
LOOK_EVERY_S: Final = 0.1
PACKAGE: Final = Path(__file__).parents[1]
CHECKOUT: Final = PACKAGE.parent


class Program:
    """A process that is started again whenever it was killed, with the same transactional id. ``access`` is a file of
    properties (`Access.save`)."""

    def __init__(self, client: str, name: str, works_on: int | None, access: Path, directory: Path) -> None:
        self.name = name
        self.client = client
        self.works_on = works_on
        self.diaries: list[Path] = []
        self.processes: list[subprocess.Popen[bytes]] = []
        self._access = access
        self._directory = directory
        self._over = directory / ("writing-is-over" if works_on is None else "working-is-over")

    def start(self) -> None:
        """Beside the one that may still be there: then one of the two is a zombie."""
        number = len(self.diaries)
        diary = self._directory / f"{self.name}-{number}.jsonl"
        self.diaries.append(diary)
        diary.touch()
        partition = -1 if self.works_on is None else self.works_on
        known: Sequence[object] = (self._access, self.name, number, PARTITIONS, partition, self._over, diary)
        command = (java_command if self.client in (JAVA, JAVA_MEMBER) else python_command)(
            self.client, [str(fact) for fact in known]
        )
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(PACKAGE), str(CHECKOUT / "wire"), str(CHECKOUT))),
        }
        with diary.with_suffix(".err").open("wb") as errors:
            self.processes.append(
                subprocess.Popen(command, env=environment, stderr=errors, stdout=errors, preexec_fn=die_with_parent)
            )

    @property
    def has_committed(self) -> bool:
        """Whether some transaction of it was committed."""
        return any(
            each.outcome is Outcome.COMMITTED
            for diary in self.diaries
            for each in transactions_of(diary.stem, lines_of(diary))
        )

    @property
    def is_stuck(self) -> bool:
        """Whether the latest one does nothing any more, or has ended though nobody told it to."""
        if self.processes[-1].poll() is not None:
            return not self._over.exists()
        diary = self.diaries[-1].stat()
        patience_s = STUCK_S if diary.st_size else START_S
        return time.time() - diary.st_mtime > patience_s

    def signal(self, number: int) -> None:
        """The latest one, if it is there."""
        if self.processes[-1].poll() is None:
            self.processes[-1].send_signal(number)

    def leave_one(self) -> None:
        """Kill all but the latest: two who always fence each other come to no end."""
        for process in self.processes[:-1]:
            process.kill()

    def tell_to_end(self) -> None:
        """All that were started, and all programs of its kind: after the transaction that they are in."""
        self._over.touch()

    def end(self) -> None:
        """Wait for all that were started, for a while."""
        self.tell_to_end()
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_for_commits(programs: Collection[Program], timeout_s: float) -> None:
    """Return once each has committed something; the error names those that have not."""

    def others() -> str:
        late = [each for each in programs if not each.has_committed]
        return "the first commit of " + ", ".join(
            f"{each.name} ({each.diaries[-1].with_suffix('.err')})" for each in late
        )

    eventually(lambda: all(each.has_committed for each in programs), others, timeout_s, LOOK_EVERY_S)


def python_command(client: str, known: Sequence[str]) -> list[str]:
    """The command that runs ``exactly_once.program``."""
    options = ("access", "name", "seed", "partitions", "works-on", "until", "diary")
    given = [f"--{option}={fact}" for option, fact in zip(options, known, strict=True)]
    return [sys.executable, "-m", "exactly_once.program", f"--client={client}", *given]


def java_command(client: str, known: Sequence[str]) -> list[str]:
    """The command that runs the same with the Java clients."""
    machine = jvm(compile_java(PACKAGE / "java" / "ExactlyOnceProgram.java"), heap="128m")
    protocol = "consumer" if client == JAVA_MEMBER else ""
    return [*machine, "ExactlyOnceProgram", *known, str(TRANSACTION_TIMEOUT_MS), protocol]
