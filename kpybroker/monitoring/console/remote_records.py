"""Some records of a partition that has no replica on this node, or has them in a store alone, fetched from its leader
with the viewer's own login."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from time import sleep
from typing import Final, NamedTuple

from kpybroker.machines.console.matching import FilterMatcher, RecordFilter
from kpybroker.machines.console.record_tasks import Answer, SearchEnded, SearchProgress, Shown, Unreadable
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.aborted import Aborted
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.record import Record, read_batch

LATEST, EARLIEST = -1, -2
MOST_BYTES: Final = 4 * 1024 * 1024
MOST_FETCHES: Final = 100
"""The requests of one look: a segment that is only in a store, however small, is an answer of its own."""
MOST_READ_BYTES: Final = 4 * MOST_BYTES
MOST_EMPTY: Final = 6
"""The empty answers one after the other that end a look or a search. A leader waits half a second for a store."""
MOST_LOOKED: Final = 2000
"""The records of one partition that a filter compares."""
PIECE: Final = 100
PAUSE_S: Final = 0.0002
"""A thread that compares records pauses after each `PIECE`, so that the loop does not wait for the interpreter."""
MOST_INFLATED_BYTES: Final = 16 * 1024 * 1024
"""A batch that is larger without its compression is named: a thread that copies it keeps the loop waiting."""

Found = tuple[BatchHeader, Record]


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
    filter: RecordFilter | None = None

    @property
    def is_newest(self) -> bool:
        """Whether the last records are asked for."""
        return self.offset is None and self.timestamp_ms is None


class _FetchedRecords:
    """The records of one partition, as far as they were fetched."""

    def __init__(self, wanted: RemoteRecords, start: int, most_looked: int | None = None) -> None:
        """``most_looked``: the records after which a filter has compared enough."""
        self.wanted = wanted
        self.most_looked = most_looked if wanted.filter is not None else None
        self.next_offset = start
        self.found: deque[Found] = deque(maxlen=wanted.most if wanted.is_newest else None)
        self.looked_at = self.read_bytes = 0
        self.unreadable: list[Unreadable] = []

    @property
    def is_full(self) -> bool:
        return not self.wanted.is_newest and len(self.found) >= self.wanted.most

    @property
    def is_far(self) -> bool:
        """Whether a filter has compared enough."""
        return self.most_looked is not None and self.looked_at >= self.most_looked


async def fetched(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, shown: Shown) -> list[Answer]:
    """The records, and how far they were read. What keeps them from being read is an answer, too."""
    try:
        end = await _offset(elsewhere, viewer, wanted, LATEST)
        look = _FetchedRecords(wanted, await _start(elsewhere, viewer, wanted, end), MOST_LOOKED)
        for _ in range(MOST_FETCHES):
            if look.next_offset >= end or look.is_full or look.is_far or look.read_bytes >= MOST_READ_BYTES:
                break
            if not await _goes_on(elsewhere, viewer, look):
                look.unreadable.append(_silent(look))
                break
    except KafkaError as error:
        reason = f"node {wanted.leader}: {error.message or error}"
        return [Unreadable(wanted.partition, wanted.offset or 0, reason)]
    is_over = look.next_offset >= end
    next_offsets = () if is_over else ((wanted.partition, look.next_offset),)
    reason = "" if is_over or look.is_full else "enough was read"
    found = [shown.found(wanted.partition, *each) for each in look.found]
    return [*found, *look.unreadable, SearchEnded(reason, next_offsets, look.read_bytes, look.looked_at)]


async def searched(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, shown: Shown) -> AsyncIterator[Answer]:
    """All records of a partition, and how far it is after each answer of its leader."""
    try:
        end = await _offset(elsewhere, viewer, wanted, LATEST)
        look = _FetchedRecords(wanted, await _start(elsewhere, viewer, wanted, end))
        while look.next_offset < end:
            if not await _goes_on(elsewhere, viewer, look):
                yield _silent(look)
                break
            for each in look.found:
                yield shown.found(wanted.partition, *each)
            for gap in look.unreadable:
                yield gap
            look.found.clear()
            look.unreadable.clear()
            yield SearchProgress(look.read_bytes, look.looked_at, wanted.partition, look.next_offset)
    except KafkaError as error:
        yield Unreadable(wanted.partition, wanted.offset or 0, f"node {wanted.leader}: {error.message or error}")
    except Malformed as error:
        yield Unreadable(wanted.partition, look.next_offset, str(error))


async def _goes_on(elsewhere: Elsewhere, viewer: Viewer, look: _FetchedRecords) -> bool:
    """Take the next records. False if the leader sends none, though it is asked several times."""
    before = look.next_offset
    for _ in range(MOST_EMPTY):
        await asyncio.to_thread(_take, look, await _fetched(elsewhere, viewer, look.wanted, before))
        if look.next_offset > before:
            return True
    return False


def _silent(look: _FetchedRecords) -> Unreadable:
    return Unreadable(look.wanted.partition, look.next_offset, f"node {look.wanted.leader} sends nothing from there on")


async def _start(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, end: int) -> int:
    """The offset where reading begins."""
    first = await _offset(elsewhere, viewer, wanted, EARLIEST)
    if wanted.timestamp_ms is not None:
        start = await _at(elsewhere, viewer, wanted, wanted.timestamp_ms, end)
    elif wanted.offset is None:
        start = end - (wanted.most if wanted.filter is None else max(wanted.most, MOST_LOOKED))
    else:
        start = wanted.offset
    if wanted.filter is not None and wanted.filter.since_ms is not None:
        start = max(start, await _at(elsewhere, viewer, wanted, wanted.filter.since_ms, end))
    return max(first, min(start, end))


async def _at(elsewhere: Elsewhere, viewer: Viewer, wanted: RemoteRecords, timestamp_ms: int, end: int) -> int:
    """The offset of the first record that is not older; the end without one."""
    found = await _offset(elsewhere, viewer, wanted, timestamp_ms)
    return end if found < 0 else found


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


def _take(look: _FetchedRecords, data: PartitionData) -> None:
    """Take the records of an answer, from the next offset on. In a thread."""
    wanted, start = look.wanted, look.next_offset
    matches = None if wanted.filter is None else FilterMatcher(wanted.filter)
    aborted = Aborted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
    buffer = data.records or b""
    for position, header in batch_headers(buffer):
        if not check_crc(buffer, header, position):
            raise KafkaError(error_codes.CORRUPT_MESSAGE, f"the batch at offset {header.base_offset} is damaged")
        look.read_bytes += header.size
        if not (wanted.committed and aborted.skips(buffer, header, position)):
            try:
                for record in read_batch(buffer, header, position, MOST_INFLATED_BYTES):
                    if record.offset < start:
                        continue
                    if look.is_far:
                        look.next_offset = record.offset
                        return
                    look.looked_at += 1
                    if look.looked_at % PIECE == 0:
                        sleep(PAUSE_S)
                    if matches is None or matches(record):
                        look.found.append((header, record))
                        if look.is_full:
                            look.next_offset = record.offset + 1
                            return
            except Malformed as error:
                look.unreadable.append(Unreadable(wanted.partition, header.base_offset, str(error)))
        look.next_offset = max(look.next_offset, header.next_offset)
