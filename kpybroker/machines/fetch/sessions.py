"""The fetch sessions that this node keeps (Kafka's FetchSessionCache), and the lookup by session id and epoch.

A session is kept for a client that asks for one while there is room (``max.incremental.fetch.session.cache.slots``).
Room is made by dropping a session that was idle for two minutes, or a smaller session of a consumer for a follower's or
for a larger one. A client without a session lists all its partitions each time.
"""

import random
from collections.abc import Generator
from itertools import islice
from typing import Any, Final

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.fetch.remembered import RememberedBudget
from kpybroker.machines.fetch.session import NO_SESSION, FetchSession
from kpywire import error_codes
from kpywire.fetch import PackedTopic
from kpywire.messages.fetch import FetchTopic

FINAL_EPOCH: Final = -1
INITIAL_EPOCH: Final = 0
FULL: Final = (FINAL_EPOCH, INITIAL_EPOCH)
"""Epochs of requests that list all their partitions."""
STEP_PARTITIONS: Final = 32
MOST_PARTITIONS = 500_000
"""The most partitions in all sessions together. Kafka limits sessions only, whatever they hold."""
MOST_OF_A_CONSUMER: Final = 50_000
"""The most partitions in the session of a consumer: all of them are forgotten at once, when it ends."""
MOST_CHANGED: Final = 10_000
"""The most topics and partitions that an incremental request changes, since that is done in one piece. For more, the
client begins again with a full request."""
MOST_REMEMBERED = 100_000
"""The most partitions of clients without a session that are remembered for their next requests."""
ABANDONED_MS: Final = 600_000
"""A client that has not fetched for this long counts as gone, and has to begin a new session. Kafka keeps such sessions
until it needs their slots."""
SWEEP_MS: Final = 60_000
EVICTION_MS: Final = 120_000
"""Kafka's ``incremental.fetch.session.cache.eviction.ms``, which cannot be configured in Kafka either."""


class FetchSessions:
    """All fetch sessions. ``slots`` is how many are kept at most; ``rng`` draws their ids."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self.slots = slots
        self.rng = rng
        self.sessions: dict[int, FetchSession] = {}
        self.evictions = 0
        self._swept_ms = 0.0
        self.partitions = 0
        """How many partitions all sessions read together."""
        self.remembered_budget = RememberedBudget(MOST_REMEMBERED)

    def begin(self, request: Any, *, uses_ids: bool, is_follower: bool, now_ms: float) -> FetchSession:
        """Make the session of a full request (its epoch is one of `FULL`). It lasts if the request asks for that and
        there is room."""
        old = self.sessions.get(request.session_id)
        if old is not None:
            self.drop(old)
        session = FetchSession(NO_SESSION, now_ms, uses_ids=uses_ids, is_follower=is_follower)
        session.add(request.topics)
        if request.session_epoch == INITIAL_EPOCH:
            self._keep(session, now_ms)
        return session

    def begin_in_steps(
        self, request: Any, *, uses_ids: bool, is_follower: bool, now_ms: float
    ) -> Generator[None, None, FetchSession]:
        """Do the same as `begin`, for a request with many partitions: yields now and then."""
        old = self.sessions.get(request.session_id)
        if old is not None:
            self.drop(old)
        session = FetchSession(NO_SESSION, now_ms, uses_ids=uses_ids, is_follower=is_follower)
        for wanted in request.topics:
            partitions = wanted.each_partition() if type(wanted) is PackedTopic else iter(wanted.partitions)
            while some := list(islice(partitions, STEP_PARTITIONS)):
                session.add((FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=some),))
                yield
            yield
        if request.session_epoch == INITIAL_EPOCH:
            self._keep(session, now_ms)
        return session

    def resume(self, request: Any, *, uses_ids: bool, now_ms: float) -> FetchSession:
        """Find the session of an incremental request, and apply the request's changes. A request that leaves its
        session nothing to read ends it, and is answered as one without a session.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR, for the
                whole response.
        """
        session = self.sessions.get(request.session_id)
        if session is None:
            raise KafkaError(error_codes.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(error_codes.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            self.drop(session)
            raise KafkaError(error_codes.FETCH_SESSION_TOPIC_ID_ERROR)
        if (request.topics or request.forgotten_topics_data) and _changes_many(request):
            self.drop(session)
            raise KafkaError(error_codes.FETCH_SESSION_ID_NOT_FOUND)
        session.next_epoch()
        session.last_used_ms = now_ms
        before = len(session.entries)
        if request.topics:
            session.add(request.topics)
        if request.forgotten_topics_data:
            session.forget(request.forgotten_topics_data)
        self.partitions += len(session.entries) - before
        if self.partitions > MOST_PARTITIONS and len(session.entries) > before:
            # The client starts again, without a session while there is no room for one.
            self.drop(session)
            raise KafkaError(error_codes.FETCH_SESSION_ID_NOT_FOUND)
        if not session.entries:
            self.end(session)
            session.add(request.topics)
        return session

    def _keep(self, session: FetchSession, now_ms: float) -> None:
        if len(session.entries) > MOST_OF_A_CONSUMER and not session.is_follower:
            return
        if now_ms - self._swept_ms >= SWEEP_MS:
            self._swept_ms = now_ms
            for abandoned in [each for each in self.sessions.values() if now_ms - each.last_used_ms > ABANDONED_MS]:
                self._evict(abandoned)
        while len(self.sessions) >= self.slots or self.partitions + len(session.entries) > MOST_PARTITIONS:
            if not self._make_room(session, now_ms):
                return
        session_id = 0
        while session_id == 0 or session_id in self.sessions:
            session_id = self.rng.randrange(1, 2**31 - 1)
        session.id, session.lasts = session_id, True
        self.sessions[session_id] = session
        self.partitions += len(session.entries)

    def _make_room(self, session: FetchSession, now_ms: float) -> bool:
        """Drop a session in Kafka's order: one idle for over two minutes, else the smallest that is worth less than
        this one."""
        if self.slots <= 0 or not self.sessions:
            return False
        oldest = next(iter(self.sessions.values()))
        if now_ms - oldest.created_ms <= EVICTION_MS:
            return False  # all of them are younger: a full cache is not looked through for each request
        idle = min(self.sessions.values(), key=lambda s: s.last_used_ms)
        if now_ms - idle.last_used_ms > EVICTION_MS:
            self._evict(idle)
            return True
        least = min(self.sessions.values(), key=lambda s: (s.is_follower, len(s.entries), s.last_used_ms))
        worth_less = (least.is_follower, len(least.entries)) < (session.is_follower, len(session.entries))
        if worth_less and now_ms - least.created_ms > EVICTION_MS:
            self._evict(least)
            return True
        return False

    def _evict(self, session: FetchSession) -> None:
        self.evictions += 1
        self.drop(session)

    def end(self, session: FetchSession) -> None:
        """End a session while it is answered: the answer has session id 0, so the client begins a new one."""
        self.drop(session)
        session.id, session.lasts = NO_SESSION, False

    def drop(self, session: FetchSession) -> None:
        """End a session: its next request gets FETCH_SESSION_ID_NOT_FOUND."""
        if self.sessions.pop(session.id, None) is not None:
            self.partitions -= len(session.entries)
        session.close()


def _changes_many(request: Any) -> bool:
    left = MOST_CHANGED - len(request.topics) - len(request.forgotten_topics_data)
    for topic in request.topics if left >= 0 else ():
        left -= topic.count if type(topic) is PackedTopic else len(topic.partitions)
    for topic in request.forgotten_topics_data if left >= 0 else ():
        left -= len(topic.partitions)
    return left < 0
