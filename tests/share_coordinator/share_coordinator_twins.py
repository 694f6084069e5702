"""A share coordinator here and Kafka's, with the same random history of a few share partitions, compared byte by byte.

Not compared: the order of the records of many share partitions in one batch, which is that of Kafka's hash table. Where
it differs, both coordinators are loaded again from Kafka's records.
"""

from random import Random
from types import ModuleType
from typing import Any

from kafka_share_coordinator import KafkaShareCoordinator, Outcome
from share_coordinator_world import MONOTONIC_LAG_MS, OTHER, TOPIC, Batch, ShareCoordinatorWorld, state_batches

from kpybroker.machines.share_coordinator.key import SharePartitionKey
from kpybroker.machines.share_coordinator.record import decode
from kpybroker.machines.share_coordinator.state_batches import StateBatch, combine
from kpywire.codec import encode
from kpywire.messages import (
    delete_share_group_state,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    write_share_group_state,
)
from kpywire.uuid import to_string

STEPS = 120
STEPS_SHOWN = 30
COLD_MS = 10_000
UNKNOWN = bytes(14) + b"\x01\x09"
STEP_WEIGHTS = {
    "initialize": 6,
    "write": 40,
    "read": 12,
    "summary": 8,
    "delete": 4,
    "cold": 6,
    "prune": 6,
    "delete_topic": 1,
    "restart": 3,
}
CLASSES: dict[ModuleType, tuple[int, str, str]] = {
    initialize_share_group_state: (83, "InitializeShareGroupState", "Initialize"),
    read_share_group_state: (84, "ReadShareGroupState", "Read"),
    write_share_group_state: (85, "WriteShareGroupState", "Write"),
    delete_share_group_state: (86, "DeleteShareGroupState", "Delete"),
    read_share_group_state_summary: (87, "ReadShareGroupStateSummary", "ReadStateSummary"),
}


def some_batches(rng: Random, most: int = 5) -> list[Batch]:
    batches = []
    for _ in range(rng.randrange(most)):
        first = rng.randrange(30)
        batches.append((first, first + rng.choice((0, 1, 3, 9)), rng.choice((0, 2, 4)), rng.randrange(1, 4)))
    return batches


