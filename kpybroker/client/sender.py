"""Producing for command line tools: an idempotent producer with one request in flight.

Records wait for each partition in order, each until its own deadline (``delivery.timeout.ms``), and rounds try to
append them. Invariants: with idempotence a record is in its log at most once, however often the connection broke;
every record that was added comes out of a round exactly once, as `Placed` or as `FailedRecord`.
"""

import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.connection import NotConnected, Unreachable
from kpybroker.client.partitioning import partition_of
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.compression import NONE
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch

ALL_IN_SYNC = -1
NO_ACKS = 0
CREATION_PATIENCE_S = 5.0
SEQUENCES = 1 << 31
MOST_RECORDS = 1 << 30
RECORD_OVERHEAD_BYTES = 32
OF_RECORDS: Final = frozenset(
    (
        error_codes.MESSAGE_TOO_LARGE,
        error_codes.RECORD_LIST_TOO_LARGE,
        error_codes.INVALID_RECORD,
        error_codes.INVALID_TIMESTAMP,
    )
)
"""Errors of records, not of the topic: other records may succeed."""


UNCERTAIN: Final = frozenset((error_codes.REQUEST_TIMED_OUT, error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND))
"""Errors after which a batch may be in the log all the same."""


class Delivery(NamedTuple):
    """The settings for delivery: `client_configs` has the names by which users set them."""

    codec: int = NONE
    acks: int = ALL_IN_SYNC
    is_idempotent: bool = True
    timeout_s: float = 120.0
    retries: float = math.inf
    batch_bytes: int = 512 * 1024


class Placed(NamedTuple):
    """The place of a record. The offset is -1 where it was not reported."""

    spot: Spot
    offset: int
    record: Record


class WaitingRecord(NamedTuple):
    """A record to be sent. ``line`` is its number in the input."""

    record: Record
    line: int
    deadline_s: float


class FailedRecord(NamedTuple):
    """A record that will not be sent any more. ``error`` is None if it is only too late."""

    waiting: WaitingRecord
    error: KafkaError | Unreachable | None
    may_be_there: bool


class Round(NamedTuple):
    """The results of a round of attempts, and the last error that will be retried."""

    placed: list[Placed]
    failed: list[FailedRecord]
    trouble: KafkaError | Unreachable | None


class SendRefused(Exception):
    """An error of the topic or the cluster that no later attempt can end."""

    def __init__(self, error: KafkaError) -> None:
        super().__init__(str(error))
        self.error = error


class _Batch:
    """Records that are sent together, with the sequence that makes a second attempt harmless."""

    def __init__(self, waiting: list[WaitingRecord], data: bytes, producer: tuple[int, int], sequence: int) -> None:
        self.waiting = waiting
        self.data = data
        self.producer = producer
        self.sequence = sequence
        self.attempts = 0
        self.may_be_there = False


class _Line:
    """The records that wait for one partition, and the batch at their head once it was made."""

    def __init__(self) -> None:
        self.waiting: deque[WaitingRecord] = deque()
        self.batch: _Batch | None = None
        self.most_records = MOST_RECORDS

    def __len__(self) -> int:
        return len(self.waiting) + (len(self.batch.waiting) if self.batch is not None else 0)


