"""The requests of one connection to a leader: which partitions, from which offsets, and how to react to the answers.

One request is under way at a time. All belong to a fetch session (KIP-227): after the first, a request names only the
partitions that have moved or are new, and those that are forgotten. So the cost of a turn depends on what happens, not
on how many partitions are followed.

Not here: the connection, appending and truncating (`kpybroker.hosts.replicas.fetchers`), the log
(`kpybroker.machines.partition`).

Invariant: ``session`` is the content of the leader's session once it has processed the last request.
(Kafka: ``AbstractFetcherThread``, ``FetchSessionHandler``, ``RemoteLeaderEndPoint.buildFetch``.)
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from math import inf
from typing import Any, Final, NamedTuple, Protocol

from kpybroker.machines.partition.follower import HeardOffsets, NextFetch
from kpystorage.log import Log
from kpywire import error_codes
from kpywire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)

Key = tuple[bytes, int]
"""(topic id, partition index)."""

NO_SESSION: Final = 0
FIRST_RETRY_MS: Final = 10.0
"""The pause after an error; doubled up to ``replica.fetch.backoff.ms``. Most errors disappear when the leader has read
the same metadata."""
_LAST_EPOCH: Final = 2**31 - 1
_new: Final = tuple.__new__


class FetchState(Enum):
    """The state of a partition: whether it is fetched, or what it waits for."""

    FETCHING = 0
    DELAYED = 1
    """It waits for the end of a pause after an error."""
    ASKING = 2
    """It waits for the offsets at which the leader's log begins and ends, or until its log begins in the middle."""
    FAILED = 3
    """It waits for other metadata, or a repaired disk."""


class SessionPartition(NamedTuple):
    """A partition as the session holds it."""

    offset: int
    last_epoch: int
    log_start_offset: int
    leader_epoch: int
    max_bytes: int


class FetchLimits(NamedTuple):
    """The configured limits of a request."""

    max_wait_ms: int
    min_bytes: int
    response_max_bytes: int
    partition_max_bytes: int
    backoff_ms: float


class PartitionCopy(Protocol):
    """A partition whose log becomes a copy of its leader's: that of a follower, or one that another cluster feeds."""

    @property
    def log(self) -> Log: ...

    @property
    def epoch(self) -> int:
        """The epoch of the leader that is asked; -1 if it is not to be compared."""

    @property
    def next_fetch(self) -> NextFetch: ...

    def append(self, records: memoryview, position: int, now_ms: int, /) -> int: ...
    def heard(self, high_watermark: int, log_start_offset: int, /) -> HeardOffsets: ...
    def truncate(self, leader_epoch: int, end_offset: int, now_ms: int, /) -> None: ...
    def leader_ends(self, end_offset: int, now_ms: int, /) -> bool: ...
    def leader_starts(self, start_offset: int, now_ms: int, /) -> None: ...


class Following:
    """One partition that follows its leader. ``replica`` is for the caller; this module does not use it."""

    __slots__ = ("errors", "follower", "key", "lag", "replica", "state")

    def __init__(self, key: Key, follower: PartitionCopy, replica: Any) -> None:
        self.key = key
        self.follower = follower
        self.replica = replica
        self.state = FetchState.FETCHING
        self.lag: int | None = None
        """Records behind the leader's high watermark; None before the first answer."""
        self.errors = 0
        """How many errors came in a row."""

    @property
    def is_behind(self) -> bool:
        """Whether it may lack committed records. Only such a partition may be throttled."""
        return self.lag is None or self.lag > 0


class Reaction(Enum):
    """The reaction to a partition's answer."""

    APPEND = 0
    TRUNCATE = 1
    ASK_RANGE = 2
    BEGIN_IN_MIDDLE = 3
    """The leader has the offset only in the store (KIP-405)."""
    WAIT = 4
    FAIL = 5


