"""A whole run: programs of several clients, brokers and programs that are killed and paused, the verdict."""

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from confluent_kafka.admin import AdminClient

from exactly_once.checker import Anomaly, check
from exactly_once.clients import CLIENTS, MEMBERS, TRANSACTION_TIMEOUT_MS
from exactly_once.diary import Diary, committed_of, lines_of, polls_of, transactions_of
from exactly_once.history import History, Outcome, Partition
from exactly_once.processes import JAVA, JAVA_MEMBER, PARTITIONS, Program, wait_for_commits
from exactly_once.program import INPUT, OUTPUT
from exactly_once.trouble import Trouble
from exactly_once.watching import Asker, Reader, read_to_the_end
from oracle import BrokerProcess
from support.access import Access
from support.clusters import Nodes
from support.topics import create_topic

ALL_CLIENTS: Final = (*CLIENTS, JAVA)
ALL_MEMBERS: Final = (*MEMBERS, JAVA_MEMBER)
"""The workers that form a group of the consumer protocol (KIP-848). They are not mixed with others."""
FIRST_COMMITS_S: Final = 180.0
"""For every program to commit something, also where a JVM starts on a machine that does something else."""
LEAST_DRAIN_S: Final = TRANSACTION_TIMEOUT_MS / 1000 + 2
"""After the writers have stopped: so long a transaction of one that was killed may hide what is behind it."""
MOST_DRAIN_S: Final = 180.0
"""For the workers to come to the end of the input."""
PARTS: Final = [(topic, index) for topic in (INPUT, OUTPUT) for index in range(PARTITIONS)]


class Verdict(NamedTuple):
    """The verdict on a run."""

    history: History
    anomalies: Sequence[Anomaly]
    troubles: dict[str, int]
    """The faults that brokers and programs suffered, and how often."""

    def counted(self, outcome: Outcome) -> int:
        return sum(each.outcome is outcome for each in self.history.transactions)


def run(
    brokers: BrokerProcess | Nodes,
    directory: Path,
    seconds: float,
    seed: int,
    *,
    access: Access | None = None,
    writing: Sequence[str] = ALL_CLIENTS,
    working: Sequence[str] = ALL_CLIENTS,
) -> Verdict:
    """Writers and workers of these clients against brokers that run, with trouble; then what their diaries say.

    ``access`` is how clients reach them, if not without TLS and logins. The trouble, and with it the ``seconds``, begin
    when each of them has committed something.
    """
    access = access or Access(brokers.bootstrap_servers)
    file = access.save(directory / "clients.properties")
    admin = AdminClient(access.librdkafka)
    for topic in (INPUT, OUTPUT):
        create_topic(admin, topic, partitions=PARTITIONS)
    writers = [Program(client, f"writer-{client}", None, file, directory) for client in writing]
    workers = [
        Program(working[index % len(working)], f"worker-{index}", index, file, directory) for index in range(PARTITIONS)
    ]
    watch = directory / "reader.jsonl", directory / "asker.jsonl"
    inputs: list[Partition] = [(INPUT, index) for index in range(PARTITIONS)]
    asker = Asker(access, inputs, Diary(watch[1]))
    watchers = Reader(access, PARTS, Diary(watch[0])), asker
    for watcher in watchers:
        watcher.start()
    programs = [*writers, *workers]
    try:
        for program in programs:
            program.start()
        wait_for_commits(programs, FIRST_COMMITS_S)
        trouble = Trouble(brokers, programs, random.Random(seed))
        until_s = time.monotonic() + seconds
        while (now_s := time.monotonic()) < until_s:
            trouble.make(now_s)
            trouble.mend()
            time.sleep(0.1)
        trouble.stop()
        _drain(writers, workers, asker, trouble)
    finally:
        for program in programs:
            program.end()
    log = read_to_the_end(access, PARTS)
    time.sleep(1)
    for watcher in watchers:
        watcher.stopping.set()
        watcher.join()
    history = gathered(programs, watch)._replace(log=log, worked_on=[INPUT])
    return Verdict(history, check(history), trouble.made)


def _drain(writers: Sequence[Program], workers: Sequence[Program], asker: Asker, trouble: Trouble) -> None:
    """Let the writers end, and wait until the workers' group is behind the last value, but not for ever."""
    for worker in workers:
        worker.leave_one()
    for writer in writers:
        writer.end()
    time.sleep(LEAST_DRAIN_S)
    ends = {seen.partition: seen.offset + 1 for seen in read_to_the_end(asker.access, asker.partitions)}
    deadline_s = time.monotonic() + MOST_DRAIN_S
    while any(asker.positions.get(partition, 0) < end for partition, end in ends.items()):
        if time.monotonic() > deadline_s:
            return
        trouble.mend()
        time.sleep(0.5)


def gathered(programs: Sequence[Program], watch: tuple[Path, Path]) -> History:
    """The history of all diaries. Each start of a program is a process of its own, since two may run at a time."""
    transactions = [
        transaction
        for program in programs
        for diary in program.diaries
        for transaction in transactions_of(diary.stem, lines_of(diary))
    ]
    return History(transactions, polls_of(lines_of(watch[0])), committed_of(lines_of(watch[1])))
