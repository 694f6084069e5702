"""kafka-python and confluent-kafka behind one small interface, for what a test asks of both.

Only what both can do is here; a test of one client's own features uses that client directly. Errors come out as
``Refused`` with Kafka's error code, whichever side found them.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import confluent_kafka
import kafka
import kafka.errors

PATIENCE_S = 30.0
EARLIEST_TIMESTAMP: Final = -2
LATEST_TIMESTAMP: Final = -1

Headers = tuple[tuple[str, bytes | None], ...]


@dataclass(frozen=True, slots=True)
class Record:
    """A record for a producer: a ``partition`` of None is the client's choice,
    ``timestamp_ms`` None its clock."""

    value: bytes | None = None
    key: bytes | None = None
    headers: Headers = ()
    timestamp_ms: int | None = None
    partition: int | None = 0


class Placed(NamedTuple):
    """The place where an acknowledged record went; the offset is negative for acks=0."""

    partition: int
    offset: int


class Stored(NamedTuple):
    """A record as a consumer sees it; ``timestamp_type`` is 0 for CreateTime and 1 for LogAppendTime."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: int
    key: bytes | None
    value: bytes | None
    headers: Headers

    @property
    def content(self) -> tuple[bytes | None, bytes | None, Headers]:
        return self.key, self.value, self.headers


class Refused(Exception):
    """The client or the broker said no; ``code`` is Kafka's error code."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code}: {text}")
        self.code = code


@dataclass(frozen=True, slots=True)
class Sending:
    """How to produce; None leaves the client's default."""

    acks: str = "all"
    codec: str = "none"
    idempotent: bool = False
    linger_ms: int | None = None
    batch_bytes: int | None = None
    max_message_bytes: int | None = None
    delivery_timeout_ms: int = 20_000
    native: Mapping[str, Any] = field(default_factory=dict)

    @property
    def sizes(self) -> tuple[int | None, int | None, int | None]:
        return self.linger_ms, self.batch_bytes, self.max_message_bytes


class Client(Protocol):
    name: str
    bootstrap_servers: str

    def produce(self, topic: str, records: Iterable[Record], sending: Sending = ...) -> list[Placed]:
        """Send all records and wait for every answer; raises Refused for the first that was refused."""

    def read(self, topic: str, starts: Mapping[int, int] | None = None) -> list[Stored]:
        """Read partitions from the given offsets ({0: 0} by default) to their present ends, partition by partition."""

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]: ...

    def beginning_offsets(self, topic: str, partitions: int = 1) -> list[int]: ...

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        """The first offset whose record is at or after the time, None if there is none."""


