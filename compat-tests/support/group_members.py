"""Consumers of several clients in groups, each in a thread, and a ledger of who owned what and read what.

A member commits what it has read before it gives a partition away, as a careful application does. So, as long as
nobody is killed, each record is read once by the group, as members come and go.
"""

import asyncio
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

import confluent_kafka
import kafka
from kafka.structs import OffsetAndMetadata
from kafka.structs import TopicPartition as PythonTopicPartition

from support.waiting import eventually

SESSION_MS = 6_000
HEARTBEAT_MS = 300
POLL_S = 0.1
COMMIT_EVERY_S = 0.5


class Ledger:
    """The deeds of a group's members. Each call reports what a member knows at that moment."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.owners: dict[int, str] = {}
        self.read: dict[int, Counter[int]] = defaultdict(Counter)
        self.rounds: Counter[str] = Counter()
        """How often each member was given partitions."""
        self.violations: list[str] = []

    def assigned(self, member: str, partitions: Iterable[int]) -> None:
        with self._lock:
            self.rounds[member] += 1
            for partition in partitions:
                owner = self.owners.get(partition)
                if owner not in (None, member):
                    self.violations.append(f"{member} got partition {partition} while {owner} had it")
                self.owners[partition] = member

    def revoked(self, member: str, partitions: Iterable[int]) -> None:
        with self._lock:
            for partition in partitions:
                if self.owners.get(partition) == member:
                    del self.owners[partition]

    def take(self, partition: int, offset: int) -> None:
        with self._lock:
            self.read[partition][offset] += 1

    def count(self) -> int:
        """How many different records were read."""
        with self._lock:
            return sum(map(len, self.read.values()))

    def owned_by(self, member: str) -> set[int]:
        with self._lock:
            return {partition for partition, owner in self.owners.items() if owner == member}

    def lost(self, ends: Mapping[int, int]) -> list[tuple[int, int]]:
        """(partition, offset) of what nobody read, given the ends of all partitions."""
        with self._lock:
            return [(p, offset) for p, end in ends.items() for offset in range(end) if offset not in self.read[p]]

    def repeated(self) -> list[tuple[int, int]]:
        """(partition, offset) of what was read more than once."""
        with self._lock:
            return [(p, offset) for p, read in self.read.items() for offset, times in read.items() if times > 1]


class Member(threading.Thread, ABC):
    """A consumer in a group. ``leave`` ends it and waits; it must not have met an error."""

    def __init__(
        self, name: str, ledger: Ledger, bootstrap_servers: str, topic: str, group: str, instance_id: str | None = None
    ) -> None:
        super().__init__(name=name, daemon=True)
        self.ledger = ledger
        self.bootstrap_servers = bootstrap_servers
        self.topic = topic
        self.group = group
        self.instance_id = instance_id
        self.session_ms = SESSION_MS
        self.next_offsets: dict[int, int] = {}
        self.errors: list[str] = []
        self._leaving = threading.Event()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leaving.set()
        self.join(30)

    def leave(self) -> None:
        self._leaving.set()
        self.join(30)
        assert not self.is_alive(), f"{self.name} does not end"
        assert not self.errors, self.errors

    def run(self) -> None:
        try:
            self.consume()
        except Exception as error:
            self.errors.append(f"{self.name}: {error!r}")

    @abstractmethod
    def consume(self) -> None: ...

    def took(self, partition: int | None, offset: int | None) -> None:
        assert partition is not None
        assert offset is not None
        self.ledger.take(partition, offset)
        self.next_offsets[partition] = offset + 1

    def owned(self) -> set[int]:
        return self.ledger.owned_by(self.name)

    def wait_for(self, partitions: int) -> None:
        """Wait until this member owns that many partitions."""
        eventually(
            lambda: self.errors or len(self.owned()) == partitions,
            f"{self.name} to own {partitions} partitions",
            within_s=60,
        )
        assert not self.errors, self.errors


class ConfluentMember(Member):
    """librdkafka, by the eager range assignor."""

    strategy = "range"

    def protocol(self) -> dict[str, Any]:
        """The configs of the group protocol that it speaks."""
        return {
            "partition.assignment.strategy": self.strategy,
            "session.timeout.ms": self.session_ms,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }

    def consume(self) -> None:
        config: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": self.group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "reconnect.backoff.max.ms": 500,
            "log_level": 0,
            **self.protocol(),
        }
        if self.instance_id is not None:
            config["group.instance.id"] = self.instance_id
        consumer = confluent_kafka.Consumer(config)
        consumer.subscribe([self.topic], on_assign=self._assigned, on_revoke=self._revoked, on_lost=self._lost)
        committed_at = time.monotonic()
        while not self._leaving.is_set():
            for message in consumer.consume(100, POLL_S):
                if message.error() is None:
                    self.took(message.partition(), message.offset())
            if time.monotonic() - committed_at > COMMIT_EVERY_S:
                committed_at = time.monotonic()
                self._commit(consumer, list(self.next_offsets))
        self._commit(consumer, list(self.next_offsets))
        consumer.close()

    def _commit(self, consumer: Any, partitions: Sequence[int]) -> None:
        offsets = [
            confluent_kafka.TopicPartition(self.topic, partition, self.next_offsets[partition])
            for partition in partitions
            if partition in self.next_offsets
        ]
        if not offsets:
            return
        try:
            consumer.commit(offsets=offsets, asynchronous=False)
        except confluent_kafka.KafkaException as error:
            if not error.args[0].retriable() and error.args[0].code() not in _PASSING:
                raise

    def _assigned(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        self.ledger.assigned(self.name, [each.partition for each in partitions])

    def _revoked(self, consumer: Any, partitions: Sequence[Any]) -> None:
        given_away = [each.partition for each in partitions]
        self._commit(consumer, given_away)
        self._lost(consumer, partitions)

    def _lost(self, _consumer: Any, partitions: Sequence[Any]) -> None:
        for each in partitions:
            self.next_offsets.pop(each.partition, None)
        self.ledger.revoked(self.name, [each.partition for each in partitions])


_PASSING: Final = {
    confluent_kafka.KafkaError.REBALANCE_IN_PROGRESS,
    confluent_kafka.KafkaError.ILLEGAL_GENERATION,
    confluent_kafka.KafkaError.UNKNOWN_MEMBER_ID,
    confluent_kafka.KafkaError.STALE_MEMBER_EPOCH,
    confluent_kafka.KafkaError._TRANSPORT,
    confluent_kafka.KafkaError._TIMED_OUT,
    confluent_kafka.KafkaError._WAIT_COORD,
    confluent_kafka.KafkaError._ALL_BROKERS_DOWN,
}
"""A commit that comes too late, or while the broker is away: the next owner reads again."""


class CooperativeMember(ConfluentMember):
    """librdkafka, by the incremental protocol (KIP-429)."""

    strategy = "cooperative-sticky"


class NextProtocolMember(ConfluentMember):
    """librdkafka, by the consumer protocol (KIP-848)."""

    def protocol(self) -> dict[str, Any]:
        return {"group.protocol": "consumer"}


class PythonMember(Member):
    """kafka-python."""

    def consume(self) -> None:
        consumer = kafka.KafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            reconnect_backoff_max_ms=500,
            # A leader may assign before it knows the topic's partitions; it sees that with the next metadata.
            metadata_max_age_ms=1_000,
        )
        consumer.subscribe([self.topic], listener=_PythonListener(self, consumer))
        committed_at = time.monotonic()
        while not self._leaving.is_set():
            # A poll that ends while the group is being joined forgets, in kafka-python 3.0, that it has been joined.
            polled: dict[Any, Any] = {}
            with suppress(kafka.errors.KafkaConnectionError):
                polled = consumer.poll(timeout_ms=1_000)
            for records in polled.values():
                for record in records:
                    self.took(record.partition, record.offset)
            if time.monotonic() - committed_at > COMMIT_EVERY_S:
                committed_at = time.monotonic()
                self.commit(consumer)
        self.commit(consumer)
        consumer.close(autocommit=False)
        self.ledger.revoked(self.name, self.owned())

    def commit(self, consumer: Any) -> None:
        offsets = self.offsets_of(list(self.next_offsets))
        if offsets:
            with suppress(*_LATE):
                consumer.commit(offsets)

    def offsets_of(self, partitions: Sequence[int]) -> dict[Any, Any]:
        return {
            PythonTopicPartition(self.topic, partition): OffsetAndMetadata(self.next_offsets[partition], "", -1)
            for partition in partitions
            if partition in self.next_offsets
        }


_LATE = (kafka.errors.CommitFailedError, kafka.errors.KafkaConnectionError, kafka.errors.RetriableError)


class _PythonListener(kafka.AsyncConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, member: PythonMember, consumer: Any) -> None:
        self.member = member
        self.consumer = consumer

    async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
        self.member.ledger.assigned(self.member.name, [each.partition for each in assigned])

    async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
        given_away = [each.partition for each in revoked]
        offsets = self.member.offsets_of(given_away)
        if offsets:
            with suppress(*_LATE):
                await self.consumer.commit_async(offsets)
        self._forget(given_away)

    async def on_partitions_lost(self, lost: Iterable[Any]) -> None:
        self._forget([each.partition for each in lost])

    def _forget(self, partitions: Sequence[int]) -> None:
        for partition in partitions:
            self.member.next_offsets.pop(partition, None)
        self.member.ledger.revoked(self.member.name, partitions)


class AsyncMember(Member):
    """aiokafka, in an event loop of its own."""

    def consume(self) -> None:
        asyncio.run(self._consume())

    async def _consume(self) -> None:
        import aiokafka

        consumer = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers,
            group_id=self.group,
            group_instance_id=self.instance_id,
            auto_offset_reset="earliest",
            enable_auto_commit=False,
            session_timeout_ms=self.session_ms,
            heartbeat_interval_ms=HEARTBEAT_MS,
            retry_backoff_ms=100,
        )
        member = self

        class Listener(aiokafka.ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: Iterable[Any]) -> None:
                given_away = [each.partition for each in revoked]
                await member._commit(consumer, given_away)
                for partition in given_away:
                    member.next_offsets.pop(partition, None)
                member.ledger.revoked(member.name, given_away)

            async def on_partitions_assigned(self, assigned: Iterable[Any]) -> None:
                member.ledger.assigned(member.name, [each.partition for each in assigned])

        consumer.subscribe([self.topic], listener=Listener())
        await consumer.start()
        try:
            committed_at = time.monotonic()
            while not self._leaving.is_set():
                for records in (await consumer.getmany(timeout_ms=int(1000 * POLL_S))).values():
                    for record in records:
                        self.took(record.partition, record.offset)
                if time.monotonic() - committed_at > COMMIT_EVERY_S:
                    committed_at = time.monotonic()
                    await self._commit(consumer, list(self.next_offsets))
            await self._commit(consumer, list(self.next_offsets))
        finally:
            await consumer.stop()
            self.ledger.revoked(self.name, self.owned())

    async def _commit(self, consumer: Any, partitions: Sequence[int]) -> None:
        import aiokafka

        offsets = {
            aiokafka.TopicPartition(self.topic, partition): self.next_offsets[partition]
            for partition in partitions
            if partition in self.next_offsets and self.ledger.owners.get(partition) == self.name
        }
        if offsets:
            try:
                await consumer.commit(offsets)
            except (aiokafka.errors.CommitFailedError, aiokafka.errors.IllegalStateError):
                return


MEMBERS: Final[Mapping[str, type[Member]]] = {
    "kafka-python": PythonMember,
    "confluent-range": ConfluentMember,
    "confluent-cooperative": CooperativeMember,
    "confluent-consumer-protocol": NextProtocolMember,
    "aiokafka": AsyncMember,
}


class Load(threading.Thread):
    """Writes numbered records to all partitions of a topic, until told to stop."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, per_second: int = 1_000) -> None:
        super().__init__(name=f"load of {topic}", daemon=True)
        self.topic = topic
        self.partitions = partitions
        self.pause_s = partitions / per_second
        self.ends = dict.fromkeys(range(partitions), 0)
        self.errors: list[str] = []
        self._stopping = threading.Event()
        self._producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "linger.ms": 5,
                "enable.idempotence": True,
                "reconnect.backoff.max.ms": 500,
                "log_level": 0,
            }
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopping.set()
        self.join(60)

    def run(self) -> None:
        while not self._stopping.is_set():
            for partition in range(self.partitions):
                self._producer.produce(self.topic, b"v" * 50, partition=partition, on_delivery=self._delivered)
            self._producer.poll(self.pause_s)
        self._producer.flush(60)

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.errors.append(str(error))
        else:
            self.ends[message.partition()] = max(self.ends[message.partition()], message.offset() + 1)

    def finish(self) -> dict[int, int]:
        """Stop; the end of each partition."""
        self._stopping.set()
        self.join(60)
        assert not self.errors, self.errors[:3]
        return self.ends
