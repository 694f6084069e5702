"""Clients while a cluster is upgraded, or its security changes: they write, read in a group and commit transactions.

They remember what they did. Nothing may be asked of them beyond their own retries: whatever one of them raises or
gives up is a failure.
"""

import threading
from abc import ABC, abstractmethod
from collections import defaultdict
from typing import Final

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import wait_for_in_sync
from failover.producing import ConfluentWriter
from failover.run import PARTITIONS, TOPIC, read_all
from failover.verdict import judge
from support.access import Access
from support.clusters import Nodes

IN_TRANSACTIONS: Final = "in-transactions"
GROUP: Final = "upgrade-readers"
PATIENCE_S: Final = 60
ABORTED_EACH: Final = 4
SESSION_MS: Final = 300_000
"""Longer than any node is away, also on a machine that does much else: a member that is too slow is not the subject."""
PAUSE_S: Final = 0.02
TURN_S: Final = 0.025
"""The writer's pause between 50 records: nodes have work at every moment, and a core is left for their restarts."""


class Client(ABC):
    """Works in a thread of its own until it is stopped."""

    def __init__(self) -> None:
        self.failures: list[str] = []
        self.stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Do no more, and wait for what is under way."""
        self.stopping.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            self.work()
        except Exception as error:
            self.failures.append(f"{type(self).__name__}: {error!r}")

    @abstractmethod
    def work(self) -> None: ...


class GroupReader(Client):
    """The only member of a group. Reads what the writer writes, and commits what it has read."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self.read: dict[int, list[int]] = defaultdict(list)
        """The offsets of each partition, as they came."""
        self._consumer = Consumer(
            {
                **access.librdkafka,
                "group.id": GROUP,
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "session.timeout.ms": SESSION_MS,
            }
        )

    def work(self) -> None:
        self._consumer.subscribe([TOPIC])
        while not self.stopping.is_set():
            for message in self._consumer.consume(500, 0.2):
                partition, offset, error = message.partition(), message.offset(), message.error()
                if error is None and partition is not None and offset is not None:
                    self.read[partition].append(offset)
                elif error is not None and error.fatal():
                    self.failures.append(str(error))
            self._consumer.commit(offsets=self._positions(), asynchronous=True)
        self._consumer.commit(offsets=self._positions(), asynchronous=False)
        self._consumer.close()

    def _positions(self) -> list[TopicPartition]:
        return [TopicPartition(TOPIC, index, offsets[-1] + 1) for index, offsets in self.read.items()]

    def gaps(self, earlier: "GroupReader | None" = None) -> list[str]:
        """The places where it was not given the next record: some were left out, or came again.

        ``earlier`` was the member of the group before this one.
        """
        ends = {index: offsets[-1] for index, offsets in earlier.read.items()} if earlier else {}
        return [
            f"{index}: {before} -> {after}"
            for index, offsets in self.read.items()
            for before, after in zip([ends.get(index, -1), *offsets], offsets, strict=False)
            if after != before + 1
        ]


class TransactionWriter(Client):
    """Writes a number to each of two partitions in one transaction, and aborts one transaction of four."""

    def __init__(self, access: Access) -> None:
        super().__init__()
        self.committed: list[int] = []
        self._producer = Producer({**access.librdkafka, "transactional.id": "upgraded", "linger.ms": 0})

    def work(self) -> None:
        self._producer.init_transactions(PATIENCE_S)
        number = 0
        while not self.stopping.wait(PAUSE_S):
            self._producer.begin_transaction()
            for partition in range(2):
                self._producer.produce(IN_TRANSACTIONS, b"%d" % number, partition=partition)
            if number % ABORTED_EACH == ABORTED_EACH - 1:
                self._producer.abort_transaction(PATIENCE_S)
            else:
                self._producer.commit_transaction(PATIENCE_S)
                self.committed.append(number)
            number += 1


class Load:
    """All of them at once, at one cluster. ``name`` is that of the writer, which others must not have."""

    def __init__(self, access: Access, name: str = "confluent-kafka", *, in_transactions: bool = True) -> None:
        self.writer = ConfluentWriter(name, access, TOPIC, PARTITIONS)
        self.writer.turn_s = TURN_S
        self.reader, self.transactions = GroupReader(access), TransactionWriter(access)
        self._in_transactions = in_transactions

    def start(self) -> None:
        self.writer.start()
        self.reader.start()
        if self._in_transactions:
            self.transactions.start()

    def stop(self) -> None:
        self.writer.stop()
        if self._in_transactions:
            self.transactions.stop()
        self.reader.stop()

    @property
    def is_under_way(self) -> bool:
        """Whether each of them has done something, or has given up."""
        commits = self.transactions.committed or not self._in_transactions
        return bool(self.failures or (self.writer.count and self.reader.read and commits))

    @property
    def failures(self) -> list[str]:
        return self.writer.failures + self.reader.failures + self.transactions.failures


def create_topics(cluster: Nodes) -> None:
    """The topics that they use, in sync on all nodes."""
    admin = AdminClient(cluster.access.librdkafka)
    config, size = {"min.insync.replicas": "2"}, len(cluster.nodes)
    wanted = [NewTopic(TOPIC, PARTITIONS, size, config=config), NewTopic(IN_TRANSACTIONS, 2, size, config=config)]
    for created in admin.create_topics(wanted).values():
        created.result(60)
    wait_for_in_sync(cluster, TOPIC, size)


def committed_numbers(access: Access, partition: int) -> list[int]:
    """The numbers that a reader of committed records finds in a partition that transactions were written to."""
    consumer = Consumer({**access.librdkafka, "group.id": "judge", "enable.partition.eof": True})
    consumer.assign([TopicPartition(IN_TRANSACTIONS, partition, 0)])
    found: list[int] = []
    try:
        while True:
            (message,) = consumer.consume(1, PATIENCE_S)
            error = message.error()
            if error is None:
                found.append(int(message.value() or b""))
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
    finally:
        consumer.close()


def assert_nothing_lost(load: Load, access: Access) -> None:
    """No client had an error or a gap, and everything that was acknowledged or committed is read, once and in order."""
    assert load.failures == []
    verdict = judge(load.writer.acknowledged, read_all(access))
    assert verdict.is_clean, verdict
    assert load.reader.gaps() == []
    for partition in range(2):
        assert committed_numbers(access, partition) == load.transactions.committed