class KafkaPython:
    name = "kafka-python"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def producer(self, sending: Sending = Sending()) -> Any:
        settings: dict[str, Any] = {
            "bootstrap_servers": self.bootstrap_servers,
            "acks": "all" if sending.acks == "all" else int(sending.acks),
            "compression_type": None if sending.codec == "none" else sending.codec,
            "enable_idempotence": sending.idempotent,
            "delivery_timeout_ms": sending.delivery_timeout_ms,
            "request_timeout_ms": sending.delivery_timeout_ms // 2,
        }
        sizes = {
            "linger_ms": sending.linger_ms,
            "batch_size": sending.batch_bytes,
            "max_request_size": sending.max_message_bytes,
        }
        settings |= {key: value for key, value in sizes.items() if value is not None}
        return kafka.KafkaProducer(**settings, **sending.native)

    def produce(self, topic: str, records: Iterable[Record], sending: Sending = Sending()) -> list[Placed]:
        producer = self.producer(sending)
        try:
            futures = [
                producer.send(
                    topic,
                    key=record.key,
                    value=record.value,
                    headers=list(record.headers),
                    partition=record.partition,
                    timestamp_ms=record.timestamp_ms,
                )
                for record in records
            ]
            answers = [future.get(timeout=PATIENCE_S) for future in futures]
        except kafka.errors.KafkaError as error:
            raise Refused(getattr(error, "errno", -1), repr(error)) from error
        finally:
            producer.close(timeout=PATIENCE_S)
        return [Placed(answer.partition, answer.offset) for answer in answers]

    def consumer(self, **native: Any) -> Any:
        return kafka.KafkaConsumer(bootstrap_servers=self.bootstrap_servers, **native)

    def read(self, topic: str, starts: Mapping[int, int] | None = None) -> list[Stored]:
        starts = starts or {0: 0}
        consumer = self.consumer()
        try:
            partitions = [kafka.TopicPartition(topic, number) for number in starts]
            consumer.assign(partitions)
            ends = consumer.end_offsets(partitions)
            for partition in partitions:
                consumer.seek(partition, starts[partition.partition])
            return self._read_to(consumer, ends)
        finally:
            consumer.close(autocommit=False)

    def _read_to(self, consumer: Any, ends: Mapping[Any, int]) -> list[Stored]:
        found: dict[int, list[Stored]] = {partition.partition: [] for partition in ends}
        deadline = time.monotonic() + PATIENCE_S
        while any(consumer.position(partition) < end for partition, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} read only { ({p: len(got) for p, got in found.items()}) } of {ends}")
            for partition, records in consumer.poll(timeout_ms=500).items():
                found[partition.partition] += [
                    Stored(r.partition, r.offset, r.timestamp, r.timestamp_type, r.key, r.value, tuple(r.headers))
                    for r in records
                    if r.offset < ends[partition]
                ]
        return [record for partition in sorted(found) for record in found[partition]]

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        return self._offsets("end_offsets", topic, partitions)

    def beginning_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        return self._offsets("beginning_offsets", topic, partitions)

    def _offsets(self, which: str, topic: str, partitions: int) -> list[int]:
        consumer = self.consumer()
        try:
            wanted = [kafka.TopicPartition(topic, number) for number in range(partitions)]
            answer = getattr(consumer, which)(wanted)
            return [answer[partition] for partition in wanted]
        finally:
            consumer.close(autocommit=False)

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self.consumer()
        try:
            wanted = kafka.TopicPartition(topic, partition)
            answer = consumer.offsets_for_times({wanted: timestamp_ms})[wanted]
            return None if answer is None else int(answer.offset)
        finally:
            consumer.close(autocommit=False)


