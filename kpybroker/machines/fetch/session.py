"""The partitions that one client reads, and which of them changed since they were last answered.

A partition notifies the sessions that read it when its records, high watermark, last stable offset, log start or
leadership change. Consumers are notified once, until they have looked again. So an answer looks only at partitions that
changed, however many the client reads, and an append costs nothing for sessions that have not come back since the last
one. A fetch without a session (session id 0) is a session of one request.

Invariant: an entry that is not in ``changed`` has nothing to answer: no data, no error, no offset the client has not
seen.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

from kpybroker.machines.partition.in_sync import FetchClock, FollowerState

NO_SESSION: Final = 0
FIRST_EPOCH: Final = 1
LAST_EPOCH: Final = 2**31 - 1


class WatchedReplica(Protocol):
    """A partition's replica as sessions see it."""

    topic: Any
    watchers: "dict[CachedPartition, None]"
    """Entries of consumers that have to be notified of the next change."""
    notified: "dict[CachedPartition, None]"
    """Entries of consumers that were notified and have not looked since."""
    following: "dict[CachedPartition, None]"
    gone: bool
    leader: Any

    def led(self) -> Any:
        """The leader's role; raises KafkaError when this node does not lead."""

    def held(self) -> Any:
        """The role that this node has, leader or follower."""


class CachedPartition:
    """One partition in one session: the reader's position, and the offsets it was last sent.

    ``topic`` is the name (versions up to 12) or the id, 16 bytes; ``replica`` is None while the partition is unknown.
    ``name`` is the topic's name once it was found, even after its deletion. ``held_back``: the last answer had no room
    for its records. ``settled`` is the partition's part of a full answer while it has nothing new, if that is kept.
    ``follower`` is the leader's state of the replica that fetches here; the session's clock has its times.
    """

    __slots__ = (
        "fetch_offset",
        "follower",
        "held_back",
        "index",
        "last_fetched_epoch",
        "leader_epoch",
        "log_start_offset",
        "max_bytes",
        "name",
        "replica",
        "sent_high_watermark",
        "sent_log_start_offset",
        "session",
        "settled",
        "topic",
    )

    def __init__(self, session: "FetchSession", topic: str | bytes, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.replica: WatchedReplica | None = None
        self.name: str | None = None
        self.fetch_offset = 0
        self.held_back = False
        self.max_bytes = 0
        self.leader_epoch = -1
        self.last_fetched_epoch = -1
        self.log_start_offset = -1
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.settled: Any = None
        self.follower: FollowerState | None = None

    def update(self, wanted: Any) -> None:
        """Take over one partition of a Fetch request."""
        self.fetch_offset = wanted.fetch_offset
        self.max_bytes = wanted.partition_max_bytes
        self.leader_epoch = wanted.current_leader_epoch
        self.last_fetched_epoch = wanted.last_fetched_epoch
        self.log_start_offset = wanted.log_start_offset

    def watch(self) -> None:
        """Get notified of the replica's next change: its current state is being read."""
        replica = self.replica
        if replica is None:
            return
        if self.session.is_follower:
            replica.following[self] = None
            return
        if replica.notified:
            replica.notified.pop(self, None)
        replica.watchers[self] = None

    def rest(self) -> None:
        """Detach the follower's state: the session's fetches no longer count for this partition, until it is noted
        again."""
        if self.follower is not None:
            self.follower.leave_session(self.session.clock)
            self.follower = None

    def unwatch(self) -> None:
        if self.follower is not None:
            self.rest()
        replica = self.replica
        if replica is None:
            return
        if self.session.is_follower:
            replica.following.pop(self, None)
        else:
            replica.watchers.pop(self, None)
            replica.notified.pop(self, None)
        self.replica = None

    def mark(self) -> None:
        """Put a new log start into the next answer. A waiting request is not answered for it (``DelayedFetch``)."""
        self.session.changed[self] = None

    def touch(self) -> None:
        """Note that the partition has something new, and wake the waiting request."""
        session = self.session
        session.changed[self] = None
        if session.wake is not None:
            wake, session.wake = session.wake, None
            wake()


class FetchSession:
    """The partitions of one client's fetches. ``uses_ids``: topics by id (version 13 and above), else by name."""

    __slots__ = (
        "changed",
        "client_id",
        "clock",
        "created_ms",
        "entries",
        "epoch",
        "id",
        "is_follower",
        "last_used_ms",
        "lasts",
        "uses_ids",
        "wake",
    )

    def __init__(self, session_id: int, now_ms: float, *, uses_ids: bool, is_follower: bool = False) -> None:
        self.id = session_id
        self.client_id: str | None = None
        """The client id that opened it: a name for a reader that is in no group."""
        self.epoch = FIRST_EPOCH
        self.uses_ids = uses_ids
        self.is_follower = is_follower
        self.lasts = session_id != NO_SESSION
        """Whether it continues after this request, so that its entries have to be notified of changes. This includes a
        session that its client does not know of (`kpybroker.machines.fetch.remembered`)."""
        self.created_ms = self.last_used_ms = now_ms
        self.entries: dict[tuple[str | bytes, int], CachedPartition] = {}
        self.changed: dict[CachedPartition, None] = {}
        self.wake: Callable[[], None] | None = None
        self.clock = FetchClock() if is_follower else None
        """The time of a follower's last fetch; None for consumers."""

    def add(self, topics: Iterable[Any]) -> None:
        """Add or move the partitions that a request lists; each of them counts as changed."""
        entries, changed, uses_ids = self.entries, self.changed, self.uses_ids
        for wanted in topics:
            topic = wanted.topic_id if uses_ids else wanted.topic
            for partition in wanted.partitions:
                key = (topic, partition.partition)
                entry = entries.get(key)
                if entry is None:
                    entry = entries[key] = CachedPartition(self, topic, partition.partition)
                entry.update(partition)
                changed[entry] = None

    def forget(self, topics: Iterable[Any]) -> None:
        """Remove the partitions that a request's ``forgotten_topics_data`` lists."""
        for forgotten in topics:
            topic = forgotten.topic_id if self.uses_ids else forgotten.topic
            for index in forgotten.partitions:
                entry = self.entries.pop((topic, index), None)
                if entry is not None:
                    entry.unwatch()
                    self.changed.pop(entry, None)

    def answered(self, entry: CachedPartition, high_watermark: int, log_start_offset: int, *, more: bool) -> None:
        """Note the offsets that the client is sent for ``entry``.

        ``more``: it has records or an error, so it stays due until the client moves on. An answered entry moves behind
        the others (fairness); one that was held back keeps its place.
        """
        entry.sent_high_watermark = high_watermark
        entry.sent_log_start_offset = log_start_offset
        if entry.held_back:
            return
        self.changed.pop(entry, None)
        if more:
            self.changed[entry] = None

    def next_epoch(self) -> None:
        """Advance to the epoch of the next request. After the largest comes 1 again, since 0 opens a new session."""
        self.epoch = FIRST_EPOCH if self.epoch == LAST_EPOCH else self.epoch + 1

    def close(self) -> None:
        """Stop watching."""
        for entry in self.entries.values():
            entry.unwatch()
        self.forget_all()

    def forget_all(self) -> None:
        """Drop entries that watch nothing: they and the session refer to each other, and nothing else frees them."""
        self.entries.clear()
        self.changed.clear()
        self.wake = None
