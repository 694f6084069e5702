"""A topic and its partitions as the metadata log describes them (Kafka's ``TopicImage`` and ``PartitionRegistration``).

A :class:`Partition` is never changed: a change record makes another one. So a delta can refer to the state before, and
nothing is copied in advance. Because a node may know a million partitions, equal fields share one tuple, and all
partitions share the objects for ids of brokers and directories.
"""

from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

from kpybroker.machines.metadata import metadata_version
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from kpywire.metadata_records.partition_record import PartitionRecord
from kpywire.metadata_records.topic_record import TopicRecord
from kpywire.uuid import ZERO_UUID

NO_LEADER: Final = -1
NO_LEADER_CHANGE: Final = -2

RECOVERED: Final = 0
RECOVERING: Final = 1
RECOVERY_UNCHANGED: Final = -1

MIGRATING_DIRECTORY: Final = bytes(16)
UNASSIGNED_DIRECTORY: Final = (1).to_bytes(16, "big")
LOST_DIRECTORY: Final = (2).to_bytes(16, "big")
RESERVED_DIRECTORIES: Final = 100

_Value = TypeVar("_Value")

_SHARED: Final[dict[object, object]] = {}
"""Ids of brokers and directories that records contained: each record brings equal objects of its own."""
MOST_SHARED: Final = 1 << 16
"""More ids than this are not remembered: then all are forgotten, and shared again as they come."""


def directory_is_reserved(directory: bytes) -> bool:
    """Whether a directory id is one of the 100 that never name a real directory (``DirectoryId.reserved``)."""
    return int.from_bytes(directory, "big") < RESERVED_DIRECTORIES


def directory_is_online(directory: bytes, online: Sequence[bytes]) -> bool:
    """Whether a replica in a directory can be used, given a broker's online directories (``DirectoryId.isOnline``)."""
    if directory in (UNASSIGNED_DIRECTORY, MIGRATING_DIRECTORY):
        return True
    if directory == LOST_DIRECTORY:
        return False
    return not online or directory in online


_FIELDS: Final = (
    "adding_replicas",
    "directories",
    "elr",
    "isr",
    "last_known_elr",
    "leader",
    "leader_epoch",
    "leader_recovery_state",
    "partition_epoch",
    "removing_replicas",
    "replicas",
)


class Partition:
    """One partition: its replicas, its leader and its epochs. Immutable."""

    __slots__ = _FIELDS

    def __init__(  # noqa: PLR0913
        self,
        replicas: Sequence[int],
        isr: Sequence[int],
        leader: int,
        *,
        leader_epoch: int = 0,
        partition_epoch: int = 0,
        directories: Sequence[bytes] = (),
        leader_recovery_state: int = RECOVERED,
        removing_replicas: Sequence[int] = (),
        adding_replicas: Sequence[int] = (),
        elr: Sequence[int] = (),
        last_known_elr: Sequence[int] = (),
    ) -> None:
        self.replicas = _shared(replicas)
        self.isr = self.replicas if tuple(isr) == self.replicas else _shared(isr)
        self.leader = leader
        self.leader_epoch = leader_epoch
        self.partition_epoch = partition_epoch
        self.directories = _directories(directories, len(self.replicas))
        self.leader_recovery_state = leader_recovery_state
        self.removing_replicas = _shared(removing_replicas)
        self.adding_replicas = _shared(adding_replicas)
        self.elr = _shared(elr)
        self.last_known_elr = _shared(last_known_elr)

    @classmethod
    def from_record(cls, record: PartitionRecord) -> "Partition":
        """The partition that a PartitionRecord describes. Raises ValueError if directories and replicas do not
        match."""
        return cls(
            record.replicas,
            record.isr,
            record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            directories=record.directories,
            leader_recovery_state=record.leader_recovery_state,
            removing_replicas=record.removing_replicas,
            adding_replicas=record.adding_replicas,
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def merge(self, record: PartitionChangeRecord) -> "Partition":
        """Return this partition with a PartitionChangeRecord applied. Its epoch rises, and so does the leader epoch if
        the record names a leader."""
        changes_leader = record.leader != NO_LEADER_CHANGE
        recovery = record.leader_recovery_state
        return Partition(
            _or(record.replicas, self.replicas),
            _or(record.isr, self.isr),
            record.leader if changes_leader else self.leader,
            leader_epoch=self.leader_epoch + changes_leader,
            partition_epoch=self.partition_epoch + 1,
            directories=_or(record.directories, self.directories),
            leader_recovery_state=self.leader_recovery_state if recovery == RECOVERY_UNCHANGED else recovery,
            removing_replicas=_or(record.removing_replicas, self.removing_replicas),
            adding_replicas=_or(record.adding_replicas, self.adding_replicas),
            elr=_or(record.eligible_leader_replicas, self.elr),
            last_known_elr=_or(record.last_known_elr, self.last_known_elr),
        )

    def without_elr(self) -> "Partition":
        """This partition without its eligible leader replicas; only the partition epoch rises."""
        return self.merge(PartitionChangeRecord(topic_id=ZERO_UUID, eligible_leader_replicas=[], last_known_elr=[]))

    def to_record(self, topic_id: bytes, partition_id: int, level: int, *, elr_enabled: bool) -> PartitionRecord:
        """The PartitionRecord that describes this partition at a level of ``metadata.version``."""
        with_directories = level >= metadata_version.DIRECTORY_ASSIGNMENT
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=list(self.replicas),
            isr=list(self.isr),
            removing_replicas=list(self.removing_replicas),
            adding_replicas=list(self.adding_replicas),
            leader=self.leader,
            leader_recovery_state=self.leader_recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=list(self.directories) if with_directories else [],
            eligible_leader_replicas=list(self.elr) if elr_enabled and self.elr else None,
            last_known_elr=list(self.last_known_elr) if elr_enabled and self.last_known_elr else None,
        )

    @property
    def preferred_leader(self) -> int:
        """The first replica, which leads if it can; -1 without replicas."""
        return self.replicas[0] if self.replicas else NO_LEADER

    @property
    def is_reassigning(self) -> bool:
        """Whether a reassignment is under way (KIP-455)."""
        return bool(self.adding_replicas or self.removing_replicas)

    def directory_of(self, broker_id: int) -> bytes:
        """The log directory that holds the replica of a broker. Raises ValueError if the broker has none."""
        return self.directories[self.replicas.index(broker_id)]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partition):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in _FIELDS)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Partition(" + ", ".join(f"{name}={getattr(self, name)!r}" for name in _FIELDS) + ")"


