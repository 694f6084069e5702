"""Reading records for command line tools: partitions from given offsets on, without a group.

Invariant: of each partition, every record from its start offset on comes once and in order; control records do not, and
with ``committed_only`` neither do those of transactions that were aborted or are open.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kpybroker.cli.client import EARLIEST_TIMESTAMP, READ_COMMITTED, Client, Spot, raise_for
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.control_record import ABORT, control_type
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.record import Record, read_batch

MAX_WAIT_MS = 500
MAX_BYTES = 16 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024
FIRST_MAX_BYTES = 64 * 1024


class Found(NamedTuple):
    """A record and where it was."""

    spot: Spot
    record: Record


class Aborted:
    """The aborted transactions of one answer: (first offset, producer) each, as the leader lists them (KIP-98)."""

    def __init__(self, transactions: Iterable[tuple[int, int]]) -> None:
        self._waiting = sorted(transactions, reverse=True)
        self._producers: set[int] = set()

    def covers(self, header: BatchHeader) -> bool:
        """Whether a batch, asked for in the order of the log, belongs to one of them."""
        while self._waiting and self._waiting[-1][0] <= header.last_offset:
            self._producers.add(self._waiting.pop()[1])
        return header.is_transactional and header.producer_id in self._producers

    def ends(self, producer_id: int) -> None:
        """The marker that aborts the producer's transaction was read."""
        self._producers.discard(producer_id)


class Reader:
    """Reads on and on. ``positions`` is where each partition is read from next."""

    def __init__(self, client: Client, positions: Mapping[Spot, int], *, committed_only: bool = False) -> None:
        self.client = client
        self.positions = dict(positions)
        self.committed_only = committed_only
        self._partition_max_bytes = PARTITION_MAX_BYTES

    def poll(self) -> Iterator[Found]:
        """The records of one round of fetches, none if nothing came for a while. Raises KafkaError, Unreachable."""
        for spot, answer in self._answers():
            yield from self._records(spot, answer)

    def poll_firsts(self) -> dict[Spot, Record]:
        """The first record of each partition that answered with one. Raises KafkaError, Unreachable."""
        self._partition_max_bytes = FIRST_MAX_BYTES
        firsts = ((spot, next(self._records(spot, answer), None)) for spot, answer in self._answers())
        return {spot: found.record for spot, found in firsts if found is not None}

    def _answers(self) -> Iterator[tuple[Spot, PartitionData]]:
        led = self.client.retrying(lambda: self.client.by_leader(self.positions))
        for node_id, spots in led.items():
            yield from self.client.retrying(partial(self._fetch, node_id, spots, len(led))).items()

    def _fetch(self, node_id: int, spots: list[Spot], nodes: int) -> dict[Spot, PartitionData]:
        topics: dict[str, FetchTopic] = {}
        for spot in spots:
            topic_id = self.client.topic(spot.topic).topic_id
            topic = topics.setdefault(spot.topic, FetchTopic(topic=spot.topic, topic_id=topic_id, partitions=[]))
            position = self.positions[spot]
            part = FetchPartition(
                partition=spot.partition, fetch_offset=position, partition_max_bytes=self._partition_max_bytes
            )
            topic.partitions.append(part)
        wait_ms = MAX_WAIT_MS // nodes
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=1,
            max_bytes=MAX_BYTES,
            isolation_level=READ_COMMITTED if self.committed_only else 0,
            topics=list(topics.values()),
        )
        response = self.client.call_node(node_id, request, wait_s=wait_ms / 1000)
        raise_for(response.error_code, "fetch")
        names = {topic.topic_id: topic.topic for topic in topics.values()}
        answers: dict[Spot, PartitionData] = {}
        for topic_answer in response.responses:
            for answer in topic_answer.partitions:
                spot = Spot(topic_answer.topic or names[topic_answer.topic_id], answer.partition_index)
                self._check(spot, answer)
                answers[spot] = answer
        return answers

    def _check(self, spot: Spot, answer: PartitionData) -> None:
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            first = self.client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
            text = f"partition {spot} has no offset {self.positions[spot]}, its first is {first}"
            raise KafkaError(answer.error_code, text)
        raise_for(answer.error_code, f"partition {spot}")

    def _records(self, spot: Spot, answer: PartitionData) -> Iterator[Found]:
        data = answer.records or b""
        aborted = Aborted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        try:
            for position, header in batch_headers(data):
                if not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not header.is_control and not aborted.covers(header):
                    for record in read_batch(data, header, position):
                        if record.offset >= self.positions[spot]:
                            yield Found(spot, record)
                elif header.is_control and any(
                    control_type(marker) == ABORT for marker in read_batch(data, header, position)
                ):
                    aborted.ends(header.producer_id)
                self.positions[spot] = max(self.positions[spot], header.next_offset)
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None
