"""Transactions: how many a second, how long a commit takes, how fast what is committed is read, how soon a coordinator
knows a hundred thousand ids.
"""

import time
import uuid
from statistics import median

from benchmarks.clients import running
from benchmarks.figures import Figure
from benchmarks.raw import transacting
from benchmarks.raw.asking import Address, Conversation
from benchmarks.raw.transacting import Producer
from benchmarks.rows.consuming import Consume
from benchmarks.rows.lifecycle import start_ms
from benchmarks.rows.row import Effort, Meter, RoundError, Row
from benchmarks.rows.shape import Shape
from benchmarks.sides import HOST, Side
from oracle import BrokerProcess

RATE = Figure("throughput", "transactions/s", True)
COMMIT_P50 = Figure("commit, p50", "ms", False)
COMMIT_P99 = Figure("commit, p99", "ms", False)
WHOLE_P50 = Figure("whole transaction, p50", "ms", False)
WHOLE_P99 = Figure("whole transaction, p99", "ms", False)
"""From its first request to the answer of its commit: a broker that answers a commit sooner may let the next one
begin later, since the markers of the last one have to be written before that."""
CPU = Figure("broker CPU", "µs/transaction", False)
LOADED = Figure("start to the last id answered, after SIGKILL", "ms", False)
VALUE = b"x" * 100
IN_A_TRANSACTION = 1000
ABORTED_OF = 5
ASKED_IDS = 300
"""Some on every partition of the coordinator's topic."""
LOAD_TIMEOUT_S = 300.0
SOUNDINGS = 4
"""Rounds that tell how many transactions a second there can be: the first warms up."""
LEAST_KEPT = 0.8
"""The least share of the transactions a second that were asked for; with fewer it was not paced."""


