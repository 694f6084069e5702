"""The positions of all readers: groups by their commits, and readers without a group by what they fetch.

A reader without a group (Spark, a sink with offsets of its own, a consumer with ``assign``) is known by its client id,
from its fetch session or, without a session, from its connection's last fetch. A Java client without a configured id
makes one from its group's: ``consumer-<group>-<number>`` is the reader ``<group>``, so Spark's queries appear as the
``spark-kafka-source-...`` that their logs show. A reader whose name is a group with commits, or that is a member of a
group, is not listed: what a member was sent does not say what its group has processed.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.fetch.session import CachedPartition
from kpybroker.machines.groups.coordinator import GroupCoordinator
from kpybroker.machines.groups.counts import Counts
from kpybroker.machines.groups.facts import MembershipFacts
from kpybroker.machines.groups.group import Group
from kpybroker.machines.groups.offsets.committed import find_committed
from kpystorage.errors import DiskFailure, StorageError
from kpystorage.log import Log

if TYPE_CHECKING:
    from kpybroker.requests.broker import Broker
    from kpybroker.requests.server.listener import Server

IDLE_MS: Final = 300_000
"""A reader that has not fetched for this long is no longer listed."""
_JAVA_CLIENT_ID = re.compile(r"consumer-(.+)-\d+")
UNNAMED: Final = "unnamed"
CONSOLE: Final = "kpybroker-console"
"""The client id of the consoles of nodes. They fetch what they show, and are no readers."""
LONGEST_CHARS: Final = 249
"""The longest name of a reader, as of a topic."""
PER_SLICE: Final = 100


class ReaderPosition(NamedTuple):
    """The next offset that a group or a reader wants in a partition."""

    name: str
    topic: str
    partition: int
    offset: int


class GroupFacts(NamedTuple):
    """The facts about a group, and how many positions it has committed."""

    name: str
    offsets: int
    of_members: MembershipFacts


Groups = Callable[[], Iterator[Group]]


def groups_of(broker: "Broker") -> Iterator[Group]:
    """The loaded groups that this node coordinates."""
    for shard in list(broker.groups.shards.values()):
        machine = shard.machine
        if shard.journal.is_open and isinstance(machine, GroupCoordinator):
            yield from list(machine.shard.groups.values())


def counts_of(broker: "Broker") -> Counts:
    """The counters of all shards of a node, since it has started."""
    for shard in broker.groups.shards.values():
        if isinstance(shard.machine, GroupCoordinator):
            return shard.machine.shard.counts
    return Counts()


def facts_of(group: Group) -> GroupFacts:
    """The facts about a group."""
    offsets = sum([len(each) for each in group.offsets.values()])
    return GroupFacts(group.group_id, offsets, group.membership.facts())


def committed_by(group: Group) -> Iterator[ReaderPosition | None]:
    """The positions that a group has committed; None is a place to pause."""
    for topic, partitions in list(group.offsets.items()):
        for number, partition in enumerate(list(partitions)):
            committed = find_committed(group.offsets, topic, partition)
            if committed is not None:
                yield ReaderPosition(group.group_id, topic, partition, committed.offset)
            if number % PER_SLICE == PER_SLICE - 1:
                yield None


def names_of(group: Group) -> set[str]:
    """The names of readers that are this group, or its members."""
    members = set(map(name_of, group.membership.client_ids()))
    return {group.group_id, *members} if members or group.offsets else set()


def name_of(client_id: str | None) -> str:
    """The name of the reader with a client id."""
    if not client_id:
        return UNNAMED
    found = _JAVA_CLIENT_ID.fullmatch(client_id)
    return (client_id if found is None else found[1])[:LONGEST_CHARS]


class Readers:
    """The positions of everything that fetches: ``furthest`` by (name, topic, partition), ``client_ids`` by name.

    Several connections of one reader may have read one partition; the furthest counts, since the others are older. A
    reader's position is the end of what was sent to it: Spark does not fetch again before it wants more records, so its
    last fetch offset is only the beginning of what it has.
    """

    def __init__(self, broker: "Broker", server: "Server") -> None:
        self.broker = broker
        self.server = server
        self.furthest: dict[tuple[str, str, int], int] = {}
        self.client_ids: dict[str, set[str]] = {}
        self.last_ms: dict[tuple[str, str, int], float] = {}
        """The time of the last fetch of each partition, on the monotonic clock."""

    def gather(self) -> Iterator[None]:
        """Gather the positions. Every step is a place to pause."""
        found = chain(self._in_sessions(), self._outside())
        for seen, (client_id, entry, last_ms) in enumerate(found, 1):
            topic = self._name(entry.topic)
            if topic is not None:
                name = name_of(client_id)
                key = (name, topic, entry.index)
                self.last_ms[key] = max(last_ms, self.last_ms.get(key, 0.0))
                self.furthest[key] = max(self._reached(topic, entry), self.furthest.get(key, -1))
                self.client_ids.setdefault(name, set()).add((client_id or "")[:LONGEST_CHARS])
            if seen % PER_SLICE == 0:
                yield None

    def _in_sessions(self) -> Iterator[tuple[str | None, CachedPartition, float]]:
        since_ms = self.broker.scheduler.monotonic_ms() - IDLE_MS
        for session in list(self.broker.fetch_sessions.sessions.values()):
            if not session.is_follower and session.last_used_ms >= since_ms:
                for entry in list(session.entries.values()):
                    yield session.client_id, entry, session.last_used_ms

    def _outside(self) -> Iterator[tuple[str | None, CachedPartition, float]]:
        since_ms = self.broker.scheduler.monotonic_ms() - IDLE_MS
        for connection in list(self.server.connections):
            reading = connection.client.reading
            if reading is None or reading.client_id == CONSOLE:
                continue
            if connection.last_active_ms >= since_ms:
                for entry in list(reading.entries):
                    yield reading.client_id, entry, connection.last_active_ms

    def _reached(self, topic: str, entry: CachedPartition) -> int:
        """The end of what was sent, if all there was has been sent; otherwise the offset that was asked for."""
        end = entry.sent_high_watermark
        held = self.broker.replicas.topics.get(topic)
        replica = None if held is None else held.replicas.get(entry.index)
        if end <= entry.fetch_offset or replica is None or replica.leader is None:
            return entry.fetch_offset
        try:
            all_bytes = _bytes_between(replica.leader.log, entry.fetch_offset, end)
        except StorageError as error:
            if isinstance(error, DiskFailure):
                self.broker.replicas.directory_failed(error)
            return entry.fetch_offset
        return end if all_bytes <= entry.max_bytes else entry.fetch_offset

    def _name(self, topic: str | bytes) -> str | None:
        if isinstance(topic, str):
            return topic
        held = self.broker.replicas.by_id.get(topic)
        return None if held is None else held.name


def _bytes_between(log: Log, offset: int, end_offset: int) -> int:
    """The bytes from the batch of one offset to that of a later one."""
    first, last = log.position_of(max(offset, log.local_log_start_offset)), log.position_of(end_offset)
    before = [s.size for s in log.segments if first.segment_base_offset <= s.base_offset < last.segment_base_offset]
    return sum(before) + last.position - first.position
