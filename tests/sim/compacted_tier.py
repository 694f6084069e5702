"""A compacted tiered topic in a world: its view is that of a log without compaction, whatever a store and disks drop.

Producers write few keys, and tombstones. The truth is what the leader had when its high watermark rose. A reader from
the start to the end, within ``delete.retention.ms``, ends with the newest value of every key. A slower one may miss a
deletion.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kpystorage.errors import DiskFailure, OffsetOutOfRange
from kpywire.batch import batch_headers
from kpywire.record import read_batch

from .client import Client
from .consuming import Reader
from .producing import Producer

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

SQUEEZED = "squeezed"
DELETE_RETENTION_MS = 20_000.0
CONFIGS = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": "0",
    "segment.ms": "500",
    "delete.retention.ms": str(int(DELETE_RETENTION_MS)),
}
SETTINGS = {"kpybroker.remote.compacted.enable": "true", "log.cleaner.backoff.ms": "300"}
"""The settings of a node that may tier it."""
KEYS = 5
TOMBSTONES = 0.2
READ_BYTES = 1 << 20
PLACE = SQUEEZED, 0
Keyed = tuple[int, bytes, bytes | None]
"""A record: offset, key, value."""


class KeyedProducer(Producer):
    """Its records have few keys, and some have no value."""

    def _key(self) -> bytes:
        return b"key%d" % self.rng.randrange(KEYS)

    def _value(self, value: str) -> bytes | None:
        return None if self.rng.random() < TOMBSTONES else value.encode()


def keyed(data: bytes) -> Iterator[tuple[int, list[Keyed]]]:
    """The records of batches, with the offset behind each batch."""
    for position, header in batch_headers(data):
        records = [] if header.is_control else list(read_batch(data, header, position))
        yield header.next_offset, [(each.offset, each.key or b"", each.value) for each in records]


class CompactedTruth:
    """The records that were committed, whether or not they are still there."""

    def __init__(self, world: "World", machines: "list[Machine]") -> None:
        self.world = world
        self.records: dict[int, Keyed] = {}
        self.end = 0
        self._by_host = {machine.host: machine for machine in machines}

    def look(self) -> None:
        """After an event."""
        machine = self._by_host.get(self.world.acted) if self.world.acted is not None else None
        broker: Any = machine.node.broker if machine is not None and machine.node is not None else None
        topic = getattr(broker, "replicas", None) and broker.replicas.topics.get(SQUEEZED)
        replica = topic.replicas.get(0) if topic else None
        leader = None if replica is None or not replica.is_here else replica.leader
        if leader is not None and leader.log.is_open and leader.high_watermark.offset > self.end:
            self._take(leader.log, leader.high_watermark)

    def _take(self, log: Any, end: Any) -> None:
        offset = self.end
        try:
            while offset < end.offset:
                part = log.read(max(offset, log.local_log_start_offset), READ_BYTES, end, min_one_batch=True)
                if part is None:
                    return
                for behind, records in keyed(part.read()):
                    for each in records:
                        if each[0] >= self.end:
                            self.records.setdefault(each[0], each)
                    offset = behind
        except (DiskFailure, OffsetOutOfRange):
            return  # its directory went offline in this event
        self.end = offset

    def view(self, end: int) -> dict[bytes, bytes]:
        """The newest value of every key below an offset."""
        found = {key: value for offset, key, value in self.records.values() if offset < end}
        return {key: value for key, value in found.items() if value is not None}


class CompactedReader(Reader):
    """Reads from the start to the end once, and compares what it has then."""

    def __init__(self, client: Client, truth: CompactedTruth) -> None:
        super().__init__(client, [PLACE], in_session=client.rng.random() < 0.5, level=0)
        self._truth = truth
        self._found: dict[bytes, bytes | None] = {}
        self._began_ms = truth.world.now_ms

    @property
    def is_done(self) -> bool:
        """Whether it has come to the end. A new leader may know an older one, and what is behind it has superseded
        records already."""
        return self.positions[PLACE] >= max(self.ends.get(PLACE, 1 << 62), self._truth.end)

    def _new(self, place: tuple[str, int], data: bytes, aborted: list[tuple[int, int]]) -> list[Any]:
        for _, records in keyed(data):
            for each in records:
                if each[0] < self.positions[place]:
                    continue
                known = self._truth.records.get(each[0])
                if known is not None and known != each:
                    self._truth.world.violated(f"{place} has {each}, and {known} was committed")
                self._found[each[1]] = each[2]
        return super()._new(place, data, aborted)

    def compare(self) -> None:
        """Compare its view with the truth, unless it took too long for one, or was ended."""
        world, end = self._truth.world, self.positions[PLACE]
        is_late = world.now_ms - self._began_ms >= DELETE_RETENTION_MS
        if is_late or not self.is_done or end > self._truth.end:
            return
        found = {key: value for key, value in self._found.items() if value is not None}
        wanted = self._truth.view(end)
        if found != wanted:
            world.violated(f"{PLACE} up to {end} has the view {found}, and {wanted} was committed")


async def read_views(client: Client, truth: CompactedTruth) -> None:
    """Read from the start again and again."""
    while not client.is_over:
        reader = CompactedReader(client, truth)
        while not reader.is_done and not client.is_over:
            await reader.poll()
            await client.pause(20)
        reader.compare()
        await client.pause(200)


async def read_last_view(client: Client, truth: CompactedTruth) -> None:
    """Read from the start once, and compare."""
    reader = CompactedReader(client, truth)
    while not reader.is_done:
        await reader.poll()
    reader.compare()