class Topic:
    """A topic: a name, an id of 16 bytes that is not used again after a deletion, and partitions by their number.

    Copies have the same dictionary of partitions until one of them changes: that one calls `own` before."""

    __slots__ = ("_is_shared", "id", "name", "partitions")

    def __init__(self, name: str, topic_id: bytes, shared: dict[int, Partition] | None = None) -> None:
        """``shared`` are the partitions of the topic of which this is a copy."""
        self.name = name
        self.id = topic_id
        self.partitions: dict[int, Partition] = {} if shared is None else shared
        self._is_shared = shared is not None

    def copy(self) -> "Topic":
        """Return an independent copy of the topic with the same partitions."""
        self._is_shared = True
        return Topic(self.name, self.id, self.partitions)

    def own(self) -> dict[int, Partition]:
        """The partitions, to be changed: no copy has this dictionary too."""
        if self._is_shared:
            self.partitions = dict(self.partitions)
            self._is_shared = False
        return self.partitions

    def become(self, newer: "Topic") -> None:
        """Take over the partitions of a newer state of the topic."""
        self.partitions, self._is_shared = newer.partitions, True
        newer._is_shared = True

    def to_record(self) -> TopicRecord:
        """The TopicRecord that creates this topic."""
        return TopicRecord(name=self.name, topic_id=self.id)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Topic):
            return NotImplemented
        return (self.name, self.id, self.partitions) == (other.name, other.id, other.partitions)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Topic({self.name!r}, {self.id.hex()}, {len(self.partitions)} partitions)"


def _shared(values: Iterable[_Value]) -> tuple[_Value, ...]:
    """These ids as a tuple of objects that other partitions have too."""
    if isinstance(values, tuple):
        return values
    if len(_SHARED) > MOST_SHARED:
        _SHARED.clear()
    return tuple([_SHARED.setdefault(value, value) for value in values])  # type: ignore[misc]


def _directories(directories: Iterable[bytes], replicas: int) -> tuple[bytes, ...]:
    """One directory per replica; records from before KIP-858 have none and mean "migrating"."""
    known = _shared(directories)
    if not known or (known[0] == MIGRATING_DIRECTORY and set(known) == {MIGRATING_DIRECTORY}):
        return (MIGRATING_DIRECTORY,) * replicas
    if len(known) != replicas:
        raise ValueError("The lengths for replicas and directories do not match.")
    return known


def _or(changed: Sequence[_Value] | None, current: Sequence[_Value]) -> Sequence[_Value]:
    return current if changed is None else changed
