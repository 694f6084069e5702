"""Everything that a partition's readers can see, read batch by batch: for comparison before and after."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple

from kpywire import error_codes
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from kpywire.record import read_batch, read_records
from kpywire.remote_log_record import TOPIC as METADATA_TOPIC
from kpywire.remote_log_record import decode_value
from support.clusters import Nodes
from support.raw_client import RawClient, connect
from support.raw_requests import metadata_of, offset_at
from support.special_timestamps import EARLIEST, LATEST, LATEST_TIERED
from support.waiting import eventually

BY_NAME: Final = 12
READ_COMMITTED: Final = 1
COMING: Final = (
    error_codes.NOT_LEADER_OR_FOLLOWER,
    error_codes.LEADER_NOT_AVAILABLE,
    error_codes.UNKNOWN_TOPIC_OR_PARTITION,
    error_codes.UNKNOWN_LEADER_EPOCH,
    error_codes.REPLICA_NOT_AVAILABLE,
    error_codes.OFFSET_NOT_AVAILABLE,
    error_codes.UNKNOWN_SERVER_ERROR,
)
"""The answers of a node that begins to lead; the last one is Apache Kafka's while it reads the metadata of the store.
Consumers ask again after each of them."""


class SeenBatch(NamedTuple):
    """A batch as readers get it."""

    base_offset: int
    last_offset: int
    crc: int
    leader_epoch: int


def fetch(
    topic: str,
    offsets: Mapping[int, int],
    *,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    max_wait_ms: int = 500,
    isolation: int = 0,
    replica_id: int = -1,
    leader_epoch: int = -1,
) -> FetchRequest:
    """A Fetch from these offsets of partitions, without a session."""
    wanted = [
        FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=partition_max_bytes,
            current_leader_epoch=leader_epoch,
        )
        for index, offset in offsets.items()
    ]
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        max_bytes=max_bytes,
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=wanted)],
    )


def answers(response: FetchResponse) -> dict[int, PartitionData]:
    """The parts of an answer about one topic, by partition."""
    assert response.error_code == error_codes.NONE
    return {each.partition_index: each for topic in response.responses for each in topic.partitions}


def headers_in(data: PartitionData) -> list[BatchHeader]:
    """The headers of the whole batches of an answer, whose checksums are compared."""
    found, records = [], data.records or b""
    for position, header in batch_headers(records):
        assert check_crc(records, header, position), header
        found.append(header)
    return found


def fetched(raw: RawClient, topic: str, offset: int, *, partition: int = 0, **how: int) -> PartitionData:
    """The answer for one partition as soon as the node leads it and has its remote metadata."""

    def look() -> PartitionData | None:
        data = answers(raw.call(fetch(topic, {partition: offset}, **how), BY_NAME))[partition]
        return None if data.error_code in COMING else data

    return eventually(look, f"an answer about {topic}-{partition} at {offset}")


def pages(raw: RawClient, topic: str, partition: int = 0, **how: int) -> Iterator[PartitionData]:
    """The answers with the records of a partition from its start to its high watermark."""
    end = offset(raw, topic, LATEST, partition)
    position = offset(raw, topic, EARLIEST, partition)
    while position < end:
        found: list[PartitionData] = []

        def look(position: int = position, found: list[PartitionData] = found) -> bool:
            data = fetched(raw, topic, position, partition=partition, **how)
            assert data.error_code == error_codes.NONE, f"{topic}-{partition} at {position} of {end}: {data.error_code}"
            found[:] = [data]
            return bool(headers_in(data))

        eventually(look, f"records of {topic}-{partition} from {position} to {end}")
        yield found[0]
        position = headers_in(found[0])[-1].next_offset


def batches(raw: RawClient, topic: str, partition: int = 0, **how: Any) -> list[SeenBatch]:
    """All batches of a partition, which follow one another without a gap."""
    seen = [
        SeenBatch(header.base_offset, header.last_offset, header.crc, header.partition_leader_epoch)
        for page in pages(raw, topic, partition, **how)
        for header in headers_in(page)
    ]
    for before, after in pairwise(seen):
        assert after.base_offset == before.last_offset + 1, (before, after)
    return seen


def offset(raw: RawClient, topic: str, timestamp: int, partition: int = 0) -> int:
    """The offset that ListOffsets answers as soon as the node leads."""
    found: list[tuple[int, int, int, int]] = []

    def look() -> bool:
        found[:] = [offset_at(raw, topic, timestamp, partition=partition, timeout_ms=10_000)]
        return found[0][0] not in COMING

    eventually(look, lambda: f"the offset at {timestamp} of {topic}-{partition}: {found}")
    assert found[0][0] == error_codes.NONE, found
    return found[0][2]


def metadata_records(raw: RawClient, partitions: Iterable[int]) -> list[Any]:
    """The records of ``__remote_log_metadata``, partition by partition."""
    found = []
    for partition in partitions:
        for page in pages(raw, METADATA_TOPIC, partition):
            for record in read_records(page.records or b""):
                assert record.key is None
                assert record.value is not None
                found.append(decode_value(record.value))
    return found


def leader(cluster: Nodes, topic: str, partition: int = 0) -> int:
    """The node that leads a partition, as soon as one does that runs."""

    def look() -> int | None:
        for node in cluster.nodes.values():
            if node.process is not None:
                with connect(node.bootstrap_servers) as raw:
                    found = {each.partition_index: each.leader_id for each in metadata_of(raw, topic).partitions}
                wanted = cluster.nodes.get(found.get(partition, -1))
                if wanted is not None and wanted.process is not None:
                    return found[partition]
        return None

    return eventually(look, f"a leader of {topic}-{partition}", 120, every_s=0.1, despite=(OSError,))


def to_leader(cluster: Nodes, topic: str, partition: int = 0) -> RawClient:
    """A connection to the node that leads a partition."""
    return connect(cluster.nodes[leader(cluster, topic, partition)].bootstrap_servers)


class Reading(NamedTuple):
    """Everything that readers see of a partition and that may not change when another program serves it."""

    start: int
    end: int
    latest_tiered: int
    batches: list[SeenBatch]
    committed: list[tuple[int, bytes | None]]
    """(offset, value) of each record that a reader of committed transactions gets."""
    by_time: dict[int, int]
    """The first offset with a record that is not older than a time, for some times."""


def read(cluster: Nodes, topic: str, partition: int, times_ms: tuple[int, ...] = ()) -> Reading:
    """Read all of a partition."""
    with to_leader(cluster, topic, partition) as raw:
        return Reading(
            offset(raw, topic, EARLIEST, partition),
            offset(raw, topic, LATEST, partition),
            offset(raw, topic, LATEST_TIERED, partition),
            batches(raw, topic, partition),
            committed(raw, topic, partition),
            {at: offset(raw, topic, at, partition) for at in times_ms},
        )


def committed(raw: RawClient, topic: str, partition: int = 0) -> list[tuple[int, bytes | None]]:
    """The records that a reader of committed transactions keeps, by the aborted transactions in the answers."""
    kept: list[tuple[int, bytes | None]] = []
    aborting: set[int] = set()
    for page in pages(raw, topic, partition, isolation=READ_COMMITTED):
        starts = sorted((each.first_offset, each.producer_id) for each in page.aborted_transactions or ())
        for position, header in batch_headers(page.records or b""):
            while starts and starts[0][0] <= header.last_offset:
                aborting.add(starts.pop(0)[1])
            if header.is_control:
                aborting.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborting):
                kept += [(each.offset, each.value) for each in read_batch(page.records or b"", header, position)]
    return kept
