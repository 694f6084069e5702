"""Appending batches that are already encoded, under an identity and in order: for many partitions at once.

Invariant: each batch is in its log at most once, however often a connection broke, and the batches of a partition are
there in the order in which they were given. After an error the identity is of no use any more.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Final

from kpybroker.client import transactions
from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.client.transactions import ProducerIdentity
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.batch import parse_header, stamp_producer
from kpywire.messages.produce import PartitionProduceData, PartitionProduceResponse, ProduceRequest, TopicProduceData
from kpywire.record import build_batch, read_batch

REQUEST_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of a request; a larger batch is sent alone."""
ADDED_BEFORE: Final = 11
"""The newest Produce for partitions that were added to the transaction by a request."""
ALL_IN_SYNC: Final = -1
SEQUENCES: Final = 1 << 31


class Appender:
    """Appends batches. ``counts`` has the number of records that each partition has received."""

    def __init__(self, client: Client, identity: ProducerIdentity) -> None:
        self.identity = identity
        self.counts: dict[Spot, int] = {}
        self._client = client
        self._waiting: dict[Spot, deque[bytearray]] = {}
        """The batches of each partition; only the first one is stamped."""

    def append(self, batches: Mapping[Spot, Iterable[bytes]]) -> None:
        """Append batches that have no producer yet. Raises KafkaError, Unreachable."""
        self._waiting = {spot: deque(map(bytearray, each)) for spot, each in batches.items()}
        self._waiting = {spot: each for spot, each in self._waiting.items() if each}
        added = [spot for spot in self._waiting if spot not in self.counts]
        if added and self.identity.transactional_id is not None:
            transactions.add_partitions(self._client, self.identity, added)
        self.counts.update(dict.fromkeys(added, 0))
        for spot in self._waiting:
            self._stamp(spot)
        while self._waiting:
            self._client.retrying(self._round)

    def _stamp(self, spot: Spot) -> None:
        is_transactional = self.identity.transactional_id is not None
        sequence = self.counts[spot] % SEQUENCES
        stamp_producer(
            self._waiting[spot][0],
            self.identity.producer_id,
            self.identity.epoch,
            sequence,
            is_transactional=is_transactional,
        )

    def _round(self) -> None:
        """Send every leader one request. Raises the last error if nothing was appended at all."""
        is_progress, trouble = False, None
        for leader, spots in self._client.by_leader(self._waiting).items():
            try:
                answers = self._send(leader, spots)
            except (Unreachable, KafkaError) as error:
                if not self._client.may_pass(error):
                    raise
                trouble = error
                continue
            for spot, answer in answers.items():
                try:
                    self._settle(spot, answer)
                    is_progress = True
                except KafkaError as error:
                    if not error_codes.retriable(error.code):
                        raise
                    trouble = error
        if trouble is not None:
            self._client.forget()
            if not is_progress:
                raise trouble

    def _send(self, leader: int, spots: Iterable[Spot]) -> dict[Spot, PartitionProduceResponse]:
        """Send the first batches of some partitions, as many as fit into a request."""
        topics: dict[str, TopicProduceData] = {}
        free_bytes = REQUEST_BYTES
        for spot in spots:
            batch = self._waiting[spot][0]
            if topics and len(batch) > free_bytes:
                continue
            free_bytes -= len(batch)
            if spot.topic not in topics:
                topic_id = self._client.topic(spot.topic).topic_id
                topics[spot.topic] = TopicProduceData(name=spot.topic, topic_id=topic_id, partition_data=[])
            topics[spot.topic].partition_data.append(PartitionProduceData(index=spot.partition, records=bytes(batch)))
        transactional_id = self.identity.transactional_id
        request = ProduceRequest(
            transactional_id=transactional_id,
            acks=ALL_IN_SYNC,
            timeout_ms=int(self._client.timeout_s * 1000),
            topic_data=list(topics.values()),
        )
        newest = None if transactional_id is None else ADDED_BEFORE
        answer = self._client.call_node(leader, request, newest=newest)
        names = {topic.topic_id: topic.name for topic in topics.values()}
        return {
            Spot(topic.name or names[topic.topic_id], part.index): part
            for topic in answer.responses
            for part in topic.partition_responses
        }

    def _settle(self, spot: Spot, answer: PartitionProduceResponse) -> None:
        """Go on to the next batch of a partition. Raises KafkaError if this one was not appended."""
        waiting = self._waiting[spot]
        if answer.error_code == error_codes.MESSAGE_TOO_LARGE and self._split(waiting):
            self._stamp(spot)
            return
        if answer.error_code != error_codes.DUPLICATE_SEQUENCE_NUMBER:
            raise_for(answer.error_code, f"partition {spot}", _why(answer))
        self.counts[spot] += parse_header(waiting.popleft()).record_count
        if waiting:
            self._stamp(spot)
        else:
            del self._waiting[spot]

    @staticmethod
    def _split(waiting: deque[bytearray]) -> bool:
        """Cut the first batch, which was refused as a whole, into two; False if it has a single record."""
        header = parse_header(waiting[0])
        if header.record_count == 1:
            return False
        records = [record._replace(offset=-1) for record in read_batch(waiting.popleft(), header)]
        middle = len(records) // 2
        halves = (records[:middle], records[middle:])
        waiting.extendleft(bytearray(build_batch(half, codec=header.codec)) for half in reversed(halves))
        return True


def _why(answer: PartitionProduceResponse) -> str | None:
    for record in answer.record_errors:
        if record.batch_index_error_message:
            return record.batch_index_error_message
    return answer.error_message
