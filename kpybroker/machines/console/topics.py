"""The list of topics, and one topic with its partitions, configs and readers. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from kpybroker.machines.console.cluster import is_under_replicated
from kpybroker.machines.console.config_words import retention_words
from kpybroker.machines.console.configs import ConfigRow
from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.retention import RetentionDeletion
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_name import INTERNAL
from kpywire.uuid import to_string


class TopicRate(NamedTuple):
    """The traffic of a topic per second, in the last seconds, in the partitions that this node leads."""

    records_in: float | None
    bytes_in: float | None
    bytes_out: float | None
    """To consumers."""


NO_RATE = TopicRate(None, None, None)


class TopicSize(NamedTuple):
    """The contents of some partitions of a topic: of one replica of each."""

    partitions: int = 0
    """The partitions whose contents are known."""
    records: int = 0
    """The offsets between log start and high watermark: more than the records of a compacted topic."""
    bytes: int = 0


class ReaderLag(NamedTuple):
    """The reader that is furthest behind in a topic, and by how many records."""

    lag: int
    name: str
    is_group: bool


class TopicShape(NamedTuple):
    """The partitions of a topic by the metadata of the cluster."""

    replication: int = 0
    """The replicas of the partition that has most."""
    without_leader: int = 0
    under_replicated: int = 0

    def with_partition(self, each: Partition) -> "TopicShape":
        """The shape with one more partition."""
        return TopicShape(
            max(self.replication, len(each.replicas)),
            self.without_leader + (each.leader < 0),
            self.under_replicated + is_under_replicated(each),
        )


@dataclass(frozen=True, slots=True)
class TopicRow:
    """One topic in the list. Sizes and records are of the partitions whose log is open on this node, rates of those
    that it leads."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: int
    replication: int
    without_leader: int
    under_replicated: int
    local_partitions: int
    """The partitions whose log is open here."""
    local_bytes: int
    local_records: int
    """The offsets between log start and high watermark: more than the records of a compacted topic."""
    records_in_per_s: float | None
    """Rates are those of the last seconds; None where nothing is known yet."""
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    lag: int | None
    """The records that the reader furthest behind has not read; None without a reader that this node knows."""
    reader: str | None
    reader_is_group: bool


@dataclass(frozen=True, slots=True)
class TopicsPage:
    """A page of the topics that the viewer may see."""

    search: str
    with_internal: bool
    page: int
    pages: int
    total: int
    topics: tuple[TopicRow, ...]
    node_id: int
    other_nodes: int
    """The number of other brokers that are alive: they know about the partitions and groups that are not here."""
    may_create: bool


@dataclass(frozen=True, slots=True)
class PartitionRow:
    """One partition. Offsets and size are None where neither this node nor the leader says them."""

    partition: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    start_offset: int | None
    end_offset: int | None
    bytes: int | None
    is_here: bool
    next_deletion: RetentionDeletion | None
    trouble: str | None


@dataclass(frozen=True, slots=True)
class TopicReader:
    """A group or a reader without one, and what it has not read yet of the partitions led here."""

    name: str
    is_group: bool
    partitions: int
    lag: int | None
    """None where a group has committed nothing."""
    unknown: int
    """The partitions that members of the group read, and for which it has committed nothing."""
    lag_s: float | None


PARTITION_KEYS: Final[Keys[PartitionRow]] = {
    "partition": lambda row: row.partition,
    "leader": lambda row: row.leader,
    "replicas": lambda row: row.replicas,
    "isr": lambda row: (len(row.in_sync), row.in_sync),
    "start": lambda row: row.start_offset,
    "end": lambda row: row.end_offset,
    "size": lambda row: row.bytes,
}
READER_KEYS: Final[Keys[TopicReader]] = {
    "reader": lambda row: row.name,
    "partitions": lambda row: row.partitions,
    "lag": lambda row: row.lag,
    "time": lambda row: row.lag_s,
}
"""The columns by which a viewer sorts the partitions and the readers of a topic."""


@dataclass(frozen=True, slots=True)
class TopicPage:
    """One topic."""

    name: str
    topic_id: str
    is_internal: bool
    partitions: tuple[PartitionRow, ...]
    page: int
    pages: int
    total_partitions: int
    replication: int
    known_partitions: int
    """The partitions whose contents are known: the sums of records and bytes are theirs."""
    records: int
    bytes: int
    """The bytes of one replica of each partition."""
    records_in_per_s: float | None
    """Rates are those of the last seconds, in the partitions that this node leads."""
    bytes_in_per_s: float | None
    bytes_out_per_s: float | None
    cleanup_policy: str | None
    retention: str | None
    """How long records are kept, in words; None where the configs are hidden."""
    next_deletion: str | None
    """The next deletion by retention, if it is the same in most partitions that are shown."""
    silent_nodes: tuple[str, ...]
    """The leaders of partitions that did not say what is in them, and why."""
    configs: tuple[ConfigRow, ...]
    configs_hidden: str | None
    """Why the configs are not shown; None if they are."""
    readers: tuple[TopicReader, ...]
    readers_left_out: int
    may_configure: bool
    may_read: bool
    may_write: bool
    may_add_partitions: bool
    may_delete_records: bool
    may_delete: bool


def is_wanted(name: str, search: str, *, with_internal: bool) -> bool:
    """Whether a topic belongs in the list."""
    return (with_internal or not is_internal(name)) and search.lower() in name.lower()


def is_internal(name: str) -> bool:
    """Whether a topic is Kafka's own."""
    return name in INTERNAL


def topic_row(topic: Topic, shape: TopicShape, size: TopicSize, rate: TopicRate, worst: ReaderLag | None) -> TopicRow:
    """The row of a topic."""
    return TopicRow(
        topic.name,
        to_string(topic.id),
        is_internal(topic.name),
        len(topic.partitions),
        *shape,
        size.partitions,
        size.bytes,
        size.records,
        *rate,
        None if worst is None else worst.lag,
        None if worst is None else worst.name,
        worst is not None and worst.is_group,
    )


def usual_deletion(rows: Sequence[PartitionRow]) -> str | None:
    """The sentence on retention that most of these partitions have; None for fewer than two."""
    lines = Counter(row.next_deletion.line for row in rows if row.next_deletion is not None)
    line, count = next(iter(lines.most_common(1)), ("", 0))
    return line if count > 1 else None


def policy_and_retention(configs: Sequence[ConfigRow]) -> tuple[str | None, str | None]:
    """The cleanup policy of a topic, and how long it keeps records in words; None where the configs are hidden."""
    values = {each.name: each.value for each in configs}
    policy = values.get("cleanup.policy")
    if policy is None:
        return None, None
    return policy, retention_words(policy, values.get("retention.ms"), values.get("retention.bytes"))
