"""Random histories of a few transactional ids: every answer, record and marker is that of Kafka's own coordinator.

Not compared: the time that Kafka writes when it completes a transaction that it found prepared in its log (that of the
load; ours has that of the decision), and what cannot be written in the records of level 0, where Kafka fails.
"""

from random import Random

import pytest
from kafka_transactions import KafkaTransactions, Outcome, started
from transaction_world import FIRST_PRODUCER_ID, TIMEOUT_MS, TransactionWorld

from kpybroker.machines.transactions.events import Partition, TransactionTimersDue, WriteMarkers
from kpybroker.machines.transactions.record import TransactionRecord, decode
from kpybroker.machines.transactions.transaction import MAX_EPOCH, STATE_NAMES, Transaction, TransactionState
from kpywire.transaction_records import decode_value
from oracle.recorded import Play

STEPS = 200
RECORDED = 4
STEPS_SHOWN = 30
IDS = ("a", "b", "c")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0), ("u", 7))
TIMEOUTS = (TIMEOUT_MS, 5_000, 900_000)
WRONG_TIMEOUTS = (0, -1, 900_001)
EXPIRATION_MS = 3_600_000
PATTERNS = (
    "",
    "",
    ".*",
    "a|b",
    "[ab]",
    "(",
    "a.",
    "b+?",
    "(?P<n>c)",
    r"\pL",
    "(?i)A",
    "(?=a)a",
    r"(a)\1",
    "a++",
    "[[:alpha:]]",
)
STEP_WEIGHTS = {
    "init": 12,
    "recover": 8,
    "add": 25,
    "verify": 6,
    "end": 30,
    "marked": 25,
    "timeouts": 6,
    "expire": 2,
    "describe": 5,
    "list": 3,
    "restart": 3,
    "near_exhaustion": 2,
    "change_level": 1,
}


