"""Producing for command line tools: an idempotent producer with one request in flight.

Invariant: every record is in the log exactly once when `Sender.send` returns, also if the connection broke meanwhile.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kpybroker.cli.client import Client, Spot, raise_for
from kpybroker.cli.partitioning import partition_of
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.compression import NONE
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

ALL_IN_SYNC = -1
CREATION_PATIENCE_S = 5.0
SEQUENCES = 1 << 31
MAX_BATCH_BYTES = 512 * 1024
RECORD_OVERHEAD_BYTES = 32


class Placed(NamedTuple):
    """Where a record went."""

    spot: Spot
    offset: int
    record: Record


class Batch(NamedTuple):
    """Records on their way to one partition."""

    spot: Spot
    records: Sequence[Record]
    data: bytes


class Sender:
    """Produces to one topic, which the broker may create if it does that. ``partition`` overrules keys."""

    def __init__(self, client: Client, topic: str, *, codec: int = NONE, partition: int | None = None) -> None:
        """Raises KafkaError, if there is no such topic or partition, and Unreachable."""
        self.client = client
        self.topic = topic
        self.codec = codec
        self.partition = partition
        self._sequences: dict[Spot, int] = {}
        found = client.retrying(lambda: client.topic(topic, create=True), CREATION_PATIENCE_S)
        self._partitions = len(found.partitions)
        if partition is not None and not 0 <= partition < self._partitions:
            message = f"topic {topic} has no partition {partition}, only 0 to {self._partitions - 1}"
            raise KafkaError(error_codes.INVALID_PARTITIONS, message)
        self._turn = 0
        self._producer_id, self._producer_epoch = client.retrying(self._identity)

    def _identity(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)
        answer = self.client.call(request)
        raise_for(answer.error_code, "producer id")
        return answer.producer_id, answer.producer_epoch

    def send(self, records: Sequence[Record]) -> list[Placed]:
        """Append records and say where they are; those without a key stay together. Raises KafkaError, Unreachable."""
        waiting: dict[int, list[list[Record]]] = {}
        sizes: dict[int, int] = {}
        for record in records:
            partition, size = self._partition_of(record), _size(record)
            batches = waiting.setdefault(partition, [[]])
            total = sizes.get(partition, 0) + size
            if batches[-1] and total > MAX_BATCH_BYTES:
                batches.append([])
                total = size
            batches[-1].append(record)
            sizes[partition] = total
        self._turn += 1
        placed: list[Placed] = []
        for partition, batches in waiting.items():
            for batch in batches:
                placed += self._send_batch(Spot(self.topic, partition), batch)
        return placed

    def _partition_of(self, record: Record) -> int:
        if self.partition is not None:
            return self.partition
        if record.key is None:
            return self._turn % self._partitions
        return partition_of(record.key, self._partitions)

    def _send_batch(self, spot: Spot, records: Sequence[Record]) -> list[Placed]:
        sequence = self._sequences.get(spot, 0)
        data = build_batch(
            records,
            codec=self.codec,
            producer_id=self._producer_id,
            producer_epoch=self._producer_epoch,
            base_sequence=sequence,
        )
        batch = Batch(spot, records, data)
        try:
            answer = self.client.retrying(lambda: self._append(batch))
        except KafkaError as error:
            if error.code != error_codes.MESSAGE_TOO_LARGE or len(records) == 1:
                raise
            half = len(records) // 2
            return self._send_batch(spot, records[:half]) + self._send_batch(spot, records[half:])
        self._sequences[spot] = (sequence + len(records)) % SEQUENCES
        return [Placed(spot, answer.base_offset + index, record) for index, record in enumerate(records)]

    def _append(self, batch: Batch) -> PartitionProduceResponse:
        topic_id = self.client.topic(batch.spot.topic).topic_id
        part = PartitionProduceData(index=batch.spot.partition, records=batch.data)
        topic = TopicProduceData(name=batch.spot.topic, topic_id=topic_id, partition_data=[part])
        timeout_ms = int(self.client.timeout_s * 1000)
        request = ProduceRequest(acks=ALL_IN_SYNC, timeout_ms=timeout_ms, topic_data=[topic])
        answer = self.client.call_node(self.client.leader(batch.spot), request, wait_s=self.client.timeout_s)
        (topic_answer,) = answer.responses
        partition: PartitionProduceResponse = topic_answer.partition_responses[0]
        if partition.error_code != error_codes.DUPLICATE_SEQUENCE_NUMBER:
            raise_for(partition.error_code, f"partition {batch.spot}", _why(partition))
        return partition


def _why(answer: PartitionProduceResponse) -> str | None:
    for record in answer.record_errors:
        if record.batch_index_error_message:
            return record.batch_index_error_message
    return answer.error_message


def _size(record: Record) -> int:
    """About how many bytes a record takes in a batch."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
