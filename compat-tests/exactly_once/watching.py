"""Consumers that watch the workload from the side: one reads committed, one asks how far the group has come."""

import threading
import time
from collections.abc import Sequence
from typing import Any, Final

from confluent_kafka import Consumer, KafkaException, TopicPartition

from exactly_once.diary import Diary
from exactly_once.history import Partition, Seen
from exactly_once.program import GROUP
from support.access import Access

POLL_S: Final = 0.2
CALL_TIMEOUT_S: Final = 10.0
END_TIMEOUT_S: Final = 120.0


class TransactionStaysOpenError(TimeoutError):
    """A committed record does not reach the end of a partition."""


def consumer(access: Access, group: str = "watchers", isolation_level: str = "read_committed") -> Consumer:
    """A consumer that commits nothing."""
    return Consumer(
        {
            **access.librdkafka,
            "group.id": group,
            "isolation.level": isolation_level,
            "enable.auto.commit": False,
            "enable.partition.eof": False,
            "reconnect.backoff.max.ms": 500,
        }
    )


def seen_in(messages: Sequence[Any]) -> list[Seen]:
    """The records among what a consumer gave."""
    return [
        Seen((message.topic(), message.partition()), message.offset(), message.value().decode())
        for message in messages
        if message.error() is None
    ]


class Reader(threading.Thread):
    """Reads all partitions from their beginning, as they grow."""

    def __init__(self, access: Access, partitions: Sequence[Partition], diary: Diary) -> None:
        super().__init__(name="reader", daemon=True)
        self.stopping = threading.Event()
        self._access = access
        self._partitions = partitions
        self._diary = diary

    def run(self) -> None:
        reading = consumer(self._access)
        reading.assign([TopicPartition(*partition, 0) for partition in self._partitions])
        while not self.stopping.is_set():
            seen = seen_in(reading.consume(500, POLL_S))
            if seen:
                self._diary.note("poll", session="reader", seen=seen)
        reading.close()


class Asker(threading.Thread):
    """Asks for the positions of the group, again and again."""

    def __init__(self, access: Access, partitions: Sequence[Partition], diary: Diary) -> None:
        super().__init__(name="asker", daemon=True)
        self.stopping = threading.Event()
        self.access = access
        self.partitions = partitions
        self._diary = diary
        self.positions: dict[Partition, int] = {}
        """The group's positions, as they were last reported."""

    def run(self) -> None:
        asking = consumer(self.access, GROUP)
        while not self.stopping.wait(POLL_S):
            self.ask(asking)
        asking.close()

    def ask(self, asking: Consumer) -> None:
        """Once, if there is an answer."""
        began_s = time.monotonic()
        try:
            answers = asking.committed([TopicPartition(*each) for each in self.partitions], CALL_TIMEOUT_S)
        except KafkaException:
            return
        for answer in answers:
            if answer.error is None:
                partition = answer.topic, answer.partition
                offset = self.positions[partition] = max(answer.offset, -1)
                self._diary.note("committed", began_s=began_s, group=GROUP, partition=partition, offset=offset)


def read_to_the_end(access: Access, partitions: Sequence[Partition]) -> list[Seen]:
    """All that is committed, once no transaction is open any more. TransactionStaysOpenError if one does not end."""
    reading, everything = consumer(access), consumer(access, isolation_level="read_uncommitted")
    deadline_s = time.monotonic() + END_TIMEOUT_S
    ends = {partition: _end(reading, everything, partition, deadline_s) for partition in partitions}
    everything.close()
    reading.assign([TopicPartition(*partition, 0) for partition in partitions])
    seen: list[Seen] = []
    while any(max(place.offset, 0) < ends[place.topic, place.partition] for place in _places(reading, partitions)):
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"what is committed was not read: {_places(reading, partitions)} of {ends}")
        seen += seen_in(reading.consume(500, POLL_S))
    reading.close()
    return seen


def _end(reading: Consumer, everything: Consumer, partition: Partition, deadline_s: float) -> int:
    """The end of a partition in which no transaction is open, which is its last stable offset."""
    stable, end = -1, 0
    while stable < end:
        try:
            end = _last_offset(everything, partition)
            stable = _last_offset(reading, partition)
        except KafkaException:
            if time.monotonic() > deadline_s:
                raise
        if stable < end:
            if time.monotonic() > deadline_s:
                raise TransactionStaysOpenError(f"a transaction stays open at {stable} of {end} in {partition}")
            time.sleep(POLL_S)
    return stable


def _last_offset(asking: Consumer, partition: Partition) -> int:
    return int(asking.get_watermark_offsets(TopicPartition(*partition), CALL_TIMEOUT_S)[1])


def _places(reading: Consumer, partitions: Sequence[Partition]) -> list[Any]:
    return reading.position([TopicPartition(*partition) for partition in partitions])
