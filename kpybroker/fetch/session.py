"""One client's set of partitions to read, and which of them changed since they were last answered.

A partition tells the sessions that read it when its records, high watermark, last stable offset, log start or
leadership change: consumers once, until they have looked. So answering looks only at what changed, however many
partitions the client reads, and an append costs nothing for sessions that have not come back for the last one. A fetch
without a session (session id 0) is a session of one request.

Invariant: an entry that is not in ``changed`` has nothing to answer: no data, no error, no offset the client has not
seen.
"""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

from kpybroker.partition.in_sync import FetchClock, FollowerState

NO_SESSION = 0
FIRST_EPOCH = 1
LAST_EPOCH = 2**31 - 1


class Watched(Protocol):
    """A partition's replica as sessions see it."""

    topic: Any
    watchers: "dict[Entry, None]"
    """Consumers' that have to be told when something changes."""
    told: "dict[Entry, None]"
    """Those that were told since they looked."""
    following: "dict[Entry, None]"
    gone: bool
    leader: Any

    def led(self) -> Any:
        """The leader's role; raises KafkaError when this node does not lead."""

    def held(self) -> Any:
        """The role that this node has, leader or follower."""


class Entry:
    """One partition in one session: where its reader is and what it was last told.

    ``topic`` is the name (versions up to 12) or the id, 16 bytes; ``replica`` is None while the partition is unknown;
    ``name`` is that of the topic once it was found, also when it is gone; ``held_back`` tells that the last answer had
    no room for its records; ``settled`` is what a full answer says of it while it has nothing new, where that is kept;
    ``follower`` is what the leader knows of the replica that fetches here, whose times the session's clock tells.
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

    def __init__(self, session: "Session", topic: str | bytes, index: int) -> None:
        self.session = session
        self.topic = topic
        self.index = index
        self.replica: Watched | None = None
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
        """Be told of the replica's next change: what there is now is being read."""
        replica = self.replica
        if replica is None:
            return
        if self.session.is_follower:
            replica.following[self] = None
            return
        if replica.told:
            replica.told.pop(self, None)
        replica.watchers[self] = None

    def rest(self) -> None:
        """The follower's fetches are none of this partition any more, until it is noted again."""
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
            replica.told.pop(self, None)
        self.replica = None

    def mark(self) -> None:
        """The log starts elsewhere: news for the next answer, which nobody waits for (``DelayedFetch``)."""
        self.session.changed[self] = None

    def touch(self) -> None:
        """The partition has something new."""
        session = self.session
        session.changed[self] = None
        if session.wake is not None:
            wake, session.wake = session.wake, None
            wake()


class Session:
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

    def __init__(self, session_id: int, uses_ids: bool, now_ms: float, *, is_follower: bool = False) -> None:
        self.id = session_id
        self.client_id: str | None = None
        """Of the client that opened it: a name for a reader that is in no group."""
        self.epoch = FIRST_EPOCH
        self.uses_ids = uses_ids
        self.is_follower = is_follower
        self.lasts = session_id != NO_SESSION
        """Whether it goes on after this request, so that its entries are to be told of changes. So does one that its
        client knows nothing of (`kpybroker.fetch.standing`)."""
        self.created_ms = self.last_used_ms = now_ms
        self.entries: dict[tuple[str | bytes, int], Entry] = {}
        self.changed: dict[Entry, None] = {}
        self.wake: Callable[[], None] | None = None
        self.clock = FetchClock() if is_follower else None
        """Of a follower: when it last fetched."""

    def add(self, topics: Iterable[Any]) -> None:
        """Add or move the partitions that a request lists; each of them has changed."""
        entries, changed, uses_ids = self.entries, self.changed, self.uses_ids
        for wanted in topics:
            topic = wanted.topic_id if uses_ids else wanted.topic
            for partition in wanted.partitions:
                key = (topic, partition.partition)
                entry = entries.get(key)
                if entry is None:
                    entry = entries[key] = Entry(self, topic, partition.partition)
                entry.update(partition)
                changed[entry] = None

    def forget(self, topics: Iterable[Any]) -> None:
        """Leave out the partitions that a request's ``forgotten_topics_data`` lists."""
        for forgotten in topics:
            topic = forgotten.topic_id if self.uses_ids else forgotten.topic
            for index in forgotten.partitions:
                entry = self.entries.pop((topic, index), None)
                if entry is not None:
                    entry.unwatch()
                    self.changed.pop(entry, None)

    def answered(self, entry: Entry, high_watermark: int, log_start_offset: int, *, more: bool) -> None:
        """Note what the client is told of ``entry``.

        ``more``: it has records or an error, so it stays due until the client moves on. What was answered goes behind
        the others (fairness), what was held back keeps its place.
        """
        entry.sent_high_watermark = high_watermark
        entry.sent_log_start_offset = log_start_offset
        if entry.held_back:
            return
        self.changed.pop(entry, None)
        if more:
            self.changed[entry] = None

    def next_epoch(self) -> None:
        """The epoch of the next request; after the largest comes 1 again, since 0 opens a new session."""
        self.epoch = FIRST_EPOCH if self.epoch == LAST_EPOCH else self.epoch + 1

    def close(self) -> None:
        """Stop watching."""
        for entry in self.entries.values():
            entry.unwatch()
        self.forget_all()

    def forget_all(self) -> None:
        """Let go of entries that watch nothing: they and the session hold one another, and nothing else frees them."""
        self.entries.clear()
        self.changed.clear()
        self.wake = None
