"""The sessions this node keeps (Kafka's FetchSessionCache), and what a request's session id and epoch ask for.

A session is kept for a client that asks for one while there is room (``max.incremental.fetch.session.cache.slots``);
room is made by dropping one that was idle for two minutes, or a smaller one of a consumer for a follower's or for a
larger one. A client without a session simply lists all its partitions each time.
"""

import random
from collections.abc import Generator
from itertools import islice
from typing import Any

from kpybroker.errors import KafkaError
from kpybroker.fetch.session import NO_SESSION, Session
from kpybroker.fetch.standing import Room
from kpywire import error_codes
from kpywire.fetch import PackedTopic
from kpywire.messages.fetch import FetchTopic

FINAL_EPOCH = -1
INITIAL_EPOCH = 0
FULL = (FINAL_EPOCH, INITIAL_EPOCH)
"""Epochs of requests that list all that they are about."""
STEP_PARTITIONS = 32
MOST_PARTITIONS = 500_000
"""In all sessions together. Kafka counts sessions only, whatever they hold."""
MOST_STANDING = 100_000
"""Partitions of clients without a session that are remembered for their next requests."""
ABANDONED_MS = 600_000
"""Who has not fetched for so long is gone, or begins anew. Kafka keeps such sessions until it needs their slots."""
SWEEP_MS = 60_000
EVICTION_MS = 120_000
"""Kafka's ``incremental.fetch.session.cache.eviction.ms``, which it does not let anybody configure either."""


class Sessions:
    """All fetch sessions. ``slots`` is how many are kept at most; ``rng`` draws their ids."""

    def __init__(self, slots: int, rng: random.Random) -> None:
        self.slots = slots
        self.rng = rng
        self.sessions: dict[int, Session] = {}
        self.evictions = 0
        self._swept_ms = 0.0
        self.partitions = 0
        """How many partitions all sessions read together."""
        self.standing_room = Room(MOST_STANDING)

    def begin(self, request: Any, uses_ids: bool, is_follower: bool, now_ms: float) -> tuple[Session, bool]:
        """The session that a Fetch request reads in, with the request's changes made; and whether it is incremental.

        Raises:
            KafkaError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR, of
                the whole response.
        """
        if request.session_epoch in FULL:
            old = self.sessions.get(request.session_id)
            if old is not None:
                self.drop(old)
            session = Session(NO_SESSION, uses_ids, now_ms, is_follower=is_follower)
            session.add(request.topics)
            if request.session_epoch == INITIAL_EPOCH:
                self._keep(session, now_ms)
            return session, False
        session = self._continue(request, uses_ids, now_ms)
        return session, session.id != NO_SESSION

    def begin_in_steps(
        self, request: Any, uses_ids: bool, is_follower: bool, now_ms: float
    ) -> Generator[None, None, Session]:
        """As `begin`, of a full request (its epoch is one of `FULL`) for many partitions: yields between some."""
        old = self.sessions.get(request.session_id)
        if old is not None:
            self.drop(old)
        session = Session(NO_SESSION, uses_ids, now_ms, is_follower=is_follower)
        for wanted in request.topics:
            partitions = wanted.each_partition() if type(wanted) is PackedTopic else iter(wanted.partitions)
            while some := list(islice(partitions, STEP_PARTITIONS)):
                session.add((FetchTopic(topic=wanted.topic, topic_id=wanted.topic_id, partitions=some),))
                yield
        if request.session_epoch == INITIAL_EPOCH:
            self._keep(session, now_ms)
        return session

    def _continue(self, request: Any, uses_ids: bool, now_ms: float) -> Session:
        session = self.sessions.get(request.session_id)
        if session is None:
            raise KafkaError(error_codes.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(error_codes.INVALID_FETCH_SESSION_EPOCH)
        if session.uses_ids != uses_ids:
            self.drop(session)
            raise KafkaError(error_codes.FETCH_SESSION_TOPIC_ID_ERROR)
        session.next_epoch()
        session.last_used_ms = now_ms
        before = len(session.entries)
        session.add(request.topics)
        session.forget(request.forgotten_topics_data)
        self.partitions += len(session.entries) - before
        if self.partitions > MOST_PARTITIONS and len(session.entries) > before:
            # The client begins anew, without a session while there is no room for one.
            self.drop(session)
            raise KafkaError(error_codes.FETCH_SESSION_ID_NOT_FOUND)
        if not session.entries:
            # A request that leaves its session nothing to read ends it, and is answered as one without a session.
            self.end(session)
            session.add(request.topics)
        return session

    def _keep(self, session: Session, now_ms: float) -> None:
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

    def _make_room(self, session: Session, now_ms: float) -> bool:
        """Kafka's order: the longest idle one after two minutes, else the smallest that is worth less than ours."""
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

    def _evict(self, session: Session) -> None:
        self.evictions += 1
        self.drop(session)

    def end(self, session: Session) -> None:
        """End a session while it is answered: the answer has session id 0, which tells the client to begin anew."""
        self.drop(session)
        session.id, session.lasts = NO_SESSION, False

    def drop(self, session: Session) -> None:
        """End a session: its next request will be told FETCH_SESSION_ID_NOT_FOUND."""
        if self.sessions.pop(session.id, None) is not None:
            self.partitions -= len(session.entries)
        session.close()
