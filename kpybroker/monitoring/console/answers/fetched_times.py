"""The times of records at positions in partitions that other nodes lead: fetched with the viewer's own login.

A leader is asked for all of its partitions in one Fetch, over one connection, and all leaders at the same time. Another
Fetch follows where an answer had no room for a batch, or where several positions are in one partition. Only the header
of the first batch is read of what comes. Not here: lags (`lag_times`).
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, Spot
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import first_ms
from kpybroker.monitoring.console.answers.log_offsets import CLIENT, leader_id, listing
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import PER_PART, give_way, paced
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
FIRST_BYTES: Final = 16 * 1024
"""The room for one partition in the first answer; later ones have more, for batches that are larger."""
MOST_BYTES: Final = 1024 * 1024
"""The room of one answer. The first batch of an answer has room whatever its size is."""

Position = tuple[str, int, int]
"""A topic, a partition and an offset."""


class FetchedTimes(NamedTuple):
    """The time at each position in ms, and the reason of each leader that has not told all of them."""

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
    look = _Look(node, positions, found.times)
    try:
        async with asyncio.timeout(PATIENCE_S), node.elsewhere.connected(viewer, leader) as connection:
            await look.over(connection)
    except (KafkaError, TimeoutError) as error:
        look.reason = "it does not answer in time" if isinstance(error, TimeoutError) else error.message or str(error)
    if look.reason:
        found.silent[leader] = f"node {leader}: {look.reason}"


class _Look:
    """The positions in the partitions of one leader, until their times are known."""

    def __init__(self, node: NodeParts, positions: Iterable[Position], times: dict[Position, int]) -> None:
        self._node = node
        self._times = times
        self._left = {each: each[2] for each in positions}
        """The positions that are left, with the offsets that are asked for."""
        self._gone: list[Position] = []
        """Those that are before the start of their logs."""
        self.reason = ""
        """Why some have no time."""

    async def over(self, connection: "AsyncioConnection") -> None:
        """Ask over a connection. Raises KafkaError."""
        await self._fetch(connection)
        if self._gone:
            spots = {each[:2]: each for each in self._gone}
            topics = listing(dict.fromkeys((Spot(*each) for each in spots), EARLIEST_TIMESTAMP))
            answer = await connection.call(ListOffsetsRequest(replica_id=CLIENT, topics=topics))
            starts = {
                (topic.name, each.partition_index): each.offset
                for topic in answer.topics
                for each in topic.partitions
                if not each.error_code
            }
            self._left = {each: starts[each[:2]] for each in self._gone if each[:2] in starts}
            self._gone = []
            await self._fetch(connection)
        if self._gone:
            self.reason = self.reason or error_codes.name(error_codes.OFFSET_OUT_OF_RANGE)

    async def _fetch(self, connection: "AsyncioConnection") -> None:
        """Fetch until all are known, or as often as that is of use."""
        room, empty = FIRST_BYTES, 0
        for _ in range(MOST_REQUESTS):
            asked = self._next()
            if not asked:
                return
            before = len(self._left)
            await self._take(await connection.call(self._request(asked.values(), room)), asked)
            empty = empty + 1 if len(self._left) == before else 0
            if empty == MOST_EMPTY:
                break
            room = MOST_BYTES
        self.reason = self.reason or "it sends nothing from there on"

    def _next(self) -> dict[tuple[str, int], Position]:
        """The positions of one request: one for each partition."""
        asked: dict[tuple[str, int], Position] = {}
        for position in self._left:
            asked.setdefault(position[:2], position)
            if len(asked) == MOST_ASKED:
                break
        return asked

    def _request(self, positions: Iterable[Position], room: int) -> FetchRequest:
        known = self._node.broker.image.topics
        topics: dict[str, FetchTopic] = {}
        for position in positions:
            name, partition, _ = position
            topic = topics.get(name)
            if topic is None:
                topic_id = known[name].id if name in known else bytes(16)
                topic = topics[name] = FetchTopic(topic=name, topic_id=topic_id, partitions=[])
            topic.partitions.append(
                FetchPartition(partition=partition, fetch_offset=self._left[position], partition_max_bytes=room)
            )
        # At least a byte, so that the leader waits for records that it has to get from a store.
        return FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=MOST_BYTES, topics=list(topics.values()))

    async def _take(self, response: Any, asked: Mapping[tuple[str, int], Position]) -> None:
        if response.error_code:
            raise KafkaError(response.error_code)
        by_id = self._node.broker.image.topics_by_id
        for topic in response.responses:
            name = topic.topic or (by_id[topic.topic_id].name if topic.topic_id in by_id else "")
            for number, answer in enumerate(topic.partitions):
                if number % PER_PART == 0:
                    await give_way()
                position = asked.get((name, answer.partition_index))
                if position is not None:
                    self._take_one(position, answer)

    def _take_one(self, position: Position, answer: Any) -> None:
        data: Sequence[int] = answer.records or b""
        if answer.error_code == error_codes.OFFSET_OUT_OF_RANGE:
            self._gone.append(position)
        elif answer.error_code:
            self.reason = self.reason or error_codes.name(answer.error_code)
        elif len(data) >= HEADER_BYTES:
            self._times[position] = first_ms(parse_header(data))  # type: ignore[arg-type]
        else:
            return
        del self._left[position]
