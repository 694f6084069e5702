"""Restarts of a broker that has much to look at: partitions, topics, bytes."""

import random
import shutil
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.raw import frames, many
from benchmarks.raw.asking import Address, Conversation
from benchmarks.rows.everywhere import create, pieces, until, write_everywhere
from benchmarks.rows.lifecycle import STOP, start_ms
from benchmarks.rows.row import Effort, RoundError, Row
from benchmarks.sides import HOST, Side
from oracle import BrokerProcess

START_CLEAN = Figure("start to all partitions answering, after a clean stop", "ms", False)
START_KILLED = Figure("start to all partitions answering, after SIGKILL", "ms", False)
FILL_PARTITIONS = 10
RECOVERY_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 900.0
"""Apache Kafka needs minutes to flush ten thousand logs that were written to."""
FILL_BATCH_BYTES = 100_000
SPARE_DISK = 5
"""The disk must have this multiple of the size free: each broker writes it once."""


def fitting_gb(wanted_gb: float, directory: Path) -> float:
    """The wanted size, or less where the disk is small."""
    return min(wanted_gb, max(0.1, shutil.disk_usage(directory).free / 1e9 // SPARE_DISK))


class Restart(Row):
    """A broker of its own. If ``clean``, it is stopped and started; if ``killed``, it is killed and started; if
    ``written``, every partition gets a batch after each start."""

    warms_up = False
    expected_s = 100.0
    clean = killed = written = True

    def __init__(self, effort: Effort, topics: Mapping[str, int]) -> None:
        super().__init__(effort)
        self.topics = dict(topics)
        self.partitions = sum(topics.values())
        self.brokers: dict[Side, BrokerProcess] = {}

    def open(self, side: Side) -> None:
        broker = self.brokers[side] = side.another(self.key)
        broker.stop_timeout_s = STOP_TIMEOUT_S
        broker.prepare()
        start_ms(broker, RECOVERY_TIMEOUT_S)
        with Conversation(Address(HOST, broker.port)) as conversation:
            create(conversation, self.topics)
            write_everywhere(conversation, self.topics)
        if not self.written:
            broker.stop()
            self.start_ms(broker)

    def play(self, side: Side) -> dict[str, float]:
        broker = self.brokers[side]
        seen = {}
        if self.clean:
            seen[STOP.name] = broker.stop() * 1000
            seen[START_CLEAN.name] = self.start_ms(broker)
            self.write(broker)
        if self.killed:
            broker.kill()
            seen[START_KILLED.name] = self.start_ms(broker)
            self.write(broker)
        return seen

    def write(self, broker: BrokerProcess) -> None:
        if not self.written:
            return
        with Conversation(Address(HOST, broker.port)) as conversation:
            write_everywhere(conversation, self.topics)

    def start_ms(self, broker: BrokerProcess) -> float:
        """Until ListOffsets is answered for every partition."""
        began = time.perf_counter()
        start_ms(broker, RECOVERY_TIMEOUT_S)
        with Conversation(Address(HOST, broker.port)) as conversation:
            for piece in pieces(self.topics):
                asking = many.latest_offsets(piece)
                until(partial(self.all_answer, conversation, asking))
        return (time.perf_counter() - began) * 1000

    def all_answer(self, conversation: Conversation, asking: bytes) -> bool:
        ends = list(many.listed_offsets(conversation.ask(asking)))
        if any(not error and offset <= 0 for error, offset in ends):
            raise RoundError("records are lost")
        return not any(error for error, _ in ends)

    def close(self, side: Side) -> None:
        broker = self.brokers.pop(side)
        if broker.process is not None:
            broker.kill()
        shutil.rmtree(broker.directory, ignore_errors=True)


class RestartPartitions(Restart):
    """One topic."""

    figures = (STOP, START_CLEAN, START_KILLED)

    def __init__(self, effort: Effort, partitions: int) -> None:
        super().__init__(effort, {"kept": partitions})
        self.key = f"restart-partitions-{partitions}"
        self.title = f"restart with {partitions} partitions"


class RestartTopics(Restart):
    """Topics of one partition, which nobody writes to between clean stops: Apache Kafka takes minutes to recover ten
    thousand logs, and to flush them."""

    figures = (STOP, START_CLEAN)
    killed = False
    written = False

    def __init__(self, effort: Effort, count: int) -> None:
        super().__init__(effort, {f"kept-{number}": 1 for number in range(count)})
        self.key = f"restart-topics-{count}"
        self.expected_s = 300.0 if count > 1000 else 90.0
        self.title = f"restart with {count:,} topics".replace(",", " ")


class RestartFull(Restart):
    """One topic of 1 000 partitions with gigabytes in it, and SIGKILL alone."""

    key = "restart-full"
    expected_s = 250.0
    figures = (START_KILLED,)
    clean = False
    topic = "full"

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort, {self.topic: 1000})
        self.title = f"restart with 1 000 partitions and {effort.restart_gb:g} GB"

    def open(self, side: Side) -> None:
        free_gb = shutil.disk_usage(side.directory).free / 1e9
        if free_gb < 2 * self.effort.restart_gb:
            raise RoundError(f"{free_gb:.0f} GB of disk are free: choose a smaller --restart-gb")
        super().open(side)
        self.fill(self.brokers[side])

    def fill(self, broker: BrokerProcess) -> None:
        noise = random.Random(1).randbytes(FILL_BATCH_BYTES - 200)
        batch = frames.batch([noise], int(time.time() * 1000))
        groups = [range(at, at + FILL_PARTITIONS) for at in range(0, self.partitions, FILL_PARTITIONS)]
        requests = [many.produce({self.topic: group}, batch) for group in groups]
        left_bytes = self.effort.restart_gb * 1e9
        with Conversation(Address(HOST, broker.port)) as conversation:
            while left_bytes > 0:
                for request in requests:
                    answer = conversation.ask(request)
                    if any(error for _, _, error in many.produced_errors(answer)):
                        raise RoundError("a batch was refused while the topic was filled")
                    left_bytes -= len(request)


def restart_rows(effort: Effort) -> list[Row]:
    return [
        RestartPartitions(effort, 1000),
        RestartFull(effort),
        RestartTopics(effort, 1000),
        RestartTopics(effort, 10_000),
    ]