def reaction_to(following: Following, answer: PartitionData, asked: SessionPartition) -> Reaction:
    """The reaction to an answer, by its error code."""
    code = answer.error_code
    if code == error_codes.NONE:
        return Reaction.TRUNCATE if answer.diverging_epoch.epoch >= 0 else Reaction.APPEND
    if code == error_codes.OFFSET_OUT_OF_RANGE:
        return Reaction.ASK_RANGE
    if code == error_codes.OFFSET_MOVED_TO_TIERED_STORAGE:
        return Reaction.BEGIN_IN_MIDDLE
    if code == error_codes.FENCED_LEADER_EPOCH and asked.leader_epoch == following.follower.epoch:
        return Reaction.FAIL  # the metadata that say so are on their way
    return Reaction.WAIT


class Fetcher:
    """The partitions that are fetched over one connection, and their session there."""

    def __init__(self, node_id: int, broker_epoch: Callable[[], int], limits: Callable[[], FetchLimits]) -> None:
        self.node_id = node_id
        self.followings: dict[Key, Following] = {}
        self.session: dict[Key, SessionPartition] = {}
        self.session_id = NO_SESSION
        self.session_epoch = 0
        self._broker_epoch = broker_epoch
        self._limits = limits
        self._due: dict[Key, None] = {}
        """Partitions whose entry in the session may be out of date."""
        self._unheard: dict[Key, None] = {}
        """Partitions whose answer came too late to be applied: the leader would not repeat it."""
        self._delayed: list[tuple[float, int, Following]] = []
        self._order = 0

    # Which partitions

    def add(self, following: Following) -> None:
        """Follow a partition from now on, or in a new epoch."""
        self.followings[following.key] = following
        self._due[following.key] = None

    def remove(self, key: Key) -> Following | None:
        """Stop following a partition."""
        self._due[key] = None
        return self.followings.pop(key, None)

    def moved(self, key: Key) -> None:
        """Note that a partition has another end, start or throttle than the session holds."""
        self._due[key] = None

    def delay(self, following: Following, now_ms: float) -> float:
        """Pause a partition, longer with each error in a row; returns how long."""
        wait_ms = self.pause_ms(following)
        following.state = FetchState.DELAYED
        self._due[following.key] = None
        self._order += 1
        heapq.heappush(self._delayed, (now_ms + wait_ms, self._order, following))
        return wait_ms

    def pause_ms(self, following: Following) -> float:
        """The pause after one more error of a partition."""
        wait_ms = min(FIRST_RETRY_MS * 2.0 ** min(following.errors, 20), self._limits().backoff_ms)
        following.errors += 1
        return wait_ms

    def stop(self, following: Following, state: FetchState) -> None:
        """Stop fetching a partition until `go_on`, or until it is added in another epoch."""
        following.state = state
        self._due[following.key] = None

    def go_on(self, following: Following) -> None:
        """Fetch a partition again."""
        following.state = FetchState.FETCHING
        self._due[following.key] = None

    def next_wake_ms(self) -> float | None:
        """The time when the first pause is over."""
        return self._delayed[0][0] if self._delayed else None

    # Asking

    def request(
        self, now_ms: float, is_held_back: Callable[[Following], bool], within_ms: float = inf
    ) -> FetchRequest | None:
        """The next request; None if there is nothing to ask. ``is_held_back``: by a throttle, for ``within_ms``.

        The leader may keep it waiting only until another partition can be asked for.
        """
        delayed = self._delayed
        while delayed and delayed[0][0] <= now_ms:
            following = heapq.heappop(delayed)[2]
            if following.state is FetchState.DELAYED:
                self.go_on(following)
        is_full = self.session_epoch == 0
        if is_full:
            self.session = {}
            self._unheard.clear()
            self._due = dict.fromkeys(self.followings)
        if self._unheard:
            within_ms = 0.0  # they are taken in again with the request after this one
        due, self._due = self._due, {}
        changed, forgotten = self._changes(due, is_held_back)
        if not self.session and not forgotten:
            self.session_epoch = 0
            return None
        limits = self._limits()
        if delayed:
            within_ms = min(within_ms, delayed[0][0] - now_ms)
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.node_id, replica_epoch=self._broker_epoch()),
            max_wait_ms=int(max(min(limits.max_wait_ms, within_ms), 1)),
            min_bytes=limits.min_bytes,
            max_bytes=limits.response_max_bytes,
            session_id=self.session_id,
            session_epoch=self.session_epoch,
            topics=[
                FetchTopic(topic_id=topic_id, partitions=[self._asked(topic_id, index) for index in indexes])
                for topic_id, indexes in _grouped(changed)
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic_id=topic_id, partitions=indexes) for topic_id, indexes in _grouped(forgotten)
            ],
        )

    def _changes(self, due: Iterable[Key], is_held_back: Callable[[Following], bool]) -> tuple[list[Key], list[Key]]:
        """Bring the session up to date: the partitions to name, and those to forget."""
        changed: list[Key] = []
        forgotten: list[Key] = []
        session, followings, unheard = self.session, self.followings, self._unheard
        max_bytes = self._limits().partition_max_bytes
        for key in due:
            following = followings.get(key)
            if key in unheard:
                del unheard[key]
                self._due[key] = None
            elif following is not None and following.state is FetchState.FETCHING and not is_held_back(following):
                follower = following.follower
                asked = _new(SessionPartition, (*follower.next_fetch, follower.epoch, max_bytes))
                if session.get(key) != asked:
                    session[key] = asked
                    changed.append(key)
                continue
            if session.pop(key, None) is not None:
                forgotten.append(key)
        return changed, forgotten

    def _asked(self, topic_id: bytes, index: int) -> FetchPartition:
        asked = self.session[topic_id, index]
        return FetchPartition(
            partition=index,
            current_leader_epoch=asked.leader_epoch,
            fetch_offset=asked.offset,
            last_fetched_epoch=asked.last_epoch,
            log_start_offset=asked.log_start_offset,
            partition_max_bytes=asked.max_bytes,
        )

    # Answers

    def answered(self, response: FetchResponse) -> Iterator[tuple[Following, SessionPartition, PartitionData]] | None:
        """The partitions of a response that have not changed since the request. None if the session has to begin
        again."""
        if response.error_code != error_codes.NONE:
            gone = response.error_code == error_codes.FETCH_SESSION_ID_NOT_FOUND
            self._begin_anew(NO_SESSION if gone else self.session_id)
            return None
        answers = [
            ((topic.topic_id, each.partition_index), each) for topic in response.responses for each in topic.partitions
        ]
        is_full = self.session_epoch == 0
        if any(key not in self.session for key, _ in answers) or (is_full and len(answers) != len(self.session)):
            self._begin_anew(NO_SESSION if is_full else self.session_id)
            return None
        if response.session_id == NO_SESSION:
            self._begin_anew(NO_SESSION)
        else:
            self.session_id = response.session_id
            self.session_epoch = 1 if self.session_epoch == _LAST_EPOCH else self.session_epoch + 1
        return self._applicable(answers, self.session)

    def _applicable(
        self, answers: list[tuple[Key, PartitionData]], session: dict[Key, SessionPartition]
    ) -> Iterator[tuple[Following, SessionPartition, PartitionData]]:
        for key, answer in answers:
            following, asked = self.followings.get(key), session.get(key)
            if asked is not None and following is not None and following.state is FetchState.FETCHING:
                follower = following.follower
                if (follower.log.end.offset, follower.epoch) == (asked.offset, asked.leader_epoch):
                    yield following, asked, answer
                    continue
            self._unheard[key] = self._due[key] = None

    def lost(self) -> None:
        """Handle a request without an answer: it is unknown whether the leader processed it."""
        self._begin_anew(self.session_id)

    def _begin_anew(self, session_id: int) -> None:
        """Name all partitions in the next request; it closes the previous session."""
        self.session_id, self.session_epoch = session_id, 0


def _grouped(keys: Iterable[Key]) -> Iterable[tuple[bytes, list[int]]]:
    grouped: dict[bytes, list[int]] = {}
    for topic_id, index in keys:
        grouped.setdefault(topic_id, []).append(index)
    return grouped.items()
