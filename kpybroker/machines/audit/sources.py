"""The tuples that the shells of an audit exchange with the rest: replicas, pieces of work, and what came out. Pure."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from kpybroker.machines.audit.findings import AuditFinding, BytePlace
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.walk import END_OF_ALL
from kpybroker.machines.audit.windows import WINDOW_OFFSETS
from kpybroker.machines.remote_log.lineage import CopiedRange
from kpystorage.reading import StoredBatch

Spot = tuple[str, int]
"""A topic and a partition of it."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
METADATA_TOPIC: Final = "__cluster_metadata"


class AuditedReplica(NamedTuple):
    """A replica of a partition. ``directory`` is empty where it is read from a broker, ``node_id`` -1 where unknown."""

    label: str
    topic: str
    partition: int
    directory: str = ""
    node_id: int = -1
    topic_id: str = ""
    start: int = 0
    """The offset where the first batch is expected."""
    end: int = END_OF_ALL
    """The offset up to which it is audited: the high watermark while a broker runs, or all that is there."""
    log_end: int = 0
    """The end of the log as far as it was known when the replica was listed."""
    high_watermark: int = -1
    size_bytes: int = 0
    is_running: bool = False
    is_copy: bool = False
    """Whether it is what a store has of the partition, which ends before the log does."""

    @property
    def spot(self) -> Spot:
        return self.topic, self.partition

    @property
    def key(self) -> str:
        """The replica's name in a summary."""
        return f"{self.label}/{self.topic}-{self.partition}"

    @property
    def last_window(self) -> int:
        """The offset where its last window begins."""
        return min(self.end, self.log_end) // WINDOW_OFFSETS * WINDOW_OFFSETS


class ReplicaFacts(NamedTuple):
    """The facts about a replica that other files or the cluster know. They are read after the log itself."""

    log_start: int = 0
    cleaned_to: int = 0
    """The offset below which compaction may have left gaps."""
    was_mended: bool = False
    """Whether a repair has taken batches out."""
    unique_to: int = 0
    """The offset below which the cleaner's checkpoint says that each key is there once."""


class AuditTask(NamedTuple):
    """A piece of work: the batches of one replica with base offsets in ``start .. end``."""

    replica: AuditedReplica
    start: int
    end: int
    cuts: tuple[int, ...] = ()
    """Offsets where one stretch ends and another begins."""
    next_offset: int = -1
    """The offset that the first batch should have; -1 where that is not known."""
    deep: bool = False
    size_bytes: int = 0
    copies: tuple[CopiedRange, ...] = ()
    """The copies in a store that have the batches; none where they are on a disk, or a broker has them."""


class AuditOutcome(NamedTuple):
    """The result of a task."""

    task: AuditTask
    stretches: tuple[Stretch, ...]
    findings: tuple[AuditFinding, ...]
    is_read: bool = True
    """Whether all of it was read, damaged or not."""


class AuditSource(Protocol):
    """A side that can be audited: directories, or a running cluster. It is sent to other processes with its tasks."""

    processes: int
    """The most processes that can read it; 0 if there is no limit."""

    def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
        """The replicas of these topics, or all, with their ends as they are now. May raise OSError, KafkaError."""

    def tasks(self, replica: AuditedReplica, start: int, *, deep: bool) -> list[AuditTask]:
        """The work on a replica from an offset on."""

    def read(self, task: AuditTask) -> AuditOutcome:
        """Do a task. A replica that cannot be read is a finding."""

    def facts(self, replica: AuditedReplica) -> ReplicaFacts:
        """The facts about a replica."""

    def batches(self, replica: AuditedReplica, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        """The valid batches from the one that holds ``start`` on, up to ``end``, each with its place. Damaged ones are
        left out."""

    def identities(self, replica: AuditedReplica, /) -> Mapping[int, tuple[int, ...]]:
        """Numbers that change when a segment changes, by its base offset; empty where there are none."""

    def check_around(self, replica: AuditedReplica, whole: Stretch, start: int, /) -> Iterable[AuditFinding]:
        """The contradictions between a log and the files beside it that span segments, as far as they are about what
        was read: from ``start`` on."""
