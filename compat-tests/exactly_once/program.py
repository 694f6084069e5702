"""One program of the workload, which may be killed at any moment: ``python -m exactly_once.program``.

A writer sends values to the input topic in transactions and commits most of them. A worker reads one partition of it,
or those that its group assigns to it, and for what it has read it sends to the output topic and commits its position,
all in one transaction. Both keep a diary. What went wrong is followed by an abort, or by a new producer with the same
transactional id.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import click

from exactly_once.clients import CLIENTS, MEMBERS, Client, Lost, Refused
from exactly_once.diary import Diary
from exactly_once.history import Outcome, Partition, Position, Seen
from support.access import Access

INPUT: Final = "in"
OUTPUT: Final = "out"
GROUP: Final = "workers"
MOST_VALUES: Final = 5
ABORTED_SHARE: Final = 0.15
PAUSE_AFTER_TROUBLE_S: Final = 0.2


class Program(ABC):
    """A producer that goes on whatever happens, until it is stopped."""

    def __init__(self, client: str, access: Access, name: str, seed: int, partitions: int, diary: Diary) -> None:
        self.make: Callable[[], Client] = partial({**CLIENTS, **MEMBERS}[client], access, name)
        self.partitions = partitions
        self.name = name
        self.rng = random.Random(seed)
        self.diary = diary
        self.numbers = 0
        self.lifetime = f"{name}.{seed}"

    def run(self, until: Path) -> None:
        client: Client | None = None
        while not until.exists():
            try:
                if client is None:
                    client = self.make()
                    self.started(client)
                self.transaction(client)
            except (Lost, Refused) as error:
                self.diary.note("trouble", what=str(error)[:300])
                if client is not None:
                    with suppress(Exception):
                        client.close()
                client = None
                time.sleep(PAUSE_AFTER_TROUBLE_S)
        if client is not None:
            with suppress(Exception):
                client.close()

    def started(self, client: Client) -> None:  # noqa: B027  a writer needs nothing
        """A new producer is there."""

    @abstractmethod
    def transaction(self, client: Client) -> None:
        """One transaction, if there is something to do."""

    def send(self, client: Client, topic: str) -> None:
        """A value that nobody has sent before, somewhere."""
        self.numbers += 1
        partition: Partition = topic, self.rng.randrange(self.partitions)
        value = f"{self.lifetime}/{self.numbers}"
        self.diary.note("send", partition=partition, value=value)
        client.send(partition, value)

    def end(self, client: Client) -> bool:
        """Commit, or abort on purpose; whether it was committed. `Lost` where nobody knows what became of it."""
        try:
            sent = client.flush()
        except Refused:
            self.give_up(client)
            raise
        for value, offset in sent.items():
            self.diary.note("sent", value=value, offset=offset)
        commits = self.rng.random() >= ABORTED_SHARE
        self.diary.note("ending")
        try:
            if commits:
                client.commit()
            else:
                client.abort()
        except Refused:
            self.give_up(client)
            raise
        except Lost:
            self.diary.note("end", outcome=Outcome.UNKNOWN.value)
            raise
        self.diary.note("end", outcome=(Outcome.COMMITTED if commits else Outcome.ABORTED).value)
        return commits

    def give_up(self, client: Client) -> None:
        """Abort after a refusal."""
        try:
            client.abort()
        except (Lost, Refused):
            self.diary.note("end", outcome=Outcome.UNKNOWN.value)
        else:
            self.diary.note("end", outcome=Outcome.ABORTED.value)


class Writer(Program):
    """Sends to all partitions of the input."""

    def transaction(self, client: Client) -> None:
        self.diary.note("begin")
        client.begin()
        try:
            for _ in range(self.rng.randrange(1, MOST_VALUES + 1)):
                self.send(client, INPUT)
        except Refused:
            self.give_up(client)
            raise
        self.end(client)


class Worker(Program):
    """Works on one partition of the input, or on those that its group assigns to it."""

    partition: Partition = INPUT, 0

    def started(self, client: Client) -> None:
        client.read_from(self.partition, GROUP)

    def transaction(self, client: Client) -> None:
        seen = client.poll()
        if not seen:
            self.diary.note("idle")
            return
        self.diary.note("begin")
        for each in seen:
            self.diary.note("input", **each._asdict())
        client.begin()
        try:
            self.answer(client, seen)
        except Refused:
            self.give_up(client)
            raise
        if not self.end(client):
            for partition, offset in {each.partition: each.offset for each in reversed(seen)}.items():
                client.go_back_to(partition, offset)

    def answer(self, client: Client, seen: Sequence[Seen]) -> None:
        """Send something for each, and say how far that is."""
        for _ in seen:
            self.send(client, OUTPUT)
        for partition, offset in {each.partition: each.offset for each in seen}.items():
            position = Position(GROUP, partition, offset + 1)
            self.diary.note("position", **position._asdict())
            client.send_position(position)


@click.command()
@click.option("--client", type=click.Choice([*CLIENTS, *MEMBERS]), required=True)
@click.option(
    "--access",
    type=click.Path(path_type=Path),
    required=True,
    help="The file of properties by which clients reach the brokers.",
)
@click.option("--name", required=True, help="The transactional id.")
@click.option("--seed", type=int, required=True, help="The seed, another one for each start.")
@click.option("--partitions", type=int, required=True, help="The number of partitions of each topic.")
@click.option("--works-on", type=int, required=True, help="The partition of the input; -1 for a writer.")
@click.option(
    "--until", type=click.Path(path_type=Path), required=True, help="The file whose appearance ends the program."
)
@click.option("--diary", type=click.Path(path_type=Path), required=True)
def main(
    client: str,
    access: Path,
    name: str,
    seed: int,
    partitions: int,
    works_on: int,
    until: Path,
    diary: Path,
) -> None:
    """Send or work until told to end."""
    kind: type[Writer] | type[Worker] = Writer if works_on < 0 else Worker
    program = kind(client, Access.load(access), name, seed, partitions, Diary(diary))
    if isinstance(program, Worker):
        program.partition = INPUT, works_on
    program.run(until)


if __name__ == "__main__":
    main()
