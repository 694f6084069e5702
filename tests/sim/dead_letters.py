"""The dead letters of the share group in a world, and the rules for them (KIP-1191).

Brokers are watched from inside: which dead letters they produce, which of them are confirmed, and which are given up.

Rules: a record that was rejected or counted out has a dead letter, unless the brokers gave it up after all attempts. No
other record has one. A dead letter that was confirmed is in its topic. One share partition, as a leader loaded it,
writes none twice after it was confirmed.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.share.dead_letters import ATTEMPTS, OFFSET, PARTITION, TOPIC
from kpybroker.requests.serving.share.dead_letter_writer import DeadLetterWriter
from kpywire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from kpywire.record import read_records

from .deliveries import Deliveries, Spot

if TYPE_CHECKING:
    from kpybroker.requests.serving.share.led import LedSharePartition

    from .machine import Machine
    from .world import World

NAME: Final = "dlq.sharers"
PARTITIONS: Final = 2
READ_BYTES: Final = 1 << 24


class DeadLetters:
    """All dead letters of one group."""

    def __init__(self, world: "World", machines: "list[Machine]", deliveries: Deliveries) -> None:
        self.world = world
        self.deliveries = deliveries
        self._machines = machines
        self._confirmed: Counter[Spot] = Counter()
        self._by: set[tuple[LedSharePartition, int]] = set()
        """The confirmed dead letters by share partition and offset."""
        self._given_up: set[Spot] = set()

    @property
    def configs(self) -> dict[str, str]:
        """The configs of the group."""
        return {"errors.deadletterqueue.topic.name": NAME}

    def creation(self, replicas: int) -> CreateTopicsRequest:
        """The request for the topic."""
        configs = {"errors.deadletterqueue.group.enable": "true", "min.insync.replicas": str(min(2, replicas))}
        topic = CreatableTopic(
            name=NAME,
            num_partitions=PARTITIONS,
            replication_factor=replicas,
            assignments=[],
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in configs.items()],
        )
        return CreateTopicsRequest(topics=[topic])

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch as long as this lasts."""
        written, give_up = DeadLetterWriter._written, DeadLetterWriter._give_up

        def confirmed(writer: Any, writing: Any, end: int) -> None:
            self._confirm(writing, end)
            written(writer, writing, end)

        def given_up(writer: Any, writing: Any, reason: str) -> None:
            if writing.led.end is None:
                self._give_up(writing, reason)
            give_up(writer, writing, reason)

        DeadLetterWriter._written = confirmed  # type: ignore[method-assign]
        DeadLetterWriter._give_up = given_up  # type: ignore[method-assign]
        try:
            yield
        finally:
            DeadLetterWriter._written = written  # type: ignore[method-assign]
            DeadLetterWriter._give_up = give_up  # type: ignore[method-assign]

    def _confirm(self, writing: Any, end: int) -> None:
        for offset in range(writing.next_offset, end):
            spot = (writing.origin.topic, writing.origin.partition, offset)
            if (writing.led, offset) in self._by:
                self.world.violated(f"the dead letter of {spot} is written twice by one leader")
            self._by.add((writing.led, offset))
            self._confirmed[spot] += 1

    def _give_up(self, writing: Any, reason: str) -> None:
        _, topic, index = writing.origin
        spots = {(topic, index, offset) for offset in range(writing.next_offset, writing.letters.last_offset + 1)}
        if writing.attempts < ATTEMPTS:
            self.world.violated(f"dead letters of {sorted(spots)} are given up at once: {reason}")
        self._given_up |= spots

    def verdict(self, there: set[Spot]) -> str:
        """The fault, once the group is done with everything. ``there``: the committed records of the topic."""
        letters = self._read()
        self.world.tell(f"dead letters: {letters.total()} of {len(letters)} records, {len(self._given_up)} given up")
        found = self.deliveries
        for spot in sorted(there - self._given_up - letters.keys()):
            if spot in found.rejected or found.is_counted_out(spot):
                return f"{spot} was rejected or counted out, and has no dead letter"
        for spot, count in letters.items():
            if spot not in found.perhaps_rejected and not found.may_be_counted_out(spot):
                return f"{spot} has a dead letter, and nobody rejected it"
            if count < self._confirmed[spot]:
                return f"{spot} has {count} dead letters, and {self._confirmed[spot]} were confirmed"
        for spot in sorted(self._confirmed.keys() - letters.keys()):
            return f"the dead letter of {spot} was confirmed, and is not there"
        return ""

    def _read(self) -> Counter[Spot]:
        """The dead letters of each record, as the leaders of the topic have them."""
        found: Counter[Spot] = Counter()
        for machine in self._machines:
            node = machine.node
            held = node.broker.replicas.topics.get(NAME) if node is not None else None
            for replica in held.replicas.values() if held is not None else ():
                if replica.is_led_here:
                    role = replica.led()
                    records = role.read(role.log.log_start_offset, READ_BYTES, role.high_watermark, min_one_batch=True)
                    found.update(_named(records.read()) if records is not None else ())
        return found


def _named(records: bytes) -> Iterator[Spot]:
    """The records that dead letters name."""
    for record in read_records(records):
        texts = {name: (value or b"").decode() for name, value in record.headers}
        yield texts[TOPIC], int(texts[PARTITION]), int(texts[OFFSET])