class Twins:
    """The same inputs to both."""

    def __init__(self, kafka: KafkaShareCoordinator, rng: Random) -> None:
        self.kafka = kafka
        self.rng = rng
        updates = rng.choice((0, 1, 3, 500))
        self.ours = ShareCoordinatorWorld(updates_per_snapshot=updates, cold_snapshot_interval_ms=COLD_MS)
        self.steps: list[str] = []
        self.kafka.ask("reset", updates, COLD_MS)
        for topic_id, partitions in self.ours.topics.items():
            self.kafka.ask("topic", to_string(topic_id), partitions)

    def step(self) -> None:
        self.ours.now_ms += self.rng.choice((0, 1, 1_000))
        due_ms = self.ours.coordinator.next_deadline_ms()
        if due_ms is not None and due_ms + MONOTONIC_LAG_MS <= self.ours.now_ms:
            self.cold()
        name = self.rng.choices(list(STEP_WEIGHTS), list(STEP_WEIGHTS.values()))[0]
        getattr(self, name)()

    def tell(self, *words: object) -> Outcome:
        self.kafka.ask("time", self.ours.now_ms)
        self.steps.append(f"{self.ours.now_ms} {' '.join(map(str, words))}")
        outcome = self.kafka.ask(*words)
        self.steps.append(f"    {outcome.answer} {[decode(*each) for each in outcome.records]}")
        return outcome

    def compare(self, theirs: Outcome, known: int, answer: str) -> None:
        __tracebackhide__ = True
        history = "\n".join(self.steps[-STEPS_SHOWN:])
        assert answer == theirs.answer, history
        ours = self.ours.log[known:]
        assert sorted(map(repr, ours)) == sorted(map(repr, theirs.records)), history
        if ours != theirs.records:
            self.ours.log[known:] = theirs.records
            self.restart()

    def ask(self, module: ModuleType, **fields: Any) -> None:
        key = self.some_key()
        number, name, kind = CLASSES[module]
        part = module.PartitionData(partition=key.partition, **fields)
        topics = [getattr(module, _of(kind, "Data"))(topic_id=key.topic_id, partitions=[part])]
        request = getattr(module, f"{name}Request")(group_id=key.group_id, topics=topics)
        version = max(request.VERSIONS)
        self.steps.append(f"{key} {part}")
        theirs = self.tell("ask", number, version, encode(request, version).hex())
        known = len(self.ours.log)
        result = self.ours.ask(key, part)
        topics = [getattr(module, _of(kind, "Result"))(topic_id=key.topic_id, partitions=[result])]
        response = getattr(module, f"{name}Response")(results=topics)
        self.compare(theirs, known, encode(response, version).hex())

    def some_key(self) -> SharePartitionKey:
        rare = self.rng.random()
        topic_id = UNKNOWN if rare < 0.03 else self.rng.choice((TOPIC, OTHER))
        partition = -1 if rare > 0.98 else 4 if rare > 0.96 else self.rng.randrange(2)
        return SharePartitionKey(self.rng.choice("gh"), topic_id, partition)

    def some_epoch(self) -> int:
        return self.rng.choice((-1, 0, 1, 1, 2, 2, 3))

    # Steps

    def initialize(self) -> None:
        start_offset = self.rng.choice((-1, 0, 5))
        self.ask(initialize_share_group_state, state_epoch=self.some_epoch(), start_offset=start_offset)

    def write(self) -> None:
        self.ask(
            write_share_group_state,
            state_epoch=self.some_epoch(),
            leader_epoch=self.some_epoch(),
            start_offset=self.rng.choice((-1, -1, 0, 5, 12)),
            delivery_complete_count=self.rng.choice((-1, 0, 7)),
            state_batches=state_batches(some_batches(self.rng)),
        )

    def read(self) -> None:
        self.ask(read_share_group_state, leader_epoch=self.some_epoch())

    def summary(self) -> None:
        self.ask(read_share_group_state_summary, leader_epoch=self.some_epoch())

    def delete(self) -> None:
        self.ask(delete_share_group_state)

    def cold(self) -> None:
        due_ms = self.ours.coordinator.next_deadline_ms()
        assert due_ms is not None
        self.ours.now_ms = max(self.ours.now_ms, due_ms + MONOTONIC_LAG_MS)
        theirs = self.tell("cold")
        known = len(self.ours.log)
        self.ours.run_timers()
        self.compare(theirs, known, "")

    def prune(self) -> None:
        offset = self.ours.cut()
        self.compare(self.tell("prune"), len(self.ours.log), "none" if offset is None else str(offset))

    def delete_topic(self) -> None:
        topic_id = self.rng.choice((TOPIC, OTHER))
        self.kafka.ask("topic", to_string(topic_id), 0)
        theirs = self.tell("cleanup", to_string(topic_id))
        known = len(self.ours.log)
        self.ours.delete_topics(topic_id)
        self.compare(theirs, known, "")
        self.ours.topics[topic_id] = 4  # a topic of another test, as it were
        self.kafka.ask("topic", to_string(topic_id), 4)

    def restart(self) -> None:
        self.tell("restart", self.ours.log_start)
        self.ours.restart()


def _of(kind: str, what: str) -> str:
    return f"{kind}State{what}" if not kind.startswith("ReadState") else f"{kind}{what}"


def play(kafka: KafkaShareCoordinator, seed: int) -> None:
    """A history."""
    twins = Twins(kafka, Random(seed))
    for _ in range(STEPS):
        twins.step()


def merge(kafka: KafkaShareCoordinator, times: int) -> None:
    """Merge random batches of states."""
    rng = Random(1)
    for _ in range(times):
        before, new, start = some_batches(rng, 7), some_batches(rng, 7), rng.choice((-1, 0, 7, 20))
        theirs = kafka.ask("combine", start, _written(before), _written(new)).answer
        ours = combine(_read(before), _read(new), start)
        found = ";".join(f"{first},{last},{state},{count}" for first, last, count, state in ours)
        assert found == theirs, (before, new, start)


def _written(batches: list[Batch]) -> str:
    return ";".join(",".join(map(str, each)) for each in batches)


def _read(batches: list[Batch]) -> list[StateBatch]:
    return [StateBatch(first, last, count, state) for first, last, state, count in batches]
