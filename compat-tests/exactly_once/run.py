"""A whole run: programs of several clients, a broker and programs that are killed and paused, the verdict."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from exactly_once.checker import Anomaly, check
from exactly_once.clients import CLIENTS, TRANSACTION_TIMEOUT_MS
from exactly_once.diary import Diary, committed_of, lines_of, polls_of, transactions_of
from exactly_once.history import History, Outcome, Partition
from exactly_once.program import INPUT, OUTPUT
from exactly_once.watching import Asker, Reader, read_to_the_end
from oracle import BrokerProcess
from oracle.jars import LOGGING, classpath, compile_java
from topics import create_topic

JAVA: Final = "java"
PARTITIONS: Final = 4
LEAST_DRAIN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 2
"""After the writers have stopped: so long a transaction of one that was killed may hide what is behind it."""
MOST_DRAIN_S: Final = 180.0
"""For the workers to come to the end of the input."""
TROUBLE_EVERY_S: Final = (1.0, 4.0)
PAUSE_S: Final = TRANSACTION_TIMEOUT_MS / 1000 * 1.5
"""So long that the coordinator aborts the transaction of who is paused, who then is a zombie."""
START_S: Final = 60.0
TAIL_BYTES: Final = 200
STOP_TIMEOUT_S: Final = 60.0
STUCK_S: Final = 10.0
"""A program that wrote nothing down for so long is killed: librdkafka 2.x waits forever for the coordinator of a group
that went away in ``send_offsets_to_transaction``, with Apache Kafka too."""
PACKAGE: Final = Path(__file__).parents[1]
CHECKOUT: Final = PACKAGE.parent
PARTS: Final = [(topic, index) for topic in (INPUT, OUTPUT) for index in range(PARTITIONS)]


class Program:
    """A process that is started again whenever it was killed, with the same transactional id."""

    def __init__(self, client: str, name: str, works_on: int | None, bootstrap: str, directory: Path) -> None:
        self.name = name
        self.client = client
        self.works_on = works_on
        self.diaries: list[Path] = []
        self._servers = bootstrap
        self._directory = directory
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, until_s: float) -> None:
        """Beside the one that may still be there: then one of the two is a zombie."""
        number = len(self.diaries)
        diary = self._directory / f"{self.name}-{number}.jsonl"
        self.diaries.append(diary)
        diary.touch()
        partition = -1 if self.works_on is None else self.works_on
        known: Sequence[object] = (self._servers, self.name, number, PARTITIONS, partition, until_s, diary)
        command = (java_command if self.client == JAVA else python_command)(self.client, [str(fact) for fact in known])
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(PACKAGE), str(CHECKOUT / "wire"), str(CHECKOUT))),
        }
        with diary.with_suffix(".err").open("wb") as errors:
            self.processes.append(subprocess.Popen(command, env=environment, stderr=errors, stdout=errors))

    @property
    def is_idle(self) -> bool:
        """Whether the latest one found nothing to work on, twice."""
        with self.diaries[-1].open("rb") as diary:
            diary.seek(max(0, self.diaries[-1].stat().st_size - TAIL_BYTES))
            return [b'"idle"' in line for line in diary.read().splitlines()[-2:]] == [True, True]

    @property
    def is_stuck(self) -> bool:
        """Whether the latest one does nothing any more."""
        diary = self.diaries[-1].stat()
        patience_s = STUCK_S if diary.st_size else START_S
        return self.processes[-1].poll() is None and time.time() - diary.st_mtime > patience_s

    def signal(self, number: int) -> None:
        """The latest one, if it is there."""
        if self.processes[-1].poll() is None:
            self.processes[-1].send_signal(number)

    def leave_one(self) -> None:
        """Kill all but the latest: two who always fence each other come to no end."""
        for process in self.processes[:-1]:
            process.kill()

    def end(self) -> None:
        """Wait for all that were started, for a while."""
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for process in self.processes:
            process.send_signal(signal.SIGCONT)
            try:
                process.wait(max(0.1, deadline_s - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def python_command(client: str, known: Sequence[str]) -> list[str]:
    """What runs ``exactly_once.program``."""
    options = ("bootstrap-server", "name", "seed", "partitions", "works-on", "until-s", "diary")
    given = [f"--{option}={fact}" for option, fact in zip(options, known, strict=True)]
    return [sys.executable, "-m", "exactly_once.program", f"--client={client}", *given]


def java_command(_client: str, known: Sequence[str]) -> list[str]:
    """What runs the same with the Java clients."""
    path = classpath(compile_java(PACKAGE / "java" / "ExactlyOnceProgram.java"))
    machine = ["java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", LOGGING]
    return [*machine, "-cp", path, "ExactlyOnceProgram", *known, str(TRANSACTION_TIMEOUT_MS)]


class Verdict(NamedTuple):
    """Of a run."""

    history: History
    anomalies: Sequence[Anomaly]
    troubles: dict[str, int]
    """What was done to broker and programs, how often."""

    def counted(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.history.transactions)


def run(
    broker: BrokerProcess,
    directory: Path,
    seconds: float,
    seed: int,
    clients: Sequence[str] = (*CLIENTS, JAVA),
    progress: Callable[[float], object] = lambda _done: None,
) -> Verdict:
    """Writers and workers of these clients against a running broker, with trouble; then what their diaries say."""
    bootstrap = broker.bootstrap_servers
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    for topic in (INPUT, OUTPUT):
        create_topic(admin, topic, partitions=PARTITIONS)
    began_s = time.monotonic()
    writing_until_s = began_s + seconds
    working_until_s = writing_until_s + MOST_DRAIN_S
    writers = [Program(client, f"writer-{client}", None, bootstrap, directory) for client in clients]
    workers = [
        Program(clients[index % len(clients)], f"worker-{index}", index, bootstrap, directory)
        for index in range(PARTITIONS)
    ]
    watch = directory / "reader.jsonl", directory / "asker.jsonl"
    inputs: list[Partition] = [(INPUT, index) for index in range(PARTITIONS)]
    watchers = Reader(bootstrap, PARTS, Diary(watch[0])), Asker(bootstrap, inputs, Diary(watch[1]))
    for watcher in watchers:
        watcher.start()
    trouble = Trouble(broker, writers, workers, random.Random(seed), (writing_until_s, working_until_s))
    try:
        for writer in writers:
            writer.start(writing_until_s)
        for worker in workers:
            worker.start(working_until_s)
        while (now_s := time.monotonic()) < writing_until_s:
            trouble.make(now_s)
            trouble.mend()
            progress((now_s - began_s) / seconds)
            time.sleep(0.1)
        trouble.stop()
        for worker in workers:
            worker.leave_one()
        while time.monotonic() < working_until_s:
            trouble.mend()
            time.sleep(0.5)
            if time.monotonic() > writing_until_s + LEAST_DRAIN_S and all(worker.is_idle for worker in workers):
                break
    finally:
        for worker in workers:
            worker.signal(signal.SIGTERM)
        for program in (*writers, *workers):
            program.end()
    log = read_to_the_end(bootstrap, PARTS)
    time.sleep(1)
    for watcher in watchers:
        watcher.stopping.set()
        watcher.join()
    history = gathered([*writers, *workers], watch)._replace(log=log, worked_on=[INPUT])
    return Verdict(history, check(history), trouble.made)


def gathered(programs: Sequence[Program], watch: tuple[Path, Path]) -> History:
    """The history of all diaries. Each start of a program is a process of its own, since two may run at a time."""
    transactions = [
        transaction
        for program in programs
        for diary in program.diaries
        for transaction in transactions_of(diary.stem, lines_of(diary))
    ]
    return History(transactions, polls_of(lines_of(watch[0])), committed_of(lines_of(watch[1])))


class Trouble:
    """What is done to a run, from time to time."""

    def __init__(
        self,
        broker: BrokerProcess,
        writers: Sequence[Program],
        workers: Sequence[Program],
        rng: random.Random,
        until_s: tuple[float, float],
    ) -> None:
        self.made: dict[str, int] = {}
        self._broker = broker
        self._programs = [*writers, *workers]
        self._ends_s = dict.fromkeys(writers, until_s[0]) | dict.fromkeys(workers, until_s[1])
        self._rng = rng
        self._next_s = time.monotonic() + 5
        self._resume: list[tuple[float, Program]] = []

    def make(self, now_s: float) -> None:
        """Something, when it is time for it."""
        for due_s, program in list(self._resume):
            if due_s <= now_s:
                self._resume.remove((due_s, program))
                program.processes[-1].send_signal(signal.SIGCONT)
        if now_s < self._next_s:
            return
        self._next_s = now_s + self._rng.uniform(*TROUBLE_EVERY_S)
        kinds: list[Callable[[], None]] = [self._kill_broker, self._kill, self._kill, self._pause, self._double]
        kind = self._rng.choice(kinds)
        kind()
        self._count(kind.__name__.strip("_"))

    def mend(self) -> None:
        """Kill those that are stuck, and start others in their place."""
        paused = {program for _, program in self._resume}
        for program in self._programs:
            if program not in paused and program.is_stuck:
                program.signal(signal.SIGKILL)
                program.start(self._ends_s[program])
                self._count("stuck")

    def stop(self) -> None:
        """Let everybody end in peace."""
        for _, program in self._resume:
            program.processes[-1].send_signal(signal.SIGCONT)
        self._resume.clear()

    def _count(self, what: str) -> None:
        self.made[what] = self.made.get(what, 0) + 1

    def _any(self) -> Program:
        paused = {program for _, program in self._resume}
        return self._rng.choice([program for program in self._programs if program not in paused])

    def _kill_broker(self) -> None:
        self._broker.restart(kill=True)

    def _kill(self) -> None:
        program = self._any()
        program.signal(signal.SIGKILL)
        program.start(self._ends_s[program])

    def _pause(self) -> None:
        program = self._any()
        program.signal(signal.SIGSTOP)
        self._resume.append((time.monotonic() + PAUSE_S, program))

    def _double(self) -> None:
        """Another with the same transactional id: the one that was there is a zombie."""
        program = self._any()
        program.start(self._ends_s[program])
