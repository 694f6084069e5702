"""Who has read how far: groups by their commits, and readers without a group by what they fetch.

A reader without a group (Spark, a sink with offsets of its own, a consumer with ``assign``) is known by its client id,
from its fetch session or, without a session, from its connection's last fetch. A Java client that was not given an id
makes one of its group's: ``consumer-<group>-<number>`` is the reader ``<group>``, so Spark's queries appear as the
``spark-kafka-source-...`` that their logs show. A reader whose name is a group with commits, or that is a member of
one, is not listed twice.
"""

import re
from collections.abc import Callable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.fetch.session import Entry
from kpybroker.groups.coordinator import GroupCoordinator
from kpybroker.groups.group import Group
from kpystorage.errors import DiskFailure, StorageError
from kpystorage.log import Log

if TYPE_CHECKING:
    from kpybroker.broker import Broker

IDLE_MS: Final = 300_000
"""Who has not fetched for so long reads no more."""
_JAVA_CLIENT_ID = re.compile(r"consumer-(.+)-\d+")
UNNAMED: Final = "unnamed"
LONGEST_CHARS: Final = 249
"""Of a reader's name, as of a topic's."""
PER_SLICE: Final = 100


class Position(NamedTuple):
    """The next offset that a group or a reader wants of a partition."""

    name: str
    topic: str
    partition: int
    offset: int


class GroupFacts(NamedTuple):
    """A group as a whole. ``state`` is Kafka's name of it; None for kinds of groups that nobody here decides on."""

    name: str
    state: str | None
    members: int
    offsets: int


Groups = Callable[[], Iterator[Group]]


def groups_of(broker: "Broker") -> Iterator[Group]:
    """The groups this node coordinates, as far as they are loaded."""
    for shard in list(broker.groups.shards.values()):
        machine = shard.machine
        if shard.journal.is_open and isinstance(machine, GroupCoordinator):
            yield from list(machine.shard.groups.values())


def facts_of(group: Group) -> GroupFacts:
    """Its state, its members and how many positions it has committed."""
    classic = group.classic
    state = "Empty" if group.foreign is None else None
    members = 0
    if classic is not None:
        state, members = classic.state.value, len(classic.members)
    return GroupFacts(group.group_id, state, members, sum([len(each) for each in group.offsets.values()]))


def committed_by(group: Group) -> Iterator[Position | None]:
    """The positions a group has committed; None is a place to pause."""
    for topic, partitions in list(group.offsets.items()):
        for number, partition in enumerate(list(partitions)):
            committed = group.committed(topic, partition)
            if committed is not None:
                yield Position(group.group_id, topic, partition, committed.offset)
            if number % PER_SLICE == PER_SLICE - 1:
                yield None


def clients_of(group: Group) -> set[str]:
    """The names its members read under."""
    return set() if group.classic is None else {name_of(each.client_id) for each in group.classic.members.values()}


def name_of(client_id: str | None) -> str:
    """What a reader is called."""
    if not client_id:
        return UNNAMED
    found = _JAVA_CLIENT_ID.fullmatch(client_id)
    return (client_id if found is None else found[1])[:LONGEST_CHARS]


class Readers:
    """What everybody reads who fetches: ``furthest`` by (name, topic, partition), ``client_ids`` by name.

    Several connections of one reader may have read one partition; the furthest counts, since the others are older.
    A reader has what was sent to it: Spark does not ask for more before it wants more, so what it asked for last tells
    only where that began.
    """

    def __init__(self, broker: "Broker") -> None:
        self.broker = broker
        self.furthest: dict[tuple[str, str, int], int] = {}
        self.client_ids: dict[str, set[str]] = {}

    def gather(self) -> Iterator[None]:
        """Fill this; every step is a place to pause."""
        found = chain(self._in_sessions(), self._outside())
        for seen, (client_id, entry) in enumerate(found, 1):
            topic = self._name(entry.topic)
            if topic is not None:
                name = name_of(client_id)
                key = (name, topic, entry.index)
                self.furthest[key] = max(self._reached(topic, entry), self.furthest.get(key, -1))
                self.client_ids.setdefault(name, set()).add((client_id or "")[:LONGEST_CHARS])
            if seen % PER_SLICE == 0:
                yield None

    def _in_sessions(self) -> Iterator[tuple[str | None, Entry]]:
        since_ms = self.broker.scheduler.monotonic_ms() - IDLE_MS
        for session in list(self.broker.fetch_sessions.sessions.values()):
            if not session.is_follower and session.last_used_ms >= since_ms:
                for entry in list(session.entries.values()):
                    yield session.client_id, entry

    def _outside(self) -> Iterator[tuple[str | None, Entry]]:
        since_ms = self.broker.scheduler.monotonic_ms() - IDLE_MS
        for connection in list(self.broker.server.connections):
            if connection.reading is not None and connection.last_active_ms >= since_ms:
                for entry in list(connection.reading.entries):
                    yield connection.reading.client_id, entry

    def _reached(self, topic: str, entry: Entry) -> int:
        """The end of what was sent, where that was all there was; else where it was asked to begin."""
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
    """How much lies from the batch of one offset to that of a later one."""
    first, last = log.position_of(max(offset, log.log_start_offset)), log.position_of(end_offset)
    before = [s.size for s in log.segments if first.segment_base_offset <= s.base_offset < last.segment_base_offset]
    return sum(before) + last.position - first.position
