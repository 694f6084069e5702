"""Some records of a partition that has no replica on this node, fetched from its leader with the viewer's own login."""

import asyncio
from typing import Final, NamedTuple

from kpybroker.machines.console.record_tasks import Answer, Unreadable, found_of
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.batch import batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.record import read_batch

LATEST, EARLIEST = -1, -2
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""A batch that is larger without its compression is named: a thread that copies it keeps the loop waiting."""


class RemoteRecords(NamedTuple):
    """The records that are asked for."""

    topic: str
    topic_id: bytes
    partition: int
    leader: int
    offset: int | None
    """The first offset; None for the newest records."""
    timestamp_ms: int | None
    """The time of the first record, in place of an offset; None for an offset."""
    most: int
    committed: bool


async def fetched(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords) -> list[Answer]:
    """The records. What keeps them from being read is an answer, too."""
    try:
        end = await _offset(elsewhere, viewer, wanted, LATEST)
        first = await _offset(elsewhere, viewer, wanted, EARLIEST)
        if wanted.timestamp_ms is not None:
            found = await _offset(elsewhere, viewer, wanted, wanted.timestamp_ms)
            start = end if found < 0 else found
        else:
            start = end - wanted.most if wanted.offset is None else wanted.offset
        start = max(first, min(start, end))
        if start >= end:
            return []
        data = await _fetched(elsewhere, viewer, wanted, start)
        return await asyncio.to_thread(_records, wanted, data, start)
    except KafkaError as error:
        reason = f"node {wanted.leader}: {error.message or error}"
        return [Unreadable(wanted.partition, wanted.offset or 0, reason)]


async def _offset(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, timestamp: int) -> int:
    spot = ListOffsetsPartition(partition_index=wanted.partition, timestamp=timestamp)
    topics = [ListOffsetsTopic(name=wanted.topic, partitions=[spot])]
    request = ListOffsetsRequest(replica_id=-1, isolation_level=int(wanted.committed), topics=topics)
    answer = (await elsewhere.ask(viewer, wanted.leader, request)).topics[0].partitions[0]
    if answer.error_code:
        raise KafkaError(answer.error_code)
    offset: int = answer.offset
    return offset


async def _fetched(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, start: int) -> PartitionData:
    spot = FetchPartition(partition=wanted.partition, fetch_offset=start, partition_max_bytes=MOST_BYTES)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=MOST_BYTES,
        isolation_level=int(wanted.committed),
        topics=[FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=[spot])],
    )
    response = await elsewhere.ask(viewer, wanted.leader, request)
    code = response.error_code or response.responses[0].partitions[0].error_code
    if code:
        raise KafkaError(code)
    found: PartitionData = response.responses[0].partitions[0]
    return found


def _records(wanted: RemoteRecords, data: PartitionData, start: int) -> list[Answer]:
    """The records of an answer, from an offset on. In a thread."""
    found: list[Answer] = []
    aborted = Aborted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    buffer = data.records or b""
    try:
        for position, header in batch_headers(buffer):
            if not check_crc(buffer, header, position):
                raise KafkaError(error_codes.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged")
            if wanted.committed and aborted.skips(buffer, header, position):
                continue
            for record in read_batch(buffer, header, position, MOST_INFLATED_BYTES):
                if record.offset >= start:
                    found.append(found_of(wanted.partition, header, record))
                if len(found) >= wanted.most:
                    return found
    except Malformed as error:
        found.append(Unreadable(wanted.partition, start, str(error)))
    return found
