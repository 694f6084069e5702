"""Reading records for command line tools: partitions from given offsets on, without a group.

Invariant: for each partition, every record from its start offset on is returned once and in order. Control records are
not returned, nor with ``FetchSettings.committed_only`` those of aborted or open transactions.
"""

import time
from collections.abc import Generator, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, READ_COMMITTED, Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.client.patience import Patience
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.record import Record, read_batch
from kpywire.varint import Buffer

FIRST_MAX_BYTES = 64 * 1024
RESETS: Final = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
"""The values of ``auto.offset.reset``, without none."""


class FetchSettings(NamedTuple):
    """The settings for fetching: `client_configs` has the names by which users set them."""

    min_bytes: int = 1
    max_wait_ms: int = 500
    max_bytes: int = 16 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024
    committed_only: bool = False
    rack: str = ""
    reset: str | None = None
    """The position to continue from if an offset is gone: earliest, latest, or None for an error."""
    checks_crcs: bool = True


class ReadRecord(NamedTuple):
    """A record and its position, and the header of its batch."""

    spot: Spot
    record: Record
    header: BatchHeader | None = None


class RecordReader:
    """Reads continuously. ``positions`` has the next offset of each partition.

    ``patience_s`` is how long brokers may be away, as in `Patience`.
    """

    def __init__(
        self,
        client: Client,
        positions: Mapping[Spot, int],
        *,
        fetching: FetchSettings | None = None,
        patience_s: float | None = None,
    ) -> None:
        self.client = client
        self.positions = dict(positions)
        self.fetching = fetching or FetchSettings()
        self.patience = Patience(client, patience_s)
        self.resets: dict[Spot, int] = {}
        """The former positions of partitions that continued elsewhere, since their offset was gone."""
        self._closer: dict[Spot, tuple[int, float]] = {}

    def poll(self) -> Iterator[ReadRecord]:
        """The records of one round of fetches, none if nothing came for a while. Raises KafkaError, Unreachable."""
        for spot, answer in self._answers():
            yield from self._records(spot, answer)

    def poll_firsts(self) -> dict[Spot, Record]:
        """The first record of each partition that answered with one. Raises KafkaError, Unreachable."""
        self.fetching = self.fetching._replace(partition_max_bytes=FIRST_MAX_BYTES)
        firsts = ((spot, next(self._records(spot, answer), None)) for spot, answer in self._answers())
        return {spot: found.record for spot, found in firsts if found is not None}

    def poll_batches(self) -> Iterator[tuple[Spot, BatchHeader, memoryview]]:
        """The batches of one round of fetches, all of their bytes. Raises KafkaError, Unreachable."""
        for spot, answer in self._answers():
            data = memoryview(answer.records or b"")
            for position, header in self._whole_batches(spot, data):
                if header.next_offset > self.positions[spot]:
                    yield spot, header, data[position : position + header.size]
                    self.positions[spot] = header.next_offset

    def _whole_batches(self, spot: Spot, data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
        """The positions and headers of batches, checked. Raises KafkaError."""
        try:
            for position, header in batch_headers(data):
                if self.fetching.checks_crcs and not check_crc(data, header, position):
                    raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
                yield position, header
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None

    def _answers(self) -> Iterator[tuple[Spot, PartitionData]]:
        while True:
            trouble = yield from self._round()
            self.patience.settle(trouble)
            if trouble is None or self.patience.is_endless:
                return

    def _round(self) -> Generator[tuple[Spot, PartitionData], None, KafkaError | Unreachable | None]:
        """Ask every leader once. Return the last error that may pass. Raises those that may not."""
        led, trouble = self._led()
        for node_id, spots in led.items():
            try:
                answers = self._fetch(node_id, spots, len(led))
            except (Unreachable, KafkaError) as error:
                trouble = self.patience.passing(error)
                self._closer.clear()
            else:
                yield from answers.items()
        return trouble

    def _led(self) -> tuple[dict[int, list[Spot]], KafkaError | Unreachable | None]:
        """The partitions to ask of each broker, and the error of those that have none."""
        led: dict[int, list[Spot]] = {}
        trouble: KafkaError | Unreachable | None = None
        now_s = time.monotonic()
        for spot in self.positions:
            try:
                closer, until_s = self._closer.get(spot, (-1, 0.0))
                node_id = closer if now_s < until_s else self.client.leader(spot)
            except Unreachable as error:
                return led, self.patience.passing(error)
            except KafkaError as error:
                trouble = self.patience.passing(error)
            else:
                led.setdefault(node_id, []).append(spot)
        return led, trouble

    def _fetch(self, node_id: int, spots: list[Spot], nodes: int) -> dict[Spot, PartitionData]:
        fetching = self.fetching
        topics: dict[str, FetchTopic] = {}
        for spot in spots:
            topic_id = self.client.topic(spot.topic).topic_id
            topic = topics.setdefault(spot.topic, FetchTopic(topic=spot.topic, topic_id=topic_id, partitions=[]))
            position = self.positions[spot]
            part = FetchPartition(
                partition=spot.partition, fetch_offset=position, partition_max_bytes=fetching.partition_max_bytes
            )
            topic.partitions.append(part)
        wait_ms = fetching.max_wait_ms // nodes
        request = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=fetching.min_bytes,
            max_bytes=fetching.max_bytes,
            isolation_level=READ_COMMITTED if fetching.committed_only else 0,
            topics=list(topics.values()),
            rack_id=fetching.rack,
        )
        response = self.client.call_node(node_id, request, wait_s=wait_ms / 1000)
        raise_for(response.error_code, "fetch")
        names = {topic.topic_id: topic.topic for topic in topics.values()}
        answers: dict[Spot, PartitionData] = {}
        for topic_answer in response.responses:
            for answer in topic_answer.partitions:
                spot = Spot(topic_answer.topic or names[topic_answer.topic_id], answer.partition_index)
                if self._is_usable(spot, answer):
                    answers[spot] = answer
        return answers

    def _is_usable(self, spot: Spot, answer: PartitionData) -> bool:
        """Whether an answer may contain records, and does not redirect to another broker. Raises KafkaError."""
        misses = answer.error_code in (error_codes.OFFSET_OUT_OF_RANGE, error_codes.OFFSET_NOT_AVAILABLE)
        if misses and self._closer.pop(spot, None) is not None:  # a follower may be behind; the leader knows
            return False
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self._reset(spot, answer.error_code)
            return False
        raise_for(answer.error_code, f"partition {spot}")
        if answer.preferred_read_replica >= 0:
            self._closer[spot] = (
                answer.preferred_read_replica,
                time.monotonic() + self.client.settings.metadata_age_s,
            )
            return False
        return True

    def _reset(self, spot: Spot, code: int) -> None:
        timestamp = RESETS.get(self.fetching.reset or "")
        if timestamp is None:
            first = self.client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
            raise KafkaError(code, f"partition {spot} has no offset {self.positions[spot]}, its first is {first}")
        self.resets[spot] = self.positions[spot]
        self.positions |= self.client.list_offsets({spot: timestamp})

    def _records(self, spot: Spot, answer: PartitionData) -> Iterator[ReadRecord]:
        data = answer.records or b""
        aborted = Aborted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
        try:
            for position, header in self._whole_batches(spot, data):
                if not aborted.skips(data, header, position):
                    for record in read_batch(data, header, position):
                        if record.offset >= self.positions[spot]:
                            yield ReadRecord(spot, record, header)
                self.positions[spot] = max(self.positions[spot], header.next_offset)
        except Malformed as error:
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"partition {spot}: {error}") from None
