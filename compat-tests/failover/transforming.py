"""A consume-transform-produce loop of confluent-kafka, watched from outside: ``python -m failover.transforming``.

The loop runs in a process of its own and says before each call what it calls, and after each commit how far it is. So
a call that never returns has a name, and the process can be killed: no thread could.
"""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from oracle.process import die_with_parent

INPUT: Final = "transform-in"
OUTPUT: Final = "transform-out"
GROUP: Final = "transformers"
CALL_TIMEOUT_S: Final = 30.0
NEVER_S: Final = 2 * CALL_TIMEOUT_S
"""A call that was given half of it and has not returned by then is taken for one that never does."""
STILL_S: Final = 3 * CALL_TIMEOUT_S
"""A loop that makes calls and commits nothing for so long stands still."""
MOST_POLLED: Final = 20
POLL_S: Final = 0.1
TRANSACTIONAL_ID: Final = "transformer"
SESSION_MS: Final = 10_000
"""So long the group waits for a member that was killed."""
PACKAGE: Final = Path(__file__).parents[1]
CHECKOUT: Final = PACKAGE.parent
T = TypeVar("T")


def say(word: str) -> None:
    """One line for the watcher."""
    sys.stdout.write(word + "\n")
    sys.stdout.flush()


class Transformer:
    """Reads the input as a member of a group; what it writes and how far it has read are one transaction."""

    def __init__(self, bootstrap_servers: str) -> None:
        common: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                "session.timeout.ms": SESSION_MS,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
            }
        )
        self._consumer.subscribe([INPUT])
        self._producer_config = {
            **common, "transactional.id": TRANSACTIONAL_ID, "linger.ms": 1,
        }  # fmt: skip
        self._producer = self._new_producer()

    def _new_producer(self) -> Producer:
        producer = Producer(self._producer_config)
        called("init_transactions", producer.init_transactions, CALL_TIMEOUT_S)
        return producer

    def run(self) -> None:
        """Until the process is killed."""
        while True:
            say("call consume")
            read = [each for each in self._consumer.consume(MOST_POLLED, POLL_S) if each.error() is None]
            if not read:
                continue
            try:
                self._transform([each.value() or b"" for each in read])
            except KafkaException as error:
                say(f"error {error.args[0].name()}")
                self._begin_again(error)
            else:
                say("committed")

    def _transform(self, values: list[bytes]) -> None:
        called("begin_transaction", self._producer.begin_transaction)
        for value in values:
            self._producer.produce(OUTPUT, value)
        positions = [each for each in self._consumer.position(self._consumer.assignment()) if each.offset >= 0]
        group = self._consumer.consumer_group_metadata()
        called(
            "send_offsets_to_transaction", self._producer.send_offsets_to_transaction, positions, group, CALL_TIMEOUT_S
        )
        called("commit_transaction", self._producer.commit_transaction, CALL_TIMEOUT_S)

    def _begin_again(self, error: KafkaException) -> None:
        """Abort, or go on with another producer where this one cannot, and read on from what was committed."""
        while True:
            try:
                if error.args[0].txn_requires_abort():
                    called("abort_transaction", self._producer.abort_transaction, CALL_TIMEOUT_S)
                else:
                    self._producer = self._new_producer()
                assigned = called("committed", self._consumer.committed, self._consumer.assignment(), CALL_TIMEOUT_S)
                for each in assigned:
                    self._consumer.seek(TopicPartition(each.topic, each.partition, max(each.offset, 0)))
            except KafkaException as another:
                say(f"error {another.args[0].name()}")
                error = another
                time.sleep(POLL_S)
            else:
                return


def called(name: str, call: Callable[..., T], *arguments: Any) -> T:
    """The result of a call, which is made again as long as its error says so. Raises KafkaException."""
    while True:
        say(f"call {name}")
        try:
            return call(*arguments)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


class Watched:
    """The process with such a loop, and what it said."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.commits_s: list[float] = []
        """The time when each transaction was committed."""
        self.errors: list[str] = []
        self._servers = bootstrap_servers
        self._calling = "", time.monotonic()
        self._process: subprocess.Popen[str] | None = None
        self._started_s = 0.0

    def start(self) -> None:
        """The next process, whose producer takes the place of the last one's."""
        self._started_s = time.monotonic()
        self._calling = "start", self._started_s
        command = [sys.executable, "-m", "failover.transforming", self._servers]
        path = os.pathsep.join((str(PACKAGE), str(CHECKOUT / "wire"), str(CHECKOUT)))
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path},
            preexec_fn=die_with_parent,
        )  # fmt: skip
        threading.Thread(target=self._listen, args=(self._process,), daemon=True).start()

    def _listen(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        for line in process.stdout:
            kind, _, rest = line.strip().partition(" ")
            if kind == "call":
                self._calling = rest, time.monotonic()
            elif kind == "error":
                self.errors.append(rest)
            else:
                self.commits_s.append(time.monotonic())

    @property
    def trouble(self) -> str | None:
        """Why the loop will not go on: a call that never returned, an end, or calls that lead nowhere."""
        (name, since_s), now_s = self._calling, time.monotonic()
        if self._process is not None and self._process.poll() is not None:
            return f"ended with code {self._process.returncode} in {name}"
        if now_s - since_s > NEVER_S:
            return f"{name} never returned"
        last_s = max(self._started_s, self.commits_s[-1] if self.commits_s else 0.0)
        return f"stood still around {name}" if now_s - last_s > STILL_S else None

    def end(self) -> None:
        """Kill it, whatever it does."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()


@click.command()
@click.argument("bootstrap_servers")
def main(bootstrap_servers: str) -> None:
    """Transform until killed."""
    Transformer(bootstrap_servers).run()


if __name__ == "__main__":
    main()
