"""Transactional producers and their consumers behind one small surface: confluent-kafka, kafka-python, aiokafka.

A client is imported when it is wanted. Whatever it raises becomes `Refused`, after which the transaction can be
aborted, or `Lost`, after which only another producer can go on.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final

from exactly_once.history import Partition, Position, Seen
from support.access import Access

TRANSACTION_TIMEOUT_MS: Final = 6_000
CALL_TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.2
MOST_POLLED: Final = 20


class Refused(Exception):
    """The transaction cannot be committed; it can be aborted."""


class Lost(Exception):
    """The producer is fenced, or what became of a call is not known."""


class Client(ABC):
    """A transactional producer, and the consumer that reads its inputs."""

    def __init__(self, access: Access, transactional_id: str) -> None:
        self.access = access
        self.transactional_id = transactional_id

    @abstractmethod
    def begin(self) -> None: ...

    @abstractmethod
    def send(self, partition: Partition, value: str) -> None:
        """Does not wait."""

    @abstractmethod
    def flush(self) -> dict[str, int]:
        """Wait for what was sent: value -> offset."""

    @abstractmethod
    def send_position(self, position: Position) -> None: ...

    @abstractmethod
    def commit(self) -> None: ...

    @abstractmethod
    def abort(self) -> None: ...

    @abstractmethod
    def read_from(self, partition: Partition, group: str) -> None:
        """Read a partition from where the group has come to. A member reads what it is assigned of the topic."""

    @abstractmethod
    def poll(self) -> Sequence[Seen]:
        """The records that can be read now, or nothing after a while."""

    @abstractmethod
    def go_back_to(self, partition: Partition, offset: int) -> None:
        """Read on from here."""

    @abstractmethod
    def close(self) -> None:
        """Close the client as far as that works."""


class ConfluentClient(Client):
    """confluent-kafka (librdkafka)."""

    def __init__(self, access: Access, transactional_id: str) -> None:
        super().__init__(access, transactional_id)
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        self._error_class = KafkaException
        self._partition_class = TopicPartition
        common = {**access.librdkafka, "reconnect.backoff.max.ms": 500}
        self._producer = Producer(
            {
                **common,
                "transactional.id": transactional_id,
                "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "delivery.timeout.ms": TRANSACTION_TIMEOUT_MS,
                "linger.ms": 1,
            }
        )
        self._consumer_class, self._common = Consumer, common
        self._consumer: Any = None
        self._offsets: dict[str, int] = {}
        with self._notified():
            self._producer.init_transactions(CALL_TIMEOUT_S)

    @contextmanager
    def _notified(self) -> Iterator[None]:
        try:
            yield
        except self._error_class as error:
            if error.args[0].txn_requires_abort():
                raise Refused(str(error)) from error
            raise Lost(str(error)) from error

    def begin(self) -> None:
        self._offsets = {}
        with self._notified():
            self._producer.begin_transaction()

    def send(self, partition: Partition, value: str) -> None:
        def acknowledged(error: Any, message: Any) -> None:
            if error is None:
                self._offsets[value] = message.offset()

        with self._notified():
            self._producer.produce(partition[0], value.encode(), partition=partition[1], on_delivery=acknowledged)

    def flush(self) -> dict[str, int]:
        with self._notified():
            self._producer.flush(CALL_TIMEOUT_S)
        return self._offsets

    def send_position(self, position: Position) -> None:
        (topic, index), offset = position.partition, position.offset
        with self._notified():
            self._producer.send_offsets_to_transaction(
                [self._partition_class(topic, index, offset)], self._consumer.consumer_group_metadata(), CALL_TIMEOUT_S
            )

    def commit(self) -> None:
        with self._notified():
            self._producer.commit_transaction(CALL_TIMEOUT_S)

    def abort(self) -> None:
        with self._notified():
            self._producer.abort_transaction(CALL_TIMEOUT_S)

    def read_from(self, partition: Partition, group: str) -> None:
        settings = {"group.id": group, "isolation.level": "read_committed", "enable.auto.commit": False}
        self._consumer = self._consumer_class({**self._common, **settings})
        asked = self._partition_class(*partition)
        with self._notified():
            (found,) = self._consumer.committed([asked], CALL_TIMEOUT_S)
        self._consumer.assign([self._partition_class(*partition, max(found.offset, 0))])

    def poll(self) -> Sequence[Seen]:
        with self._notified():
            messages = self._consumer.consume(MOST_POLLED, POLL_S)
        return [
            Seen((message.topic(), message.partition()), message.offset(), message.value().decode())
            for message in messages
            if message.error() is None
        ]

    def go_back_to(self, partition: Partition, offset: int) -> None:
        with self._notified():
            self._consumer.seek(self._partition_class(*partition, offset))

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()


class ConfluentMember(ConfluentClient):
    """confluent-kafka, whose consumer is a member of a group of the consumer protocol (KIP-848)."""

    def read_from(self, partition: Partition, group: str) -> None:
        settings = {
            "group.id": group,
            "group.protocol": "consumer",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        self._consumer = self._consumer_class({**self._common, **settings})
        with self._notified():
            self._consumer.subscribe([partition[0]])


def _seen(polled: Mapping[Any, Sequence[Any]]) -> list[Seen]:
    """The records of a poll of kafka-python or aiokafka."""
    return [
        Seen((asked.topic, asked.partition), record.offset, record.value.decode())
        for asked, records in polled.items()
        for record in records
    ]


class KafkaPythonClient(Client):
    """kafka-python."""

    def __init__(self, access: Access, transactional_id: str) -> None:
        super().__init__(access, transactional_id)
        from kafka import KafkaProducer

        self._consumer: Any = None
        self._sent: list[tuple[str, Any]] = []
        with self._notified():
            self._producer = KafkaProducer(
                **access.kafka_python,
                transactional_id=transactional_id,
                transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
                delivery_timeout_ms=TRANSACTION_TIMEOUT_MS,
                request_timeout_ms=TRANSACTION_TIMEOUT_MS,
                linger_ms=0,
                reconnect_backoff_max_ms=500,
            )
            self._producer.init_transactions()

    @contextmanager
    def _notified(self) -> Iterator[None]:
        from kafka import errors

        try:
            yield
        except (errors.ProducerFencedError, errors.InvalidProducerEpochError, errors.KafkaTimeoutError) as error:
            raise Lost(repr(error)) from error
        except (errors.KafkaError, AssertionError, RuntimeError) as error:
            raise Refused(repr(error)) from error

    def begin(self) -> None:
        self._sent = []
        with self._notified():
            self._producer.begin_transaction()

    def send(self, partition: Partition, value: str) -> None:
        with self._notified():
            self._sent.append((value, self._producer.send(partition[0], value.encode(), partition=partition[1])))

    def flush(self) -> dict[str, int]:
        with self._notified():
            self._producer.flush(CALL_TIMEOUT_S)
            return {value: future.get(CALL_TIMEOUT_S).offset for value, future in self._sent}

    def send_position(self, position: Position) -> None:
        from kafka import OffsetAndMetadata, TopicPartition

        with self._notified():
            offsets = {TopicPartition(*position.partition): OffsetAndMetadata(position.offset, "", -1)}
            self._producer.send_offsets_to_transaction(offsets, self._consumer.group_metadata())

    def commit(self) -> None:
        with self._notified():
            self._producer.commit_transaction()

    def abort(self) -> None:
        with self._notified():
            self._producer.abort_transaction()

    def read_from(self, partition: Partition, group: str) -> None:
        from kafka import KafkaConsumer, TopicPartition

        with self._notified():
            self._consumer = KafkaConsumer(
                **self.access.kafka_python,
                group_id=group,
                isolation_level="read_committed",
                enable_auto_commit=False,
                reconnect_backoff_max_ms=500,
            )
            asked = TopicPartition(*partition)
            self._consumer.assign([asked])
            self._consumer.seek(asked, self._consumer.committed(asked) or 0)

    def poll(self) -> Sequence[Seen]:
        with self._notified():
            polled = self._consumer.poll(timeout_ms=int(POLL_S * 1000), max_records=MOST_POLLED)
        return _seen(polled)

    def go_back_to(self, partition: Partition, offset: int) -> None:
        from kafka import TopicPartition

        self._consumer.seek(TopicPartition(*partition), offset)

    def close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._producer.close(timeout=1)


class AiokafkaClient(Client):
    """aiokafka, whose loop runs while it is asked for something."""

    def __init__(self, access: Access, transactional_id: str) -> None:
        super().__init__(access, transactional_id)
        self._loop = asyncio.new_event_loop()
        self._sent: list[tuple[str, Any]] = []
        self._consumer: Any = None
        self._group = ""
        self._producer: Any = self._run(self._started())

    async def _started(self) -> Any:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(
            **self.access.aiokafka,
            transactional_id=self.transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            request_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        await producer.start()
        return producer

    def _run(self, doing: Any) -> Any:
        from aiokafka import errors

        try:
            return self._loop.run_until_complete(asyncio.wait_for(doing, CALL_TIMEOUT_S))
        except (errors.ProducerFenced, errors.InvalidProducerEpoch, errors.IllegalOperation, TimeoutError) as error:
            # What is illegal here is so since the producer was fenced meanwhile.
            raise Lost(repr(error)) from error
        except (errors.KafkaError, AssertionError) as error:
            raise Refused(repr(error)) from error

    def begin(self) -> None:
        self._sent = []
        self._run(self._producer.begin_transaction())

    def send(self, partition: Partition, value: str) -> None:
        self._sent.append((value, self._run(self._producer.send(partition[0], value.encode(), partition=partition[1]))))

    def flush(self) -> dict[str, int]:
        async def all_of_it() -> dict[str, int]:
            return {value: (await future).offset for value, future in self._sent}

        flushed: dict[str, int] = self._run(all_of_it())
        return flushed

    def send_position(self, position: Position) -> None:
        from aiokafka import TopicPartition

        offsets = {TopicPartition(*position.partition): position.offset}
        self._run(self._producer.send_offsets_to_transaction(offsets, self._group))

    def commit(self) -> None:
        self._run(self._producer.commit_transaction())

    def abort(self) -> None:
        self._run(self._producer.abort_transaction())

    def read_from(self, partition: Partition, group: str) -> None:
        from aiokafka import AIOKafkaConsumer, TopicPartition

        self._group = group

        async def started() -> Any:
            consumer = AIOKafkaConsumer(
                **self.access.aiokafka,
                group_id=group,
                isolation_level="read_committed",
                enable_auto_commit=False,
            )
            asked = TopicPartition(*partition)
            consumer.assign([asked])
            await consumer.start()
            consumer.seek(asked, await consumer.committed(asked) or 0)
            return consumer

        self._consumer = self._run(started())

    def poll(self) -> Sequence[Seen]:
        polled = self._run(self._consumer.getmany(timeout_ms=int(POLL_S * 1000), max_records=MOST_POLLED))
        return _seen(polled)

    def go_back_to(self, partition: Partition, offset: int) -> None:
        from aiokafka import TopicPartition

        self._consumer.seek(TopicPartition(*partition), offset)

    def close(self) -> None:
        async def closed() -> None:
            if self._consumer is not None:
                await self._consumer.stop()
            await self._producer.stop()

        self._run(closed())
        self._loop.close()


CLIENTS: Final[Mapping[str, Callable[[Access, str], Client]]] = {
    "confluent-kafka": ConfluentClient,
    "kafka-python": KafkaPythonClient,
    "aiokafka": AiokafkaClient,
}
MEMBERS: Final[Mapping[str, Callable[[Access, str], Client]]] = {"confluent-kafka-member": ConfluentMember}
"""The clients that work as members of a group. Each reads what it is assigned."""
