"""A coordinator of a simple kind over real logs in memory, with time and metadata in the test's hands.

The machine counts how often each key was written. The first word of an event says what is asked.
"""

import errno
from random import Random
from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.hosts.coordinators.kind import CoordinatorKind
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.replicas.directories import Directories, IdentifiedDirectory
from kpybroker.hosts.replicas.neighbours import Neighbours
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.coordination.events import Loaded, MetadataChanged
from kpybroker.machines.journal import Effects, EventTooLarge, ProducerEpoch
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.in_sync import Rules
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire.errors import Malformed
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.remove_topic_record import RemoveTopicRecord
from kpywire.metadata_records.topic_record import TopicRecord
from tests.replication.alone import alone

TOPIC = "__consumer_offsets"
TOPIC_ID = bytes(range(16))
NODE = 1
OTHER_NODE = 2
PERIOD_MS = 600_000


class Count(NamedTuple):
    """A record: a key was written so often by now."""

    key: str
    number: int

    def encoded(self) -> tuple[bytes, bytes | None]:
        return self.key.encode(), str(self.number).encode()


def decode(key: bytes, value: bytes | None) -> Count | None:
    """Keys that begin with "?" are of a type that nobody knows; those that begin with "!" are damaged."""
    if key.startswith(b"?"):
        return None
    if key.startswith(b"!"):
        raise Malformed("a damaged key")
    return Count(key.decode(), int(value or b"0"))


