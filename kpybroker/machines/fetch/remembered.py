"""The partitions that a client without a fetch session reads on one connection, kept between its requests.

Such a client lists all its partitions each time, mostly the same ones at the same offsets, possibly in another order.
So they are recognised by their bytes. They stay entries of a session that the client does not know of, and are notified
of changes like those of any session.

Invariant: an entry of the session that is not in ``changed`` has nothing to read, and ``settled`` is its answer.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Protocol

from kpybroker.machines.fetch.session import NO_SESSION, CachedPartition, FetchSession


class RequestLayout(Protocol):
    """The layout of a partition in a request."""

    def partition(self, piece: bytes) -> Any:
        """Decode the partition in these bytes."""


class RequestTopic(Protocol):
    """A topic of a request, with its partitions as bytes."""

    topic: str
    topic_id: bytes
    packed: bytes
    layout: Any

    def pieces(self) -> Iterable[bytes]:
        """The bytes of each partition."""


class NotRemembered(Exception):
    """A request names a partition twice, or there is no room for its partitions: it is served without being
    remembered."""


class RememberedBudget:
    """A budget of remembered partitions, shared by all connections. Each `RememberedFetch` takes from it, and returns
    it at its end."""

    __slots__ = ("left",)

    def __init__(self, partitions: int) -> None:
        self.left = partitions


class RememberedFetch:
    """The partitions of the last request, and their session. ``version`` and ``isolation`` are those of the request."""

    __slots__ = ("_budget", "_taken", "_topics", "isolation", "session", "version")

    def __init__(self, version: int, isolation: int, budget: RememberedBudget, *, uses_ids: bool) -> None:
        self.version = version
        self.isolation = isolation
        self.session = FetchSession(NO_SESSION, 0, uses_ids=uses_ids)
        self.session.lasts = True
        self._budget = budget
        self._taken = 0
        self._topics: dict[str | bytes, _Known] = {}

    def take(self, topics: Sequence[RequestTopic]) -> list[list[CachedPartition]]:
        """Return the entries that a request asks for, by topic and in its order; all others are forgotten.

        Raises NotRemembered; then it has to be closed.
        """
        session, known = self.session, self._topics
        taken: dict[str | bytes, list[CachedPartition]] = {}
        for topic in topics:
            key = topic.topic_id if session.uses_ids else topic.topic
            if key in taken:
                raise NotRemembered
            of_topic = known.get(key)
            if of_topic is None:
                of_topic = known[key] = _Known(session, key)
            taken[key] = of_topic.take(topic)
        if len(known) > len(taken):
            for key in known.keys() - taken.keys():
                known.pop(key).forget()
        self._take_room(len(session.entries))
        if self._budget.left < 0:
            raise NotRemembered
        return list(taken.values())

    def _take_room(self, partitions: int) -> None:
        self._budget.left -= partitions - self._taken
        self._taken = partitions

    def close(self) -> None:
        """Stop watching."""
        self._take_room(0)
        self.session.close()
        self._topics.clear()


class _Known:
    """The partitions of one topic."""

    __slots__ = ("by_piece", "entries", "key", "packed", "session")

    def __init__(self, session: FetchSession, key: str | bytes) -> None:
        self.session = session
        self.key = key
        self.packed = b""
        self.entries: list[CachedPartition] = []
        self.by_piece: dict[bytes, CachedPartition] = {}

    def take(self, topic: RequestTopic) -> list[CachedPartition]:
        if topic.packed == self.packed:
            return self.entries
        pieces = list(topic.pieces())
        try:
            found = list(map(self.by_piece.__getitem__, pieces))
        except KeyError:
            get = self.by_piece.get
            found = [get(piece) or self._moved(topic.layout.partition(piece)) for piece in pieces]
        here = set(found)
        if len(here) < len(found):
            raise NotRemembered
        if len(here) < len(self.entries) or not here.issuperset(self.entries):
            self._forget([entry for entry in self.entries if entry not in here])
        self.by_piece = dict(zip(pieces, found, strict=True))
        self.packed, self.entries = topic.packed, found
        return found

    def _moved(self, wanted: Any) -> CachedPartition:
        """Make or update the entry of a partition that is new here, or is read from another offset than before."""
        session = self.session
        place = (self.key, wanted.partition)
        entry = session.entries.get(place)
        if entry is None:
            entry = session.entries[place] = CachedPartition(session, self.key, wanted.partition)
        entry.update(wanted)
        session.changed[entry] = None
        return entry

    def forget(self) -> None:
        """Forget the topic, which the client no longer asks for."""
        self._forget(self.entries)

    def _forget(self, entries: Iterable[CachedPartition]) -> None:
        session = self.session
        for entry in entries:
            del session.entries[entry.topic, entry.index]
            session.changed.pop(entry, None)
            entry.unwatch()


class SessionlessFetch:
    """The partitions that the client of a connection reads outside of sessions.

    ``entries`` are those that count for its lag.
    """

    __slots__ = ("client_id", "entries", "remembered")

    def __init__(
        self, client_id: str | None, entries: Sequence[CachedPartition], remembered: RememberedFetch | None = None
    ) -> None:
        self.client_id = client_id
        self.entries = entries
        self.remembered = remembered

    def close(self) -> None:
        """Close it: the connection is gone, or reads something else."""
        if self.remembered is not None:
            self.remembered.close()
