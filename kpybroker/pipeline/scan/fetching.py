"""The transport over Kafka's Fetch, from any Kafka cluster."""

import time
from collections.abc import Generator
from typing import Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, READ_COMMITTED, Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan.errors import OffsetsLost, ScanError
from kpybroker.machines.scan.ranges import OffsetRange, Projection
from kpybroker.pipeline.scan.ahead import ahead
from kpybroker.pipeline.scan.transport import FetchedPiece
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.batch import batch_headers
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.uuid import ZERO_UUID
from kpywire.varint import Buffer

NEWEST_WITH_NAMES: Final = 12
"""The last version of Fetch that names topics; later ones have only ids."""


class ScanFetching(NamedTuple):
    """The settings of fetches."""

    max_bytes: int = 2 * 1024 * 1024
    max_wait_ms: int = 500
    patience_s: float = 120.0
    """How long to wait for offsets that the log does not have yet, as Spark's ``kafkaConsumer.pollTimeoutMs``."""


class FetchTransport:
    """Reads partitions from their leaders. The next response is fetched while the last one is used."""

    def __init__(self, client: Client, fetching: ScanFetching | None = None) -> None:
        self._client = client
        self._fetching = fetching or ScanFetching()

    def close(self) -> None:
        self._client.close()

    def pieces(self, part: OffsetRange, wanted: Projection) -> Generator[FetchedPiece, None, None]:
        """The batches of a range; see `Transport`."""
        return ahead(self._pieces(part, wanted))

    def _pieces(self, part: OffsetRange, wanted: Projection) -> Generator[FetchedPiece, None, None]:
        try:
            yield from self._fetched(part, wanted)
        except OffsetsLost:
            if wanted.fails_on_data_loss:
                raise

    def _fetched(self, part: OffsetRange, wanted: Projection) -> Generator[FetchedPiece, None, None]:
        first = offset = part.start_offset
        moved_s = time.monotonic()
        while offset < part.end_offset:
            answer = self._client.retrying(lambda at=offset: self._fetch(part, wanted, at))  # type: ignore[misc]
            if answer is None:  # the broker throttles this client
                continue
            if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                first = offset = self._first_offset(part, wanted, offset)
                continue
            data = answer.records or b""
            if (following := after(data, offset, part)) > offset:
                yield FetchedPiece(data, aborted_in(answer), first)
                offset, moved_s = following, time.monotonic()
            elif _readable_end(answer, wanted) >= part.end_offset:
                return  # the log has no more batches in the range: they were compacted away
            elif time.monotonic() - moved_s > self._fetching.patience_s:
                raise _overdue(part, wanted, answer, offset)

    def _fetch(self, part: OffsetRange, wanted: Projection, offset: int) -> PartitionData | None:
        spot = Spot(part.topic, part.partition)
        try:
            if self._client.topic(part.topic).topic_id != part.topic_id:
                text = f"{part}: topic {part.topic} was deleted and created again since the scan was planned."
                raise OffsetsLost(text)
            committed_only = wanted.committed_only
            return fetch(self._client, spot, part.topic_id, offset, self._fetching, committed_only=committed_only)
        except Unreachable as error:
            # The planner of the scan has reached the cluster, so it is worth waiting for.
            raise KafkaError(error_codes.NETWORK_EXCEPTION, str(error)) from None

    def _first_offset(self, part: OffsetRange, wanted: Projection, offset: int) -> int:
        """The offset to go on from where ``offset`` is gone. Raises OffsetsLost."""
        spot = Spot(part.topic, part.partition)
        first: int = self._client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
        if first <= offset:
            text = f"{part}: the log of {spot} begins at {first} and ends before offset {offset}."
            raise OffsetsLost(text)
        if wanted.fails_on_data_loss:
            raise OffsetsLost(f"{part}: offset {offset} is gone, the log begins at {first}.", "START_OFFSET_RESET")
        return first


def fetch(
    client: Client, spot: Spot, topic_id: bytes, offset: int, fetching: ScanFetching, *, committed_only: bool = False
) -> PartitionData | None:
    """The answer of the leader for a partition, which may have the error OFFSET_OUT_OF_RANGE; None if there is none
    since the client is throttled. Raises KafkaError for other errors, and Unreachable."""
    wanted = FetchPartition(partition=spot.partition, fetch_offset=offset, partition_max_bytes=fetching.max_bytes)
    request = FetchRequest(
        max_wait_ms=fetching.max_wait_ms,
        min_bytes=1,
        max_bytes=fetching.max_bytes,
        isolation_level=READ_COMMITTED if committed_only else 0,
        topics=[FetchTopic(topic=spot.topic, topic_id=topic_id, partitions=[wanted])],
    )
    newest = NEWEST_WITH_NAMES if topic_id == ZERO_UUID else None
    response = client.call_node(client.leader(spot), request, fetching.max_wait_ms / 1000, newest)
    raise_for(response.error_code, f"fetch of {spot}")
    found = [answer for topic in response.responses for answer in topic.partitions]
    if not found:
        time.sleep(min(response.throttle_time_ms, 1000) / 1000)
        return None
    answer: PartitionData = found[0]
    if answer.error_code != error_codes.OFFSET_OUT_OF_RANGE:
        raise_for(answer.error_code, f"partition {spot}")
    return answer


def after(data: Buffer, offset: int, part: OffsetRange) -> int:
    """The offset after the last whole batch; ``offset`` if there is none. Raises ScanError."""
    try:
        for _, header in batch_headers(data):
            offset = max(offset, header.next_offset)
    except Malformed as error:
        raise ScanError(f"{part}: {error}") from None
    return offset


def aborted_in(answer: PartitionData) -> Aborted:
    """The aborted transactions of an answer."""
    return Aborted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())


def _readable_end(answer: PartitionData, wanted: Projection) -> int:
    """The offset up to which this reader may read now."""
    return answer.last_stable_offset if wanted.committed_only else answer.high_watermark


def _overdue(part: OffsetRange, wanted: Projection, answer: PartitionData, offset: int) -> Exception:
    end = _readable_end(answer, wanted)
    if wanted.committed_only and end < answer.high_watermark:
        return KafkaError(
            error_codes.REQUEST_TIMED_OUT, f"{part}: offset {offset} belongs to a transaction that stays open"
        )
    return OffsetsLost(f"{part}: the log ends at {end}, and nothing more comes.")
