"""Groups: their list, and one group with its members and positions. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.group_story import StoryRow
from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.plots import TimePlots


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One group in the list. ``node`` coordinates it."""

    id: str
    type: str
    state: str
    standing: str
    """stuck, falls behind, has lag, or nothing in its way: ``fine``."""
    verdict: str
    """Why it is stuck or how it gets on, in one sentence."""
    lag: int | None
    """The records that it has not read; None where that is not known."""
    unknown: int
    """Partitions that it reads, for which nothing says where it is."""
    lag_s: float | None
    """The age of the oldest record that it has not read."""
    untimed: int
    """The partitions in which it has records left and whose times are not known: their leaders do not tell them."""
    trend: str
    """How fast it reads and how fast records are written for it, and when it has caught up; empty until it was watched
    for some seconds."""
    catches_up_s: float | None
    """The time until it has read everything at these rates; None where it never has, or that is not known."""
    topics: tuple[str, ...]
    """The first topics that it reads, as far as the viewer may see them."""
    topics_left_out: int
    members: int | None
    node: int
    is_here: bool
    """Whether this node coordinates it. If not, the console of the other node knows more."""
    console: str | None = None
    """The address of that console, if the viewer's browser can reach it."""


@dataclass(frozen=True, slots=True)
class ReaderRow:
    """A reader that is in no group, such as Spark."""

    name: str
    client_ids: tuple[str, ...]
    client_ids_left_out: int
    partitions: int
    lag: int | None
    lag_s: float | None
    verdict: str
    """Why it gets no more records, if it does not."""


@dataclass(frozen=True, slots=True)
class Groups:
    """A page of the groups that the viewer may see. Readers without a group take DESCRIBE on the cluster."""

    search: str
    sort: str
    """The column by which they are sorted; without one, those in trouble come first."""
    page: int
    pages: int
    total: int
    stuck: int
    """The number of all groups that are stuck, and of those that fall behind."""
    falling_behind: int
    groups: tuple[GroupRow, ...]
    readers: tuple[ReaderRow, ...]
    readers_left_out: int
    readers_hidden: bool
    unreachable: tuple[str, ...]
    """Why the groups of other nodes are missing."""
    silent_nodes: tuple[str, ...]
    """A line for each leader that does not tell how far groups are behind."""


@dataclass(frozen=True, slots=True)
class RecordPlace:
    """The place of a record that a sentence is about."""

    topic: str
    partition: int
    offset: int


