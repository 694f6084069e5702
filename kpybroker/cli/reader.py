"""Reading records for command line tools: partitions from given offsets on, without a group.

Invariant: of each partition, every record from its start offset on comes once and in order; control records do not.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import NamedTuple

from kpybroker.cli.client import EARLIEST_TIMESTAMP, Client, Spot, raise_for
from kpybroker.errors import KafkaError
from kpywire import error_codes
from kpywire.batch import batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.record import Record, read_batch

MAX_WAIT_MS = 500
MAX_BYTES = 16 * 1024 * 1024
PARTITION_MAX_BYTES = 1024 * 1024


class Found(NamedTuple):
    """A record and where it was."""

    spot: Spot
    record: Record


class Reader:
    """Reads on and on. ``positions`` is where each partition is read from next."""

    def __init__(self, client: Client, positions: Mapping[Spot, int]) -> None:
        self.client = client
        self.positions = dict(positions)

    def poll(self) -> Iterator[Found]:
        """The records of one round of fetches, none if nothing came for a while. Raises KafkaError, Unreachable."""
        led = self.client.retrying(lambda: self.client.by_leader(self.positions))
        for node_id, spots in led.items():
            answers = self.client.retrying(partial(self._fetch, node_id, spots, len(led)))
            for spot, answer in answers.items():
                yield from self._records(spot, answer)

    def _fetch(self, node_id: int, spots: list[Spot], nodes: int) -> dict[Spot, PartitionData]:
        topics: dict[str, FetchTopic] = {}
        for spot in spots:
            topic_id = self.client.topic(spot.topic).topic_id
            topic = topics.setdefault(spot.topic, FetchTopic(topic=spot.topic, topic_id=topic_id, partitions=[]))
            position = self.positions[spot]
            part = FetchPartition(
                partition=spot.partition, fetch_offset=position, partition_max_bytes=PARTITION_MAX_BYTES
            )
            topic.partitions.append(part)
        wait_ms = MAX_WAIT_MS // nodes
        request = FetchRequest(max_wait_ms=wait_ms, min_bytes=1, max_bytes=MAX_BYTES, topics=list(topics.values()))
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
        try:
            for position, header in batch_headers(data):
                if not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                if not header.is_control:
                    for record in read_batch(data, header, position):
                        if record.offset >= self.positions[spot]:
                            yield Found(spot, record)
                self.positions[spot] = max(self.positions[spot], header.next_offset)
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None
