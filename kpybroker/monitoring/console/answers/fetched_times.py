"""The times of records at positions in partitions that other nodes lead: fetched with the viewer's own login.

A leader is asked for all of its partitions in one Fetch, over one connection, and all leaders at the same time. Another
Fetch follows where an answer had no room for a batch, or did not reach another position in the same partition. Only
headers of batches are read of what comes. Not here: lags (`lag_times`).
"""

import asyncio
from collections.abc import Collection, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, Spot
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import NO_TIME, first_ms
from kpybroker.monitoring.console.answers.log_offsets import CLIENT, leader_id, listing
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import give_way, paced
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.batch import HEADER_BYTES, parse_header
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsRequest

if TYPE_CHECKING:
    from kpybroker.client.asyncio_connection import AsyncioConnection

PATIENCE_S: Final = 1.0
"""The time that a leader has: a page does not wait longer for one that hangs."""
MOST_ASKED: Final = 100
"""The partitions of one request: its answer is read in one step of the loop."""
MOST_REQUESTS: Final = 100
"""The requests to one leader."""
MOST_EMPTY: Final = 2
"""The answers without a time, one after the other, that end the requests to a leader."""
MOST_HEADERS: Final = 200
"""The batches of one partition in an answer that are read."""
FIRST_BYTES: Final = 16 * 1024
"""The room for one partition in the first answer; later ones have more, for batches that are larger."""
MOST_BYTES: Final = 1024 * 1024
"""The room of one answer. The first batch of an answer has room whatever its size is."""

Position = tuple[str, int, int]
"""A topic, a partition and an offset."""


class FetchedTimes(NamedTuple):
    """The time at each position in ms, `NO_TIME` where there is none, and the reason of each leader that has not told
    all of them."""

    times: dict[Position, int]
    silent: dict[int, str]


NOTHING_FETCHED: Final = FetchedTimes({}, {})


async def fetched_times(node: NodeParts, viewer: Viewer, positions: Iterable[Position]) -> FetchedTimes:
    """The times of the first batches at or behind these positions."""
    found = FetchedTimes({}, {})
    by_leader: dict[int, list[Position]] = {}
    async for position in paced(positions):
        by_leader.setdefault(leader_id(node, position[:2]), []).append(position)
    for position in by_leader.pop(-1, ()):
        found.silent[-1] = f"{position[0]}-{position[1]} has no leader"
    await asyncio.gather(*(_ask(node, viewer, each, by_leader[each], found) for each in by_leader))
    return found


async def _ask(node: NodeParts, viewer: Viewer, leader: int, positions: list[Position], found: FetchedTimes) -> None:
    """Ask one leader."""
    asked = _AskedLeader(node, positions, found.times)
    try:
        async with asyncio.timeout(PATIENCE_S), node.elsewhere.connected(viewer, leader) as connection:
            await asked.over(connection)
    except (KafkaError, TimeoutError) as error:
        asked.reason = "it does not answer in time" if isinstance(error, TimeoutError) else error.message or str(error)
    if asked.reason:
        found.silent[leader] = f"node {leader}: {asked.reason}"


class _AskedLeader:
    """The positions in the partitions of one leader, until their times are known."""

    def __init__(self, node: NodeParts, positions: Iterable[Position], times: dict[Position, int]) -> None:
        self._node = node
        self._times = times
        self._waiting: dict[tuple[str, int], list[tuple[int, Position]]] = {}
        """The positions that are left in each partition, with the offsets that are asked for, the first one last."""
        for position in sorted(positions, key=_offset, reverse=True):
            self._waiting.setdefault(position[:2], []).append((position[2], position))
        self._gone: set[tuple[str, int]] = set()
        """The partitions whose logs begin behind a position."""
        self.reason = ""
        """Why some have no time."""

    async def over(self, connection: "AsyncioConnection") -> None:
        """Ask over a connection. Raises KafkaError."""
        await self._fetch(connection)
        if not self._gone:
            return
        topics = listing(dict.fromkeys((Spot(*each) for each in sorted(self._gone)), EARLIEST_TIMESTAMP))
        answer = await connection.call(ListOffsetsRequest(replica_id=CLIENT, topics=topics))
        for topic in answer.topics:
            for each in topic.partitions:
                spot = topic.name, each.partition_index
                if not each.error_code and spot in self._gone:
                    self._waiting[spot] = [(max(offset, each.offset), at) for offset, at in self._waiting[spot]]
        self._gone.clear()
        await self._fetch(connection)
        if self._gone:
            self.reason = self.reason or error_codes.name(error_codes.OFFSET_OUT_OF_RANGE)

    async def _fetch(self, connection: "AsyncioConnection") -> None:
        """Fetch until all are known, or as often as that is of use."""
        room, empty = FIRST_BYTES, 0
        for _ in range(MOST_REQUESTS):
            asked = {spot: waiting[-1][0] for spot, waiting in self._waiting.items() if spot not in self._gone}
            if not asked:
                return
            before = sum(map(len, self._waiting.values()))
            some = dict(islice(asked.items(), MOST_ASKED))
            await self._take(await connection.call(self._request(some, room)), some)
            is_empty = not self._gone and sum(map(len, self._waiting.values())) == before
            empty = empty + 1 if is_empty else 0
            if empty == MOST_EMPTY:
                self.reason = self.reason or "it sends nothing from there on"
                return
            room = MOST_BYTES
        if self._waiting.keys() - self._gone:
            self.reason = self.reason or "it was asked for enough at once; the next look asks for more"

    def _request(self, offsets: Mapping[tuple[str, int], int], room: int) -> FetchRequest:
        known = self._node.broker.image.topics
        topics: dict[str, FetchTopic] = {}
        for (name, partition), offset in offsets.items():
            topic = topics.get(name)
            if topic is None:
                topic_id = known[name].id if name in known else bytes(16)
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=room))
        # At least a byte, so that the leader waits for records that it has to get from a store.
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MOST_BYTES, topics=list(topics.values()))

    async def _take(self, response: Any, asked: Collection[tuple[str, int]]) -> None:
        if response.error_code:
            raise KafkaError(response.error_code)
        by_id = self._node.broker.image.topics_by_id
        for topic in response.responses:
            name = topic.topic or (by_id[topic.topic_id].name if topic.topic_id in by_id else "")
            for answer in topic.partitions:
                spot = name, answer.partition_index
                if spot in asked:
                    self._take_one(spot, answer)
                await give_way()

    def _take_one(self, spot: tuple[str, int], answer: Any) -> None:
        """Take the answer for a partition: its batches may be those of several positions."""
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self._gone.add(spot)
            return
        waiting = self._waiting[spot]
        if answer.error_code:
            self.reason = self.reason or error_codes.name(answer.error_code)
            waiting.clear()
        data, place = answer.records or b"", 0
        for _ in range(MOST_HEADERS):
            if not waiting or place + HEADER_BYTES > len(data):
                break
            header = parse_header(data, place)
            while waiting and waiting[-1][0] <= header.last_offset:
                self._times[waiting.pop()[1]] = first_ms(header)
            place += max(HEADER_BYTES, header.size)
        if not data and waiting and waiting[-1][0] >= answer.high_watermark:
            self._times.update((at, NO_TIME) for _, at in waiting)  # their records are deleted, and none came since
            waiting.clear()
        if not waiting:
            del self._waiting[spot]


def _offset(position: Position) -> int:
    return position[2]
