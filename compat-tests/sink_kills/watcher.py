"""A consumer with ``read_committed`` that reads a topic from its beginning, while everything around it is killed."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise

from confluent_kafka import Consumer, TopicPartition

PARTITIONS = 3


class Watcher:
    """Reads in a thread. ``values`` has the numbers of each partition in the order in which they came."""

    def __init__(self, servers: str, topic: str) -> None:
        self.values: dict[int, list[int]] = {partition: [] for partition in range(PARTITIONS)}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._consumer = Consumer(
            {
                "bootstrap.servers": servers,
                "group.id": "watcher",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "reconnect.backoff.max.ms": 200,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, partition, 0) for partition in range(PARTITIONS)])

    def __len__(self) -> int:
        return sum(map(len, self.values.values()))

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Read as long as the block runs."""
        self._thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            self._thread.join(30)
            self._consumer.close()

    def _read(self) -> None:
        while not self._stopping.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and message.error() is None:
                self.values[message.partition()].append(int(message.value()))


def faults(values: Mapping[int, Sequence[int]], rows_per_batch: int) -> list[str]:
    """The faults in the numbers of each partition: lost, twice, in a wrong order, or a micro-batch in part."""
    found = sorted(number for numbers in values.values() for number in numbers)
    wrong = []
    twice = sorted({number for number, following in pairwise(found) if number == following})
    if twice:
        wrong.append(f"twice: {twice[:10]} and {max(len(twice) - 10, 0)} more")
    lost = sorted(set(range(found[-1] + 1 if found else 0)) - set(found))
    if lost:
        wrong.append(f"lost: {lost[:10]} and {max(len(lost) - 10, 0)} more")
    if len(found) % rows_per_batch:
        wrong.append(f"{len(found)} rows are no whole number of micro-batches of {rows_per_batch}")
    for partition, numbers in values.items():
        batches = [number // rows_per_batch for number in numbers]
        if batches != sorted(batches):
            wrong.append(f"partition {partition} has micro-batches in a wrong order")
    return wrong