class Twins:
    """The same inputs to both."""

    def __init__(self, kafka: KafkaTransactions, rng: Random, level: int) -> None:
        self.kafka = kafka
        self.rng = rng
        self.level = level
        self.ours = TransactionWorld(
            transaction_version=level, transactional_id_expiration_ms=EXPIRATION_MS, timeout_check_interval_ms=0
        )
        self.wanted: dict[str, WriteMarkers] = {}
        self.producers: dict[str, list[tuple[int, int]]] = {each: [(FIRST_PRODUCER_ID, 0)] for each in IDS}
        self.steps: list[str] = []
        self.kafka.ask("reset", level, 900_000, EXPIRATION_MS)

    def ask(self, *words: object) -> Outcome:
        self.kafka.ask("time", self.ours.now_ms)
        self.kafka.ask("ids", self.ours.next_producer_id)
        self.steps.append(f"{self.ours.now_ms} ids {self.ours.next_producer_id}: {' '.join(map(str, words))}")
        outcome = self.kafka.ask(*words)
        self.steps.append(f"    {outcome.answers} {[decode(*each) for each in outcome.records]}")
        return outcome

    def compare(self, theirs: Outcome, known: int, answers: list[str]) -> None:
        __tracebackhide__ = True
        ours = self.ours
        assert answers == theirs.answers, self.history()
        written = [_shown(*each) for each in ours.log[known:]]
        expected = [_shown(*each) for each in theirs.records]
        for markers in theirs.markers:
            transactional_id, *_, partitions = markers.split(" ")
            if not partitions:
                # Nobody has to hear of it: ours completes at once.
                expected += [_shown(*each) for each in self.ask("marked", transactional_id).records]
        assert sorted(written) == sorted(expected), self.history()
        wanted = [_markers(each) for each in ours.wanted]
        assert sorted(wanted) == sorted(each for each in theirs.markers if not each.endswith(" ")), self.history()
        for each in ours.wanted:
            self.wanted[each.transactional_id] = each
        ours.wanted.clear()
        for transactional_id, transaction in ours.transactions.items():
            producer = (transaction.producer_id, transaction.producer_epoch)
            if self.producers[transactional_id][-1] != producer:
                self.producers[transactional_id].append(producer)

    def history(self) -> str:
        return "\n".join(self.steps[-STEPS_SHOWN:])

    # Steps

    def step(self) -> None:
        self.ours.now_ms += self.rng.choice((0, 1, 1, 1_000, 1_000, 10_000))
        name = self.rng.choices(list(STEP_WEIGHTS), list(STEP_WEIGHTS.values()))[0]
        getattr(self, name)()

    def some_id(self) -> str:
        return self.rng.choice(IDS)

    def some_producer(self, transactional_id: str) -> tuple[int, int]:
        """Mostly today's, at times one from before, or a wrong one."""
        known = self.producers[transactional_id]
        if self.rng.random() < 0.75:
            return known[-1]
        producer_id, epoch = self.rng.choice(known[-4:])
        return self.rng.choice(((producer_id, epoch), (producer_id, epoch + 1), (producer_id, max(epoch - 1, 0))))

    def some_partitions(self) -> list[Partition]:
        return self.rng.sample(PARTITIONS, self.rng.randrange(1, 4))

    def init(self, producer: tuple[int, int] = (-1, -1)) -> None:
        transactional_id = self.some_id()
        timeout_ms = self.rng.choice(WRONG_TIMEOUTS if self.rng.random() < 0.05 else TIMEOUTS)
        self._init(transactional_id, timeout_ms, producer)

    def recover(self) -> None:
        transactional_id = self.some_id()
        self._init(transactional_id, TIMEOUT_MS, self.some_producer(transactional_id))

    def _init(self, transactional_id: str, timeout_ms: int, producer: tuple[int, int]) -> None:
        if producer[1] >= MAX_EPOCH:
            return
        known = len(self.ours.log)
        theirs = self.ask("init", transactional_id, timeout_ms, *producer)
        answer = self.ours.init(
            transactional_id, timeout_ms=timeout_ms, producer_id=producer[0], producer_epoch=producer[1]
        )
        self.compare(theirs, known, [" ".join(map(str, answer))])

    def add(self) -> None:
        transactional_id = self.some_id()
        producer, partitions = self.some_producer(transactional_id), self.some_partitions()
        if producer[1] >= MAX_EPOCH:
            return
        version = self.rng.choice((3, 4, 5)) if self.level else 3
        known = len(self.ours.log)
        theirs = self.ask("add", transactional_id, *producer, 2 if version > 3 else 0, _named(partitions))
        codes = self.ours.add(producer, *partitions, transactional_id=transactional_id, version=version)
        (code,) = set(codes.values())
        self.compare(theirs, known, [f"{code} -1 -1"])

    def verify(self) -> None:
        transactional_id = self.some_id()
        producer, partitions = self.some_producer(transactional_id), self.some_partitions()
        if producer[1] >= MAX_EPOCH:
            return
        known = len(self.ours.log)
        theirs = self.ask("verify", transactional_id, *producer, _named(partitions))
        codes = self.ours.add(producer, *partitions, transactional_id=transactional_id, verify_only=True)
        self.compare(
            theirs, known, [",".join(f"{topic}:{each}={code}" for (topic, each), code in sorted(codes.items()))]
        )

    def end(self) -> None:
        transactional_id = self.some_id()
        producer, commit = self.some_producer(transactional_id), self.rng.random() < 0.6
        if producer[1] >= MAX_EPOCH:
            return
        version = self.rng.choice((4, 5, 5)) if self.level else 4
        known = len(self.ours.log)
        theirs = self.ask("end", transactional_id, *producer, int(commit), 2 if version == 5 else 0)
        answer = self.ours.end(producer, commit=commit, transactional_id=transactional_id, version=version)
        if version < 5:  # whose answer has only the code
            answer = (answer[0], -1, -1)
            theirs = theirs._replace(answers=[f"{theirs.answers[0].split(' ')[0]} -1 -1"])
        self.compare(theirs, known, [" ".join(map(str, answer))])

    def marked(self) -> None:
        if not self.wanted:
            return
        transactional_id = self.rng.choice(sorted(self.wanted))
        markers = self.wanted.pop(transactional_id)
        known = len(self.ours.log)
        theirs = self.ask("marked", transactional_id)
        self.ours.mark(markers)
        self.compare(theirs, known, [])

    def timeouts(self) -> None:
        self.abort_timed_out(self.rng.choice((0, 5_000, 60_000)))

    def abort_timed_out(self, after_ms: int) -> bool:
        at_ms = self.ours.now_ms + after_ms
        transactions = self.ours.transactions.values()
        if sum(each.is_exhausted and each.is_timed_out(at_ms) for each in transactions) > 1:
            return False  # whose turn it is to get a new producer id is for Kafka's hash table to say
        self.ours.now_ms = at_ms
        known = len(self.ours.log)
        theirs = self.ask("timeouts")
        if self.ours.coordinator.next_deadline_ms() is not None:
            self.ours.tell(TransactionTimersDue(self.ours.now_ms, self.ours.new_producer_id()))
        self.compare(theirs, known, [])
        return True

    def expire(self) -> None:
        self.ours.now_ms += self.rng.choice((EXPIRATION_MS // 2, EXPIRATION_MS))
        if not self.abort_timed_out(0):
            return
        known = len(self.ours.log)
        theirs = self.ask("expire")
        self.ours.expire()
        self.compare(theirs, known, [])

    def describe(self) -> None:
        transactional_id = self.some_id()
        known = len(self.ours.log)
        theirs = self.ask("describe", transactional_id)
        described = self.ours.describe(transactional_id)
        partitions = sorted((topic.topic, each) for topic in described.topics for each in topic.partitions)
        answer = (
            f"{described.error_code} {described.transaction_state} {described.transaction_timeout_ms} "
            f"{described.transaction_start_time_ms} {described.producer_id} {described.producer_epoch} "
            f"{_named(partitions)}"
        )
        self.compare(theirs, known, [answer])

    def list(self) -> None:
        states = self.rng.sample([*STATE_NAMES.values(), "Unknown", "ongoing"], self.rng.choice((0, 1, 3)))
        producers = [self.some_producer(self.some_id())[0] for _ in range(self.rng.choice((0, 0, 2)))]
        duration_ms = self.rng.choice((-1, -1, 0, 5_000))
        pattern = self.rng.choice(PATTERNS)
        known = len(self.ours.log)
        theirs = self.ask("list", ",".join(states), ",".join(map(str, producers)), duration_ms, pattern)
        response = self.ours.listing(
            state_filters=states,
            producer_id_filters=producers,
            duration_filter=duration_ms,
            transactional_id_pattern=pattern,
        )
        found = sorted(
            f"{each.transactional_id}:{each.producer_id}:{each.transaction_state}"
            for each in response.transaction_states
        )
        answer = f"{response.error_code} {','.join(sorted(response.unknown_state_filters))} {','.join(found)}"
        self.compare(theirs, known, [answer])

    def restart(self) -> None:
        if not self.abort_timed_out(0):
            return
        known = len(self.ours.log)
        theirs = self.ask("restart")
        self.wanted.clear()
        self.ours.restart()
        self.compare(theirs, known, [])

    def near_exhaustion(self) -> None:
        """A transactional id that was used very often."""
        transactional_id = self.some_id()
        transaction = self.ours.transactions.get(transactional_id)
        if transaction is None or transaction.is_prepared or transaction.state is TransactionState.ONGOING:
            return
        if not self.abort_timed_out(0):
            return
        worn = transaction._replace(producer_epoch=self.rng.randrange(32_763, 32_767))
        self._load(transactional_id, worn)

    def _load(self, transactional_id: str, transaction: Transaction) -> None:
        record = TransactionRecord(transactional_id, transaction, min(self.ours.settings.transaction_version, 1))
        key, value = record.encoded()
        assert value is not None
        self.steps.append(f"load {record}")
        self.kafka.ask("load", key.hex(), value.hex())
        self.ours.log.append((key, value))
        self.restart()

    def change_level(self) -> None:
        if not self.level:
            return
        level = self.rng.choice((1, 2))
        self.steps.append(f"level {level}")
        self.kafka.ask("level", level)
        self.ours.settings = self.ours.settings._replace(transaction_version=level)


def _shown(key: bytes, value: bytes | None) -> str:
    """A record: its bytes, or its fields with topics in one order, since Kafka has that of its hash table."""
    if value is None:
        return f"{key!r} forgotten"
    decoded = decode_value(0, value)
    if sum(len(topic.partition_ids) for topic in decoded.transaction_partitions or ()) < 2:
        return f"{key!r} {value!r}"
    for topic in decoded.transaction_partitions or ():
        topic.partition_ids.sort()
    if decoded.transaction_partitions:
        decoded.transaction_partitions.sort(key=lambda topic: topic.topic)
    return f"{key!r} {value[:2]!r} {decoded}"


def _named(partitions: list[Partition]) -> str:
    return ",".join(f"{topic}:{each}" for topic, each in partitions)


def _markers(markers: WriteMarkers) -> str:
    return (
        f"{markers.transactional_id} {markers.producer_id} {markers.producer_epoch} {int(markers.commit)} "
        f"{markers.transaction_version} {_named(sorted(markers.partitions))}"
    )


@pytest.mark.java
@pytest.mark.parametrize("level", [0, 1, 2])
def test_answers_records_and_markers_are_those_of_kafka(
    request: pytest.FixtureRequest, kafka: KafkaTransactions, level: int
) -> None:
    for seed in range(request.config.getoption("--transaction-histories")):
        play(kafka, level, seed)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_answers_records_and_markers_are_those_that_kafka_gave(recorded: Play, level: int) -> None:
    kafka = KafkaTransactions(recorded(started))
    for seed in range(RECORDED):
        play(kafka, level, seed)


def play(kafka: KafkaTransactions, level: int, seed: int) -> None:
    twins = Twins(kafka, Random(f"{level} {seed}"), level)
    for _ in range(STEPS):
        twins.step()