class Confluent:
    name = "confluent-kafka"

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    def producer(self, sending: Sending = Sending()) -> confluent_kafka.Producer:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap_servers,
            "acks": sending.acks,
            "compression.type": sending.codec,
            "enable.idempotence": sending.idempotent,
            "delivery.timeout.ms": sending.delivery_timeout_ms,
            "request.timeout.ms": sending.delivery_timeout_ms // 2,
        }
        sizes = {
            "linger.ms": sending.linger_ms,
            "batch.size": sending.batch_bytes,
            "message.max.bytes": sending.max_message_bytes,
        }
        settings |= {key: value for key, value in sizes.items() if value is not None}
        return confluent_kafka.Producer({**settings, **sending.native})

    def produce(self, topic: str, records: Iterable[Record], sending: Sending = Sending()) -> list[Placed]:
        producer = self.producer(sending)
        placed: dict[int, Placed] = {}
        refusals: list[confluent_kafka.KafkaError] = []

        def answered(index: int, error: confluent_kafka.KafkaError | None, message: Any) -> None:
            if error is not None:
                refusals.append(error)
            else:
                offset = message.offset()
                placed[index] = Placed(message.partition(), -1 if offset is None else offset)

        try:
            for index, record in enumerate(records):
                self._send(producer, topic, record, lambda error, message, index=index: answered(index, error, message))
        except confluent_kafka.KafkaException as error:
            refusals.append(error.args[0])
        left = producer.flush(PATIENCE_S)
        if refusals:
            raise Refused(refusals[0].code(), refusals[0].str())
        if left:
            raise TimeoutError(f"{left} records without an answer")
        return [placed[index] for index in sorted(placed)]

    @staticmethod
    def _send(producer: confluent_kafka.Producer, topic: str, record: Record, answered: Any) -> None:
        optional: dict[str, Any] = {}
        if record.partition is not None:
            optional["partition"] = record.partition
        if record.timestamp_ms is not None:
            optional["timestamp"] = record.timestamp_ms
        if record.headers:
            optional["headers"] = list(record.headers)
        while True:
            try:
                producer.produce(topic, value=record.value, key=record.key, on_delivery=answered, **optional)
                producer.poll(0)
                return
            except BufferError:
                producer.poll(0.1)

    def consumer(self, **native: Any) -> confluent_kafka.Consumer:
        """A consumer that never joins its group; ``native`` has ``_`` for ``.`` in librdkafka's names."""
        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "group.id": "assign-only",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": False,
        }
        return confluent_kafka.Consumer({**settings, **{key.replace("_", "."): value for key, value in native.items()}})

    def read(self, topic: str, starts: Mapping[int, int] | None = None) -> list[Stored]:
        starts = starts or {0: 0}
        consumer = self.consumer()
        try:
            ends = {number: self._watermarks(consumer, topic, number)[1] for number in starts}
            consumer.assign([confluent_kafka.TopicPartition(topic, number, start) for number, start in starts.items()])
            return self._read_to(consumer, topic, dict(starts), ends)
        finally:
            consumer.close()

    def _read_to(
        self, consumer: confluent_kafka.Consumer, topic: str, positions: dict[int, int], ends: Mapping[int, int]
    ) -> list[Stored]:
        found: dict[int, list[Stored]] = {number: [] for number in ends}
        deadline = time.monotonic() + PATIENCE_S
        while any(positions[number] < end for number, end in ends.items()):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{self.name} got only to {positions} of {ends}")
            for message in consumer.consume(1000, 0.02):
                record = stored(message)
                if record.offset < ends[record.partition]:
                    found[record.partition].append(record)
            for at in consumer.position([confluent_kafka.TopicPartition(topic, number) for number in ends]):
                positions[at.partition] = max(positions[at.partition], at.offset)
        return [record for number in sorted(found) for record in found[number]]

    @staticmethod
    def _watermarks(consumer: confluent_kafka.Consumer, topic: str, partition: int) -> tuple[int, int]:
        low, high = consumer.get_watermark_offsets(confluent_kafka.TopicPartition(topic, partition), timeout=PATIENCE_S)
        return low, high

    def end_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        return [high for _, high in self._all_watermarks(topic, partitions)]

    def beginning_offsets(self, topic: str, partitions: int = 1) -> list[int]:
        return [low for low, _ in self._all_watermarks(topic, partitions)]

    def _all_watermarks(self, topic: str, partitions: int) -> list[tuple[int, int]]:
        consumer = self.consumer()
        try:
            return [self._watermarks(consumer, topic, number) for number in range(partitions)]
        finally:
            consumer.close()

    def offset_for_time(self, topic: str, timestamp_ms: int, partition: int = 0) -> int | None:
        consumer = self.consumer()
        try:
            wanted = confluent_kafka.TopicPartition(topic, partition, timestamp_ms)
            (answer,) = consumer.offsets_for_times([wanted], timeout=PATIENCE_S)
            return None if answer.offset == confluent_kafka.OFFSET_END else int(answer.offset)
        finally:
            consumer.close()


def stored(message: Any) -> Stored:
    """A confluent-kafka message in the common form; raises Refused if it carries an error."""
    if message.error() is not None:
        raise Refused(message.error().code(), message.error().str())
    kind, timestamp_ms = message.timestamp()
    return Stored(
        message.partition(),
        message.offset(),
        timestamp_ms,
        1 if kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME else 0,
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


CLIENTS: Final[Mapping[str, type[KafkaPython] | type[Confluent]]] = {
    KafkaPython.name: KafkaPython,
    Confluent.name: Confluent,
}


def contents(records: Sequence[Record]) -> list[tuple[bytes | None, bytes | None, Headers]]:
    """The contents that ``Stored.content`` must have for these records once they are read."""
    return [(record.key, record.value, record.headers) for record in records]