@dataclass(frozen=True, slots=True)
class MemberRow:
    """A member. ``state`` says what the group waits for, if for anything."""

    id: str
    instance_id: str | None
    client_id: str
    host: str
    assigned: tuple[str, ...]
    state: str
    silent_s: float | None = None
    """The time since its last heartbeat; None where that is not known."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """A partition that a share group reads, as its leader on this node knows it."""

    topic: str
    partition: int
    start_offset: int
    """The first record that the group is not done with."""
    end_offset: int
    """The end of the log, as members may read it."""
    unread: int
    """The records from the start offset on that the group is not done with."""
    locked: int
    """The records that members have now."""
    most_locked: int
    holder: str | None
    """The member with the oldest lock."""
    held_offset: int | None
    held_s: float | None
    lock_left_s: float | None
    retried_offset: int | None
    """The record that was delivered most often of those that were delivered more than once."""
    deliveries: int
    most_deliveries: int


@dataclass(frozen=True, slots=True)
class DeadLettersRow:
    """The dead-letter topic of a share group, and what this node wrote there for the group since it started."""

    topic: str
    exists: bool
    written: int
    """The records that were written; one that was written twice counts twice."""
    under_way: int
    """The records that wait to be written, in the partitions that this node leads."""
    given_up: int
    """The records that were archived without a dead letter."""


@dataclass(slots=True)  # not frozen, which triples the time to make one: a list of groups takes thousands
class PositionRow:
    """A partition for which the group has committed a position, or that one of its members has."""

    topic: str
    partition: int
    committed: int | None
    commit_ms: int | None
    metadata: str
    end_offset: int | None
    stable_offset: int | None
    lag: int | None
    """The records behind its commit; None without one, since a member may not have processed what it was sent."""
    lag_s: float | None
    member: str | None
    fetched: int | None
    """The position of the member's fetches; None where it does not fetch."""
    fetched_s: float | None
    """The time since its last fetch."""
    start_offset: int | None


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A node in the topology of a streams group."""

    subtopology: str
    name: str
    kind: str
    topics: tuple[str, ...]
    """The topics that a source reads, or a sink writes to, as far as the viewer may see them."""
    stores: tuple[str, ...]
    successors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroupPage:
    """One group."""

    id: str
    type: str
    state: str
    protocol: str
    generation: int | None
    node: int
    """The node that coordinates it."""
    is_here: bool
    """Whether that is this node. Otherwise only what any client may ask is known, and nothing can be changed."""
    console: str | None
    """The address of the console of that other node, if the viewer's browser can reach it."""
    verdict: str
    """Why it is stuck, or that it is not, in a sentence."""
    verdict_at: RecordPlace | None
    """The record that the sentence is about, if it names one."""
    is_stuck: bool
    members: tuple[MemberRow, ...]
    positions: tuple[PositionRow, ...]
    positions_left_out: int
    committed_topics: tuple[str, ...]
    """The topics in which it has committed positions."""
    shares: tuple[ShareRow, ...]
    topology: tuple[NodeRow, ...]
    """The nodes of the topology of a streams group, where a member has described it."""
    topology_absence: str
    """Why there are none."""
    topology_left_out: int
    dead_letters: DeadLettersRow | None
    """None if the group has no dead-letter topic, or the viewer may not see it."""
    lag: int | None
    """The sum of what is known; None where nothing is."""
    unknown: int
    """Partitions for which nothing says how far it is behind: it has committed nothing, or the end is not known."""
    lag_s: float | None
    """The age of the oldest record that it has not read."""
    untimed: int
    """The partitions in which it has records left and whose times are not known: their leaders do not tell them."""
    silent_nodes: tuple[str, ...]
    """A line for each leader that does not tell how far the group is behind."""
    read_per_s: float | None
    """How fast it reads, and how fast records are written for it; None until it was watched for some seconds."""
    written_per_s: float | None
    falls_behind: bool
    trend: str
    """The rates in words, and when it has caught up."""
    may_reset: bool
    """Whether the viewer may set its positions, remove members and delete positions, and whether it may delete it."""
    may_delete: bool
    story: tuple[StoryRow, ...]
    history: TimePlots
    unplotted: int
    """The positions in partitions that other nodes lead, which the plots are without."""


ALONE_KEYS: Final[Keys[ReaderRow]] = {
    "reader": lambda row: row.name,
    "clients": lambda row: row.client_ids,
    "partitions": lambda row: row.partitions,
    "behind": lambda row: row.lag,
    "age": lambda row: row.lag_s,
    "why": lambda row: row.verdict or None,
}
MEMBER_KEYS: Final[Keys[MemberRow]] = {
    "client": lambda row: row.client_id,
    "host": lambda row: row.host,
    "member": lambda row: row.id,
    "assigned": lambda row: row.assigned,
    "state": lambda row: row.state,
    "heartbeat": lambda row: row.silent_s,
}
POSITION_KEYS: Final[Keys[PositionRow]] = {
    "partition": lambda row: (row.topic, row.partition),
    "committed": lambda row: row.committed,
    "at": lambda row: row.commit_ms,
    "fetched": lambda row: row.fetched,
    "stable": lambda row: row.stable_offset,
    "end": lambda row: row.end_offset,
    "lag": lambda row: row.lag,
    "time": lambda row: row.lag_s,
    "owner": lambda row: row.member,
}
SHARE_KEYS: Final[Keys[ShareRow]] = {
    "partition": lambda row: (row.topic, row.partition),
    "done": lambda row: row.start_offset,
    "end": lambda row: row.end_offset,
    "unread": lambda row: row.unread,
    "locked": lambda row: row.locked,
    "held": lambda row: row.held_s,
    "deliveries": lambda row: row.deliveries or None,
}
"""The columns by which a viewer sorts these lists."""
