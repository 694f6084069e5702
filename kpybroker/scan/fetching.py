"""The transport over Kafka's Fetch, from any Kafka cluster."""

from collections.abc import Iterator

from kpybroker.client.client import EARLIEST_TIMESTAMP, READ_COMMITTED, Client, Spot, raise_for
from kpybroker.scan.errors import OffsetsLost, ScanError
from kpybroker.scan.ranges import Range, Wanted
from kpybroker.scan.transport import Piece
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.batch import batch_headers
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData

PIECE_BYTES = 8 * 1024 * 1024
MAX_WAIT_MS = 500


class FetchTransport:
    """Reads partitions from their leaders, one request at a time."""

    def __init__(self, client: Client, piece_bytes: int = PIECE_BYTES) -> None:
        self._client = client
        self._piece_bytes = piece_bytes

    def close(self) -> None:
        self._client.close()

    def pieces(self, part: Range, wanted: Wanted) -> Iterator[Piece]:
        """The batches of a range; see `Transport`."""
        offset = part.start_offset
        while offset < part.end_offset:
            answer = self._client.retrying(lambda at=offset: self._fetch(part, wanted, at))  # type: ignore[misc]
            if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                offset = self._first_offset(part, wanted, offset)
                continue
            data = answer.records or b""
            aborted = Aborted((each.first_offset, each.producer_id) for each in answer.aborted_transactions or ())
            yield Piece(data, aborted)
            following = offset
            for _, header in batch_headers(data):
                following = header.next_offset
            if following == offset and answer.last_stable_offset <= offset and wanted.committed_only:
                raise ScanError(f"{part}: offset {offset} is not committed yet")
            offset = following

    def _fetch(self, part: Range, wanted: Wanted, offset: int) -> PartitionData:
        spot = Spot(part.topic, part.partition)
        topic = self._client.topic(part.topic)
        if topic.topic_id != part.topic_id:
            raise OffsetsLost(f"{part}: topic {part.topic} was deleted and created again since the scan was planned")
        request = FetchRequest(
            max_wait_ms=MAX_WAIT_MS,
            min_bytes=1,
            max_bytes=self._piece_bytes,
            isolation_level=READ_COMMITTED if wanted.committed_only else 0,
            topics=[
                FetchTopic(
                    topic=part.topic,
                    topic_id=part.topic_id,
                    partitions=[
                        FetchPartition(
                            partition=part.partition, fetch_offset=offset, partition_max_bytes=self._piece_bytes
                        )
                    ],
                )
            ],
        )
        response = self._client.call_node(self._client.leader(spot), request, wait_s=MAX_WAIT_MS / 1000)
        raise_for(response.error_code, "fetch")
        (answered,) = response.responses
        (answer,) = answered.partitions
        if answer.error_code != error_codes.OFFSET_OUT_OF_RANGE:
            raise_for(answer.error_code, f"partition {spot}")
        return answer  # type: ignore[no-any-return]

    def _first_offset(self, part: Range, wanted: Wanted, offset: int) -> int:
        """The offset to go on from where ``offset`` is gone."""
        spot = Spot(part.topic, part.partition)
        first: int = self._client.list_offsets({spot: EARLIEST_TIMESTAMP})[spot]
        if wanted.fails_on_data_loss or first <= offset:
            raise OffsetsLost(f"{part}: offset {offset} is gone, the log begins at {first}")
        return first
