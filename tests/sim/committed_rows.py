"""The records of some topics as they were committed, read from their leaders as soon as the high watermark rises."""

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kpystorage.errors import DiskFailure, OffsetOutOfRange
from kpywire.batch import batch_headers
from kpywire.control_record import control_type
from kpywire.record import read_batch

if TYPE_CHECKING:
    from .machine import Machine
    from .world import World

READ_BYTES = 1 << 20
ABORT = 0

Place = tuple[str, int]


class Row(NamedTuple):
    """A record."""

    offset: int
    value: bytes
    producer_id: int
    is_transactional: bool
    is_control: bool


def rows_of(log: Any, offset: int, end: Any) -> Iterator[Row]:
    """The records of a log from ``offset`` up to ``end``."""
    while offset < end.offset:
        part = log.read(offset, READ_BYTES, end, min_one_batch=True)
        if part is None:
            return
        data = part.read()
        before = offset
        for position, header in batch_headers(data):
            for record in read_batch(data, header, position):
                if record.offset >= before:
                    value = record.value or b""
                    if header.is_control:
                        value = b"abort" if control_type(record) == ABORT else b"commit"
                    yield Row(record.offset, value, header.producer_id, header.is_transactional, header.is_control)
            offset = header.next_offset
        if offset == before:
            return


class CommittedRows:
    """The committed records of each partition, by offset. A record never changes; compaction may remove it later."""

    def __init__(self, world: "World", machines: "list[Machine]", topics: Collection[str]) -> None:
        self.world = world
        self._by_host = {machine.host: machine for machine in machines}
        self._topics = topics
        self.ends: dict[Place, int] = {}
        """The newest high watermark."""
        self._markers: dict[Place, dict[int, list[tuple[int, bool]]]] = {}
        """By producer: the offsets of its markers, and whether they abort."""

    def look(self) -> None:
        """After an event."""
        machine = self._by_host.get(self.world.acted) if self.world.acted is not None else None
        broker: Any = machine.node.broker if machine is not None and machine.node is not None else None
        replicas = getattr(broker, "replicas", None)
        for name in self._topics if replicas is not None else ():
            topic = replicas.topics.get(name)
            for replica in topic.replicas.values() if topic is not None else ():
                leader = replica.leader
                if leader is not None and replica.is_here and leader.log.is_open:
                    self._take((name, replica.index), leader)

    def _take(self, place: Place, leader: Any) -> None:
        known, end = self.ends.get(place, 0), leader.high_watermark
        if end.offset <= known:
            return
        try:
            found = list(rows_of(leader.log, max(known, leader.log.log_start_offset), end))
        except (DiskFailure, OffsetOutOfRange):
            return  # its directory went offline in this event
        self.ends[place] = end.offset
        markers = self._markers.setdefault(place, {})
        for row in found:
            if row.is_control:
                markers.setdefault(row.producer_id, []).append((row.offset, row.value == b"abort"))

    def is_aborted(self, place: Place, row: Row) -> bool:
        """Whether a record belongs to a transaction that was aborted."""
        if not row.is_transactional:
            return False
        for offset, aborts in self._markers.get(place, {}).get(row.producer_id, ()):
            if offset > row.offset:
                return aborts
        return False