class Transactions(Row):
    """Producers that write a record to several partitions in one transaction after the other."""

    figures: tuple[Figure, ...] = (RATE, WHOLE_P50, WHOLE_P99, COMMIT_P50, COMMIT_P99, CPU)

    def __init__(self, effort: Effort, producers: int, partitions: int) -> None:
        super().__init__(effort)
        self.count = producers
        self.partitions = partitions
        self.key = f"transactions-{producers}-{partitions}"
        self.title = f"transactions of {producers} producers, {partitions} partitions each"
        self.producers: dict[Side, list[Producer]] = {}

    def open(self, side: Side) -> None:
        topic = side.create_topic(self.key, self.partitions)
        name, indexes = uuid.uuid4().hex[:8], range(self.partitions)
        self.producers[side] = [
            Producer(side.address, f"{name}-{number}", topic, indexes) for number in range(self.count)
        ]

    def play(self, side: Side) -> dict[str, float]:
        return self.transact(side, 0.0)

    def transact(self, side: Side, per_second: float) -> dict[str, float]:
        """The transactions a second, or as many as can be."""
        meter = Meter(side)
        try:
            took = transacting.transact(self.producers[side], VALUE, self.effort.load_s, per_second)
        except transacting.TransactionError as error:
            raise RoundError(str(error)) from error
        wall_s, cpu_s = meter.end()
        count = len(took)
        commits, wholes = sorted(each.commit_s for each in took), sorted(each.whole_s for each in took)
        return {
            RATE.name: count / wall_s,
            COMMIT_P50.name: commits[count // 2] * 1000,
            COMMIT_P99.name: commits[count * 99 // 100] * 1000,
            WHOLE_P50.name: wholes[count // 2] * 1000,
            WHOLE_P99.name: wholes[count * 99 // 100] * 1000,
            CPU.name: cpu_s / count * 1e6,
        }

    def close(self, side: Side) -> None:
        producers = self.producers.pop(side)
        for producer in producers:
            producer.close()
        side.delete_topic(producers[0].topic)


class PacedTransactions(Transactions):
    """The same producers as many transactions on both sides: a share of what the side that is opened first can do.

    How long a commit takes can be compared here. Where each does as many as it can, a broker that answers one request
    sooner lets the others wait longer.
    """

    figures: tuple[Figure, ...] = (WHOLE_P50, WHOLE_P99, COMMIT_P50, COMMIT_P99, CPU)

    def __init__(self, effort: Effort, producers: int, partitions: int, percent: int) -> None:
        super().__init__(effort, producers, partitions)
        self.key = f"transactions-{producers}-{partitions}-paced-{percent}"
        self.title = f"{self.title}, at {percent} % of what A can"
        self.share = percent / 100
        self.per_second = 0.0

    def open(self, side: Side) -> None:
        super().open(side)
        if not self.per_second:
            able = [self.transact(side, 0.0)[RATE.name] for _ in range(SOUNDINGS)]
            self.per_second = median(able[1:]) * self.share

    def play(self, side: Side) -> dict[str, float]:
        seen = self.transact(side, self.per_second)
        if seen[RATE.name] < self.per_second * LEAST_KEPT:
            raise RoundError(f"{seen[RATE.name]:.0f} transactions/s where {self.per_second:.0f} were due")
        return {figure.name: seen[figure.name] for figure in self.figures}


class ReadCommitted(Consume):
    """A topic of transactions, some of them aborted, read from its start by who wants only what was committed."""

    client, words = "committed", "confluent-kafka, read_committed, one transaction of five aborted"

    def open(self, side: Side) -> None:
        topic = self.topics[side] = side.create_topic("consume", self.shape.partitions)
        fixed = self.shape.record_bytes, IN_A_TRANSACTION, ABORTED_OF
        running.client("confluent_transact", side.bootstrap_servers, topic, self.count, *fixed)

    def read(self, bootstrap: str, topic: str) -> float:
        # librdkafka reads committed unless it is configured otherwise.
        return self.count / running.client("confluent_consume", bootstrap, topic, self.shape.partitions, self.count)


class CoordinatorLoad(Row):
    """A broker of its own that is killed and started again when it knows many transactional ids."""

    key = "transactional-ids"
    warms_up = False
    figures = (LOADED,)
    expected_s = 90.0

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.ids = effort.transactional_ids
        self.title = f"start with {self.ids} transactional ids"
        self.brokers: dict[Side, BrokerProcess] = {}

    def open(self, side: Side) -> None:
        broker = self.brokers[side] = side.another(self.key)
        broker.prepare()
        start_ms(broker)
        with Conversation(Address(HOST, broker.port)) as conversation:
            for number in range(self.ids):
                identify(conversation, f"id-{number}")

    def play(self, side: Side) -> dict[str, float]:
        broker = self.brokers[side]
        broker.kill()
        began_s = time.perf_counter()
        broker.launch()
        return {LOADED.name: (self.answered(broker) - began_s) * 1000}

    def answered(self, broker: BrokerProcess) -> float:
        """The time when the ids of all partitions of the coordinator's topic were answered."""
        deadline_s = time.monotonic() + LOAD_TIMEOUT_S
        while True:
            try:
                with Conversation(Address(HOST, broker.port)) as conversation:
                    for number in range(min(ASKED_IDS, self.ids)):
                        identify(conversation, f"id-{number}")
                return time.perf_counter()
            except OSError as error:
                if time.monotonic() > deadline_s:
                    raise RoundError(f"no answer after {LOAD_TIMEOUT_S:.0f} s") from error
                time.sleep(0.005)

    def close(self, side: Side) -> None:
        self.brokers.pop(side).stop()


def identify(conversation: Conversation, transactional_id: str) -> None:
    """Make the coordinator know an id. RoundError, OSError."""
    try:
        transacting.identity(conversation.ask, transactional_id)
    except transacting.TransactionError as error:
        raise RoundError(str(error)) from error


def transaction_rows(effort: Effort) -> list[Row]:
    """One, ten and a hundred producers, with one and with twenty partitions; ten and a hundred of them as fast on both
    sides; a reader of what was committed."""
    rows: list[Row] = [
        Transactions(effort, producers, partitions) for producers in (1, 10, 100) for partitions in (1, 20)
    ]
    rows += [
        PacedTransactions(effort, producers, partitions, percent)
        for producers, partitions in ((10, 20), (100, 1), (100, 20))
        for percent in (50, 80)
    ]
    return [*rows, ReadCommitted(effort, Shape(record_bytes=100))]