class Sender:
    """Produces to one topic, which the broker may create, if so configured. ``partition`` overrules keys."""

    def __init__(
        self, client: Client, topic: str, *, delivery: Delivery | None = None, partition: int | None = None
    ) -> None:
        """Raises KafkaError, if there is no such topic or partition, and Unreachable."""
        self.client = client
        self.topic = topic
        self.delivery = delivery or Delivery()
        self.partition = partition
        self.is_created = False
        """Whether the topic did not exist, and the broker has created it."""
        self.waiting_bytes = 0
        self._sequences: dict[Spot, int] = {}
        self._lines: dict[Spot, _Line] = {}
        self._partitions = client.retrying(self._count, CREATION_PATIENCE_S)
        if partition is not None and not 0 <= partition < self._partitions:
            message = f"topic {topic} has no partition {partition}, only 0 to {self._partitions - 1}"
            raise KafkaError(error_codes.INVALID_PARTITIONS, message)
        self._turn = 0
        self._identity: tuple[int, int] | None = (-1, -1)
        if self.delivery.is_idempotent:
            self._identity = client.retrying(self._new_identity)

    def _count(self) -> int:
        try:
            return len(self.client.topic(self.topic, create=True).partitions)
        except KafkaError as error:
            self.is_created = error.code == error_codes.UNKNOWN_TOPIC_OR_PARTITION
            raise

    def _new_identity(self) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=0x7FFF_FFFF)
        answer = self.client.call(request)
        raise_for(answer.error_code, "producer id")
        return answer.producer_id, answer.producer_epoch

    def send(self, records: Sequence[Record]) -> list[Placed]:
        """Append records. Return their places. Raises the first KafkaError or Unreachable that ends an attempt."""
        placed: list[Placed] = []
        self.add(records)
        while self:
            settled = self.round()
            placed += settled.placed
            for failed in settled.failed:
                raise failed.error or KafkaError(error_codes.REQUEST_TIMED_OUT, f"topic {self.topic}: too late")
            if settled.trouble is not None:
                time.sleep(self.client.settings.backoff_s)
        return placed

    def __bool__(self) -> bool:
        """Whether records wait."""
        return any(self._lines.values())

    def __len__(self) -> int:
        return sum(map(len, self._lines.values()))

    @property
    def is_full(self) -> bool:
        """Whether a batch is as large as it may be, or is already being sent."""
        return self.waiting_bytes >= self.delivery.batch_bytes or any(
            line.batch is not None for line in self._lines.values()
        )

    @property
    def first_deadline_s(self) -> float:
        """The time when the oldest waiting record will be too late."""
        heads = (line.batch.waiting[0] if line.batch else line.waiting[0] for line in self._lines.values() if len(line))
        return min((each.deadline_s for each in heads), default=math.inf)

    def add(self, records: Sequence[Record], first_line: int = 1, came_s: float | None = None) -> None:
        """Add records to be delivered from now on. Those without a key stay together."""
        deadline_s = (time.monotonic() if came_s is None else came_s) + self.delivery.timeout_s
        for number, record in enumerate(records, first_line):
            spot = Spot(self.topic, self._partition_of(record))
            line = self._lines.get(spot)
            if line is None:
                line = self._lines[spot] = _Line()
            line.waiting.append(WaitingRecord(record, number, deadline_s))
            self.waiting_bytes += _size(record)
        self._turn += 1

    def _partition_of(self, record: Record) -> int:
        if self.partition is not None:
            return self.partition
        if record.key is None:
            return self._turn % self._partitions
        return partition_of(record.key, self._partitions)

    def round(self) -> Round:
        """Try once to append the waiting records, one batch per partition. Raises Refused if they never can be."""
        settled = Round([], [], None)
        self._renew()
        unreached: set[int] = set()
        for spot, line in self._lines.items():
            if not line:
                continue
            settled.failed.extend(self._too_late(line))
            try:
                leader = self._leader(spot, line)
                if leader in unreached:
                    continue
            except (Unreachable, KafkaError) as error:
                settled = settled._replace(trouble=self._passing(error))
                continue
            batch = line.batch or self._next_batch(spot, line)
            if batch is None:
                continue
            trouble = self._try(spot, line, batch, leader, settled)
            if isinstance(trouble, Unreachable):
                unreached.add(leader)
            settled = settled._replace(trouble=trouble or settled.trouble)
        if settled.trouble is not None:
            self.client.forget()
        self.waiting_bytes -= sum(_size(each.record) for each in settled.placed)
        self.waiting_bytes -= sum(_size(each.waiting.record) for each in settled.failed)
        return settled

    def _renew(self) -> None:
        """Begin a new producer id after a batch was given up: its sequence cannot continue."""
        if self._identity is None:
            try:
                with self.client.until(self.first_deadline_s):
                    self._identity = self._new_identity()
            except (Unreachable, KafkaError) as error:
                self._passing(error)
            else:
                self._sequences.clear()

    def _leader(self, spot: Spot, line: _Line) -> int:
        with self.client.until(self._deadline_of(line)):
            leader = self.client.leader(spot)
            self._partitions = len(self.client.topic(self.topic).partitions)
        return leader

    def _deadline_of(self, line: _Line) -> float:
        if line.batch is not None:
            return line.batch.waiting[0].deadline_s
        return line.waiting[0].deadline_s if line.waiting else math.inf

    def _passing(self, error: KafkaError | Unreachable) -> KafkaError | Unreachable:
        """An error that a later attempt may not have. Raises Refused for others."""
        if isinstance(error, KafkaError) and not self.client.may_pass(error):
            raise SendRefused(error)
        return error

    def _too_late(self, line: _Line) -> Iterator[FailedRecord]:
        now_s = time.monotonic()
        batch = line.batch
        if batch is not None and batch.waiting[0].deadline_s <= now_s:
            yield from self._given_up(line, batch, None)
        while line.batch is None and line.waiting and line.waiting[0].deadline_s <= now_s:
            yield FailedRecord(line.waiting.popleft(), None, may_be_there=False)

    def _given_up(self, line: _Line, batch: _Batch, error: KafkaError | Unreachable | None) -> Iterator[FailedRecord]:
        line.batch = None
        if self.delivery.is_idempotent:
            self._identity = None
        for each in batch.waiting:
            yield FailedRecord(each, error, batch.may_be_there)

    def _next_batch(self, spot: Spot, line: _Line) -> _Batch | None:
        """The batch at the head of a line; None if there is none, or no producer id for it yet."""
        if self._identity is None or not line.waiting:
            return None
        chosen: list[WaitingRecord] = []
        total = 0
        while line.waiting and len(chosen) < line.most_records:
            size = _size(line.waiting[0].record)
            if chosen and total + size > self.delivery.batch_bytes:
                break
            total += size
            chosen.append(line.waiting.popleft())
        line.batch = self._batch(spot, chosen)
        return line.batch

    def _batch(self, spot: Spot, chosen: list[WaitingRecord]) -> _Batch:
        assert self._identity is not None
        producer_id, producer_epoch = self._identity
        sequence = -1
        if self.delivery.is_idempotent:
            sequence = self._sequences.get(spot, 0)
            self._sequences[spot] = (sequence + len(chosen)) % SEQUENCES
        data = build_batch(
            [each.record for each in chosen],
            codec=self.delivery.codec,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=sequence,
        )
        return _Batch(chosen, data, self._identity, sequence)

    def _try(
        self, spot: Spot, line: _Line, batch: _Batch, leader: int, settled: Round
    ) -> KafkaError | Unreachable | None:
        """Try once to append a batch. Return its error, if it is to be retried."""
        batch.attempts += 1
        try:
            with self.client.until(batch.waiting[0].deadline_s):
                answer = self._append(spot, batch, leader)
            if answer is not None and answer.error_code != error_codes.DUPLICATE_SEQUENCE_NUMBER:
                raise_for(answer.error_code, f"partition {spot}", _why(answer))
        except (Unreachable, KafkaError) as error:
            if isinstance(error, Unreachable):
                batch.may_be_there |= not isinstance(error, NotConnected)
            elif error.code in UNCERTAIN:
                batch.may_be_there = True
            elif error.code in OF_RECORDS:
                settled.failed.extend(self._without_bad(spot, line, batch, error))
                return None
            passing = self._passing(error)
            if batch.attempts > self.delivery.retries:
                settled.failed.extend(self._given_up(line, batch, error))
            return passing
        line.batch, line.most_records = None, min(line.most_records * 2, MOST_RECORDS)
        base = -1 if answer is None else answer.base_offset
        for index, each in enumerate(batch.waiting):
            settled.placed.append(Placed(spot, base + index if base >= 0 else -1, each.record))
        return None

    def _without_bad(self, spot: Spot, line: _Line, batch: _Batch, error: KafkaError) -> Iterator[FailedRecord]:
        """Note that a batch was refused because of records in it, and nothing of it was written: smaller batches find
        them."""
        line.batch = None
        if batch.producer == self._identity:
            self._sequences[spot] = batch.sequence
        if len(batch.waiting) == 1:
            yield FailedRecord(batch.waiting[0], error, may_be_there=False)
            return
        line.waiting.extendleft(reversed(batch.waiting))
        line.most_records = len(batch.waiting) // 2

    def _append(self, spot: Spot, batch: _Batch, leader: int) -> PartitionProduceResponse | None:
        topic_id = self.client.topic(spot.topic).topic_id
        part = PartitionProduceData(index=spot.partition, records=batch.data)
        topic = TopicProduceData(name=spot.topic, topic_id=topic_id, partition_data=[part])
        timeout_ms = int(self.client.timeout_s * 1000)
        request = ProduceRequest(acks=self.delivery.acks, timeout_ms=timeout_ms, topic_data=[topic])
        if self.delivery.acks == NO_ACKS:
            self.client.send_node(leader, request)
            return None
        answer = self.client.call_node(leader, request)
        (topic_answer,) = answer.responses
        partition: PartitionProduceResponse = topic_answer.partition_responses[0]
        return partition

    def give_up(self) -> list[WaitingRecord]:
        """Give up everything that still waits. Return it in the order of the input; none of it is sent any more."""
        left = [each for line in self._lines.values() for each in (*(line.batch or _NONE).waiting, *line.waiting)]
        self._lines.clear()
        return sorted(left, key=lambda each: each.line)


_NONE: Final = _Batch([], b"", (-1, -1), -1)


def _why(answer: PartitionProduceResponse) -> str | None:
    for record in answer.record_errors:
        if record.batch_index_error_message:
            return record.batch_index_error_message
    return answer.error_message


def _size(record: Record) -> int:
    """About how many bytes a record takes in a batch."""
    headers = sum(len(name) + len(value or b"") for name, value in record.headers)
    return RECORD_OVERHEAD_BYTES + len(record.key or b"") + len(record.value or b"") + headers
