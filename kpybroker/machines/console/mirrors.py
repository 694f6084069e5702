"""The mirrors of other clusters' topics: how far each topic and partition is, and why one is behind. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys

AWAY: Final = "the source does not answer"
FAILED: Final = "it has failed, and waits for an operator: the log of its leader says why"


@dataclass(frozen=True, slots=True)
class MirrorRow:
    """A mirror that ``kpybroker.mirrors`` names, or one that is stopped and still has topics."""

    name: str
    patterns: tuple[str, ...]
    """The patterns of its topics; none of a mirror that is stopped."""
    is_stopped: bool
    problem: str
    """The reason why this node cannot read the source; empty if it can."""
    topics: int
    partitions: int
    lag: int
    """The sum of the lags that are known."""
    unknown: int
    """The partitions whose lag is not known."""


@dataclass(frozen=True, slots=True)
class MirroredTopicRow:
    """A topic that is a mirror."""

    mirror: str
    topic: str
    state: str
    """The state as ``kpybroker.mirror.state`` has it."""
    partitions: int
    lag: int
    unknown: int
    behind: int
    """The partitions that lag or are not fed."""
    reason: str
    """The reason of the one that is furthest behind; empty if none is behind."""


@dataclass(frozen=True, slots=True)
class MirroredPartitionRow:
    """A partition that lags or is not fed."""

    mirror: str
    topic: str
    partition: int
    end: int | None
    """The end here; None if its leader does not tell it."""
    source_end: int | None
    lag: int | None
    """The records that are missing here; None if one of the ends is not known."""
    reason: str
    """Why it is behind; empty if it is not."""


@dataclass(frozen=True, slots=True)
class CarriedGroupRow:
    """A group whose offsets were carried over from the source."""

    mirror: str
    group: str
    positions: int


@dataclass(frozen=True, slots=True)
class MirrorsPage:
    """The mirrors of a cluster, as a broker knows them."""

    mirrors: tuple[MirrorRow, ...]
    page: int
    pages: int
    total: int
    """The topics that are mirrors, and that the viewer may see."""
    topics: tuple[MirroredTopicRow, ...]
    partitions: tuple[MirroredPartitionRow, ...]
    """The partitions that are furthest behind, the worst first."""
    partitions_left_out: int
    carrier: int | None
    """The node that carries groups over; None without a mirror."""
    is_carrier: bool
    """This node is the carrier. Others do not know the groups."""
    carrier_console: str | None
    """The address of that node's console, of another node; None if it is unknown."""
    groups: tuple[CarriedGroupRow, ...]
    groups_left_out: int
    silent_nodes: tuple[str, ...]
    """Why ends of partitions that other nodes lead are missing."""


TOPIC_KEYS: Final[Keys[MirroredTopicRow]] = {
    "topic": lambda row: row.topic,
    "mirror": lambda row: row.mirror,
    "state": lambda row: row.state,
    "partitions": lambda row: row.partitions,
    "lag": lambda row: (row.behind > 0, row.unknown, row.lag),
    "why": lambda row: row.reason or None,
}
"""The columns by which a viewer sorts topics."""
WORST_FIRST: Final = "-lag"


def distance(row: MirroredPartitionRow) -> tuple[bool, bool, int]:
    """The order of partitions by how far behind they are: those of which it is not known are worse than others."""
    return bool(row.reason), row.lag is None, row.lag or 0


PARTITION_KEYS: Final[Keys[MirroredPartitionRow]] = {"lag": distance}
"""The order of partitions that are behind."""


class TopicTally:
    """Counts the partitions of one topic."""

    def __init__(self, mirror: str, topic: str, state: str) -> None:
        self._names = mirror, topic, state
        self._partitions = self._lag = self._unknown = self._behind = 0
        self._worst: MirroredPartitionRow | None = None

    def add(self, row: MirroredPartitionRow) -> None:
        """Count a partition."""
        self._partitions += 1
        self._lag += row.lag or 0
        self._unknown += row.lag is None
        self._behind += bool(row.reason)
        if self._worst is None or distance(row) > distance(self._worst):
            self._worst = row

    def row(self) -> MirroredTopicRow:
        """The topic."""
        reason = "" if self._worst is None else self._worst.reason
        return MirroredTopicRow(*self._names, self._partitions, self._lag, self._unknown, self._behind, reason)


def mirror_row(
    name: str, patterns: tuple[str, ...] | None, problem: str, topics: Iterable[MirroredTopicRow]
) -> MirrorRow:
    """A mirror with the sums of its topics. ``patterns`` is None for one that is stopped."""
    own = [each for each in topics if each.mirror == name]
    return MirrorRow(
        name,
        patterns or (),
        patterns is None,
        problem,
        len(own),
        sum(each.partitions for each in own),
        sum(each.lag for each in own),
        sum(each.unknown for each in own),
    )
