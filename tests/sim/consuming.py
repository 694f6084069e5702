"""Clients that read: from the beginning to the end and on, in fetch sessions or without, committed or everything.

They filter aborted transactions as Kafka's consumer does.
"""

from functools import lru_cache
from typing import Any

from exactly_once.history import Poll, Seen
from kpywire import error_codes
from kpywire.batch import ATTRIBUTES_POSITION, batch_headers
from kpywire.control_record import control_type
from kpywire.crc import crc32c
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.record import Record, read_records

from .client import Client, NoAnswer, Refused
from .records import Records

READ_COMMITTED = 1
ABORT = 0
SESSIONLESS = -1
MOST_WAIT_MS = 200
LAST_WAIT_MS = 10
"""The longest wait of a reader at one partition while it has others to read, with small segments one at a time."""


class Reader:
    """Reads partitions from their beginning, each at its leader."""

    pauses_after = frozenset({error_codes.CORRUPT_MESSAGE})
    """The errors after which it waits before it asks again."""

    def __init__(self, client: Client, partitions: list[tuple[str, int]], *, in_session: bool, level: int) -> None:
        self.client = client
        self.most_wait_ms = MOST_WAIT_MS
        self.positions = dict.fromkeys(partitions, 0)
        self.ends: dict[tuple[str, int], int] = {}
        """The high watermark of each, as the last answer had it."""
        self.epochs: dict[tuple[str, int], int] = {}
        """The leader epoch in which the last record read of each partition was written."""
        self._level = level
        self._in_session = in_session
        self._sessions: dict[int, tuple[int, int]] = {}
        self._is_damaged = False
        """Whether the last poll found something that is."""

    async def poll(self) -> list[Seen]:
        """Ask every leader once; what came, after a pause where something went wrong."""
        seen: list[Seen] = []
        self._is_damaged = False
        at: dict[int, list[tuple[str, int]]] = {}
        try:
            for place in self.positions:
                at.setdefault(await self.client.leader(*place), []).append(place)
            for node_id, places in at.items():
                seen += await self._fetch(node_id, places)
        except (NoAnswer, Refused):
            self.client.forget()
            await self.client.pause(100)
        if self._is_damaged:
            await self.client.pause(100)
        return seen

    async def _fetch(self, node_id: int, places: list[tuple[str, int]]) -> list[Seen]:
        session_id, epoch = self._sessions.get(node_id, (0, 0)) if self._in_session else (0, SESSIONLESS)
        request = FetchRequest(
            max_wait_ms=self.most_wait_ms,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=self._level,
            session_id=session_id,
            session_epoch=epoch,
            topics=[self._topic(*place) for place in places],
        )
        try:
            answer = await self.client.ask(node_id, request)
        except NoAnswer:
            self._sessions.pop(node_id, None)
            self.client.forget()
            raise
        if answer.error_code:
            self._sessions.pop(node_id, None)
            if answer.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND:
                return []
            raise Refused(answer.error_code, f"fetch from n{node_id}")
        if self._in_session and answer.session_id:
            self._sessions[node_id] = answer.session_id, epoch + 1
        names = {topic.id: name for name, topic in self.client.topics.items()}
        seen: list[Seen] = []
        for topic in answer.responses:
            name = topic.topic or names.get(topic.topic_id, "")
            for each in topic.partitions:
                if (name, each.partition_index) in self.positions:
                    seen += self._read(node_id, (name, each.partition_index), each)
        return seen

    def _topic(self, topic: str, partition: int) -> FetchTopic:
        found = self.client.topics.get(topic)
        wanted = FetchPartition(
            current_leader_epoch=found.leaders[partition][0] if found else -1,
            partition=partition,
            fetch_offset=self.positions[topic, partition],
            partition_max_bytes=1 << 18,
        )
        return FetchTopic(topic=topic, topic_id=found.id if found else bytes(16), partitions=[wanted])

    def _read(self, node_id: int, place: tuple[str, int], data: Any) -> list[Seen]:
        """The new records in a partition's answer."""
        if data.error_code:
            self.client.forget()
            self._sessions.pop(node_id, None)
            self._is_damaged |= data.error_code in self.pauses_after
            if data.error_code == error_codes.OFFSET_OUT_OF_RANGE:
                self.out_of_range(node_id, place)
            return []
        self.ends[place] = data.high_watermark
        records = bytes(data.records or b"")
        aborted = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or ())
        return list(self._new(place, records, aborted))

    def out_of_range(self, node_id: int, place: tuple[str, int]) -> None:
        """A leader has nothing where this reader is: of what is kept for ever, that cannot be."""
        self.client.world.violated(
            f"{place} on n{node_id} has nothing at {self.positions[place]}, and what is before was read"
        )

    def _new(self, place: tuple[str, int], data: bytes, aborted: list[tuple[int, int]]) -> list[Seen]:
        seen: list[Seen] = []
        gone: set[int] = set()
        for position, header in batch_headers(data):
            while aborted and aborted[0][0] <= header.last_offset:
                gone.add(aborted.pop(0)[1])
            batch = _records(data[position : position + header.size])
            if header.is_control:
                if control_type(batch[0]) == ABORT:
                    gone.discard(header.producer_id)
            elif not (self._level == READ_COMMITTED and header.is_transactional and header.producer_id in gone):
                seen += [
                    Seen(place, record.offset, (record.value or b"").decode())
                    for record in batch
                    if record.offset >= self.positions[place]
                ]
            self.positions[place] = max(self.positions[place], header.next_offset)
            self.epochs[place] = header.partition_leader_epoch
        return seen


@lru_cache(20_000)
def _records(batch: bytes) -> list[Record]:
    """The records of one batch, which many clients read. Raises AssertionError for one that is damaged."""
    whole = batch_headers(batch).__next__()[1].crc == crc32c(batch[ATTRIBUTES_POSITION:])
    assert whole, f"a damaged batch was sent: {batch[:80].hex()}"
    return list(read_records(batch))


async def consume(client: Client, records: Records, partitions: list[tuple[str, int]]) -> None:
    """Read committed for as long as the simulation goes on, from the beginning again now and then."""
    number = 0
    while not client.is_over:
        number += 1
        reader = Reader(client, partitions, in_session=client.rng.random() < 0.7, level=READ_COMMITTED)
        for _ in range(client.rng.randint(5, 60)):
            if client.is_over:
                return
            seen = await reader.poll()
            if seen:
                records.polls.append(Poll(f"{client.name}.{number}", client.now_s, seen))


async def read_to_the_end(client: Client, partitions: list[tuple[str, int]]) -> list[Seen]:
    """Everything that is committed."""
    reader = Reader(client, partitions, in_session=False, level=READ_COMMITTED)
    reader.most_wait_ms = LAST_WAIT_MS
    log: list[Seen] = []
    while any(reader.positions[place] < reader.ends.get(place, 1 << 62) for place in partitions):
        log += await reader.poll()
    return log