class Counter:
    """The machine."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self.pending: dict[ProducerEpoch, list[Count]] = {}
        self.parked: list[Any] = []
        self.seen: list[Any] = []
        self.wakes_at_ms: int | None = None
        self.forgiving = False

    def decide(self, event: Any, now_ms: int) -> Effects:
        if isinstance(event, EventTooLarge):
            return Effects(replies=[(event.event[1], "too large")])
        if isinstance(event, Loaded):
            event = ("loaded", None, event.timestamp_ms)
        elif isinstance(event, MetadataChanged):
            grown = sorted(event.grown)
            event = ("grown", None, grown, dict(event.topics)) if grown else ("deleted", None, event.deleted)
        what, ticket, *details = event
        if what == "put":
            count = Count(details[0], self.counts.get(details[0], 0) + 1)
            return Effects(records=[count], replies=[(ticket, count.number)], producer=(details[1:] or [None])[0])
        if what == "get":
            return Effects(replies=[(ticket, self.counts.get(details[0], 0))])
        if what == "park":
            self.parked.append(ticket)
            return Effects()
        if what == "release":
            parked, self.parked = self.parked, []
            return Effects(replies=[*((each, "released") for each in parked), (ticket, len(parked))])
        if what == "wake":
            self.wakes_at_ms = now_ms + details[0]
            return Effects(replies=[(ticket, "sleeping")])
        if what == "break":
            raise ValueError("a defect")
        if what == "corrupt":
            return Effects(records=[Count(details[0], -1)], replies=[(ticket, "written")])
        self.seen.append((what, *event[1:]))
        if what == "timers":
            self.wakes_at_ms = None
        return Effects()

    def apply(self, record: Count, _offset: int, producer: ProducerEpoch | None) -> None:
        if record.number < 0 and not self.forgiving:
            raise ValueError("a record that cannot be applied")
        if producer is None:
            self.counts[record.key] = record.number
        else:
            self.pending.setdefault(producer, []).append(record)

    def apply_marker(self, producer: ProducerEpoch, _offset: int, *, commit: bool) -> None:
        for record in self.pending.pop(producer, []):
            if commit:
                self.counts[record.key] = record.number

    def next_deadline_ms(self) -> int | None:
        return self.wakes_at_ms


def unused(_kind: Any) -> None:
    """Nobody hears of it."""


class World:
    """One node, one log directory, one coordinator."""

    def __init__(
        self,
        disk: MemoryDisk | None = None,
        *,
        load_bytes: int = 1 << 20,
        start: bool = True,
        neighbours: Neighbours | None = None,
        follows_new_topics: bool = False,
    ) -> None:
        self.scheduler = ManualScheduler()
        self.disk = disk or MemoryDisk()
        config = BrokerConfig.load(None, {})
        self.directory = LogDirectory("/data", self.disk, Random(1), unused, LogConfig())
        if self.disk.status("/data") is None:
            self.disk.make_directory("/data")
        self.directory.open(self.scheduler.now_ms())
        for _ in self.directory.recover():
            pass
        self.halted: list[str] = []
        directories = Directories(
            [IdentifiedDirectory(self.directory, bytes(15) + b"\x77")], self.scheduler, self.halted.append
        )
        self.replicas = Replicas(
            NODE,
            directories,
            self.scheduler,
            lambda overrides: effective(overrides, config),
            Rules(30_000),
            alone() if neighbours is None else neighbours,
        )
        self.image = MetadataImage("cluster")
        self.machines: list[Counter] = []
        self.forgiving = False
        """Whether machines made from now on apply what those before could not."""
        self.kind = CoordinatorKind(
            new_machine=self._new_machine,
            decode=decode,
            timers_due=lambda at_ms: ("timers", None, at_ms),
            periodic=lambda at_ms: ("periodic", None, at_ms),
            codec=lambda: 0,
            load_bytes=lambda: load_bytes,
            follows_new_topics=follows_new_topics,
        )
        self.coordinator = Shards(TOPIC, lambda: PERIOD_MS, lambda: self.kind, self.scheduler, self.replicas)
        if start:
            self.coordinator.start()

    def _new_machine(self) -> Counter:
        self.machines.append(Counter())
        self.machines[-1].forgiving = self.forgiving
        return self.machines[-1]

    # Metadata

    def tell(self, *records: Any) -> None:
        """Apply records of the metadata, as one committed batch."""
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
        self.replicas.apply(self.image, delta)
        self.coordinator.apply(self.image, delta)

    def create(
        self, partitions: int = 1, name: str = TOPIC, topic_id: bytes = TOPIC_ID, isr: tuple[int, ...] = (NODE,)
    ) -> None:
        """A topic that this node leads."""
        made = [_partition(topic_id, index, isr) for index in range(partitions)]
        self.tell(TopicRecord(name=name, topic_id=topic_id), *made)

    def add_partition(self, topic_id: bytes, index: int) -> None:
        """A topic grows."""
        self.tell(_partition(topic_id, index, (NODE,)))

    def delete(self, topic_id: bytes = TOPIC_ID) -> None:
        self.tell(RemoveTopicRecord(topic_id=topic_id))

    def lead(self, leader: int, index: int = 0) -> None:
        """Another leader epoch begins."""
        self.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, leader=leader))

    def fail_directory(self) -> None:
        self.directory.fail(OSError(errno.EIO, "Input/output error"))

    # Requests

    def ask(self, what: str, *details: Any, key: str = "k", **options: Any) -> Any:
        """The answer, an error code as an int behind "error", or a `Pending`."""
        return self.coordinator.submit(
            key, lambda ticket: (what, ticket, *details), lambda code: ("error", code), **options
        )

    def replica(self, index: int = 0) -> Replica:
        return self.replicas.find(TOPIC, index)

    @property
    def machine(self) -> Counter:
        return self.machines[-1]

    def restart(self, **options: Any) -> "World":
        """The same disk in another life of the node, as after a clean stop."""
        self.coordinator.stop()
        self.scheduler.run()
        self.directory.close()
        return World(self.disk, **options)


def _partition(topic_id: bytes, index: int, isr: tuple[int, ...]) -> PartitionRecord:
    return PartitionRecord(
        topic_id=topic_id,
        partition_id=index,
        replicas=[NODE, OTHER_NODE] if len(isr) > 1 else [NODE],
        isr=list(isr),
        removing_replicas=[],
        adding_replicas=[],
        leader=NODE,
        leader_epoch=0,
        partition_epoch=0,
    )


def resolved(answer: Any) -> Any:
    """The result of a `Pending`."""
    assert isinstance(answer, Pending)
    assert answer.resolved
    return answer.response
