"""One connection to a leader over which this node fetches: it asks, applies the answer, and asks again at once.

A large answer is applied in pieces, between which the node does its other work. An error in a partition affects only
that partition: it pauses, or waits for other metadata, as in Kafka. A lost connection is made again, first at once and
then after pauses that grow up to ``replica.fetch.backoff.ms``.

A partition whose leader has the beginning only in the store waits until its log begins in the middle (KIP-405). The
others are fetched meanwhile, so this has a connection of its own.

Invariant: no request is under way while an answer is applied, or while the leader is asked where its logs end.
(Kafka: ``ReplicaFetcherThread``, ``AbstractFetcherThread.processFetchRequest``.)
"""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from math import inf
from typing import Any, NamedTuple, Protocol

from kpybroker.hosts.network.peer import NoResponse, Peer
from kpybroker.hosts.replicas.log_starts import LogStarts
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.throttle import ReplicaThrottle
from kpybroker.hosts.replicas.tiering import Tiering
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.replica_fetcher import (
    FIRST_RETRY_MS,
    Fetcher,
    FetchLimits,
    FetchState,
    Following,
    Key,
    Reaction,
    SessionPartition,
    reaction_to,
)
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpystorage.errors import DiskFailure, StorageError, TooManyOpenFiles
from kpywire import error_codes
from kpywire.errors import Malformed
from kpywire.messages.fetch import FetchResponse, PartitionData
from kpywire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)

log = logging.getLogger("kpybroker.replication")

LOG_START_MS = 5.0
"""The longest wait of a request while the next one may have a new log start to report."""
LATEST = -1
EARLIEST = -2
SESSION_ERRORS = frozenset(
    {
        error_codes.FETCH_SESSION_ID_NOT_FOUND,
        error_codes.INVALID_FETCH_SESSION_EPOCH,
        error_codes.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)
EXPECTED = frozenset(
    {error_codes.NOT_LEADER_OR_FOLLOWER, error_codes.UNKNOWN_LEADER_EPOCH, error_codes.FENCED_LEADER_EPOCH}
)
"""Errors that disappear when both nodes have read the same metadata."""


class FeedParts(NamedTuple):
    """The parts of the node that a feed uses, and the callbacks that it calls."""

    scheduler: Scheduler
    limits: Callable[[], FetchLimits]
    throttle: ReplicaThrottle
    throttles: Callable[[], bool]
    """Whether a throttle rate is set at all."""
    is_throttled: Callable[[Replica], bool]
    truncated: Callable[[Replica], object]
    """Called when the log of a replica was truncated."""
    disk_failed: Callable[[DiskFailure], object]
    log_starts: LogStarts
    tiering: Tiering


class FedOver(Protocol):
    """The connection to a leader: a `Peer`, or one to a broker of another cluster."""

    host: str
    port: int

    def send(self, request: Any, done: Callable[[Any], object]) -> None: ...
    def close(self) -> None: ...


class Feed:
    """The connection, with the partitions that are fetched over it."""

    leader_kind = "broker"
    """The words for the leader in the log."""

    def __init__(self, parts: FeedParts, leader_id: int, peer: FedOver, fetcher: Fetcher) -> None:
        self.leader_id = leader_id
        self.peer = peer
        self.fetcher = fetcher
        self.received_bytes = 0
        self.damaged_answers = 0
        self._parts = parts
        self._asked_ms = -1.0
        """The time when the current request was sent; -1 without one."""
        self.answered_ms = -1.0
        """The time of the last answer."""
        self.unanswered_since_ms = -1.0
        """The time of the first request since the last answer; -1 without one."""
        self._is_busy = False
        """Whether an answer is being applied, or the leader is being asked where its logs end."""
        self._out_of_range: list[Following] = []
        self._second: Peer | None = None
        """The connection for questions about partitions that begin in the middle."""
        self._failures = 0
        self._timer: Timer | None = None
        self._wakes = self._interrupted = self._closed = False

    @property
    def address(self) -> tuple[str, int]:
        return self.peer.host, self.peer.port

    @property
    def waits_since_ms(self) -> float:
        """Since when a request has been waiting at the leader, so that nothing can be added to it; -1 without one."""
        return self._asked_ms

    # What is followed.

    def add(self, following: Following) -> None:
        """Fetch a partition from the next request on, which `wake` sends."""
        self.fetcher.add(following)

    def remove(self, key: Key) -> Following | None:
        """Leave a partition out of the next request; later answers about it are ignored."""
        return self.fetcher.remove(key)

    def wake(self) -> None:
        """Send a request when this turn is over, unless one is under way."""
        if not self._wakes and not self._closed:
            self._wakes = True
            self._parts.scheduler.call_soon(self._woken)

    def interrupt(self) -> None:
        """Drop the current request, and ask for everything again over another connection."""
        if self._asked_ms >= 0:
            self._interrupted = True
            self.peer.close()

    def close(self) -> None:
        """Stop fetching: the rest of an answer is not applied."""
        self._closed = True
        self.fetcher.followings.clear()
        self._stop_timer()
        self.peer.close()
        if self._second is not None:
            self._second.close()

    # Asking.

    def _woken(self) -> None:
        self._wakes = False
        self._go()

    def _later(self, wait_ms: float) -> None:
        self._stop_timer()
        self._timer = self._parts.scheduler.call_later(wait_ms, self._go)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go(self) -> None:
        if self._closed or self._is_busy or self._asked_ms >= 0:
            return
        self._stop_timer()
        now_ms = self._parts.scheduler.monotonic_ms()
        held_back_ms = self._parts.throttle.wait_ms(now_ms)
        if self._parts.throttles():
            for following in self.fetcher.followings.values():
                if self._parts.is_throttled(following.replica):
                    self.fetcher.moved(following.key)
        within_ms = min(held_back_ms or inf, LOG_START_MS if self._parts.log_starts else inf)
        request = self.fetcher.request(
            now_ms, lambda following: held_back_ms > 0 and self._may_wait(following), within_ms
        )
        if request is not None:
            self._asked_ms = now_ms
            if self.unanswered_since_ms < 0:
                self.unanswered_since_ms = now_ms
            self.peer.send(request, self._answered)
            return
        self.unanswered_since_ms = -1.0
        wake_ms = self.fetcher.next_wake_ms()
        waits = [] if wake_ms is None else [wake_ms - now_ms]
        if held_back_ms > 0:
            waits.append(held_back_ms)
        if waits:
            self._later(max(min(waits), 1.0))

    def _may_wait(self, following: Following) -> bool:
        return following.is_behind and self._parts.is_throttled(following.replica)

    # Answers.

    def _answered(self, response: FetchResponse | NoResponse) -> None:
        self._asked_ms = -1.0
        if self._closed:
            return
        if isinstance(response, NoResponse):
            self.fetcher.lost()
            if self._interrupted:
                self._interrupted = False
                self.unanswered_since_ms = -1.0
                self._go()
            else:
                self._retry(response.reason)
            return
        self.answered_ms, self.unanswered_since_ms = self._parts.scheduler.monotonic_ms(), -1.0
        answers = self.fetcher.answered(response)
        if answers is None:
            self._retry(error_codes.name(response.error_code), at_once=response.error_code in SESSION_ERRORS)
            return
        self._failures = 0
        self._is_busy = True
        self._parts.scheduler.in_pieces(self._apply(answers))

    def _retry(self, reason: str, *, at_once: bool = False) -> None:
        """Connect again: at once the first time, then after longer and longer pauses."""
        self._failures += 1
        if self._failures == 1:
            log.info("Fetching from %s %d is interrupted: %s", self.leader_kind, self.leader_id, reason)
        at_once = self._failures <= at_once
        backoff_ms = self._parts.limits().backoff_ms
        self._later(0.0 if at_once else min(FIRST_RETRY_MS * 2.0 ** min(self._failures, 20), backoff_ms))

    def _apply(self, answers: Iterator[tuple[Following, SessionPartition, PartitionData]]) -> Iterator[None]:
        for following, asked, answer in answers:
            try:
                yield from self._take(following, asked, answer)
            except Exception as error:
                self._failed(following, error)
            yield
            if self._closed:
                return
        self._is_busy = False
        if self._out_of_range:
            self._ask(LATEST, self._out_of_range)
            self._out_of_range = []
        else:
            self._go()

    def _take(self, following: Following, asked: SessionPartition, answer: PartitionData) -> Iterator[None]:
        reaction = reaction_to(following, answer, asked)
        if reaction is Reaction.APPEND:
            yield from self._append(following, answer)
        elif reaction is Reaction.TRUNCATE:
            diverging = answer.diverging_epoch
            following.follower.truncate(diverging.epoch, diverging.end_offset, self._parts.scheduler.now_ms())
            self._cut(following)
        elif reaction is Reaction.BEGIN_IN_MIDDLE or (
            reaction is Reaction.ASK_RANGE and self._parts.tiering.skips_tiered(following.replica)
        ):
            self._begin_in_middle(following)
        elif reaction is Reaction.ASK_RANGE:
            self.fetcher.stop(following, FetchState.ASKING)
            self._out_of_range.append(following)
        else:
            self._refused(following, answer.error_code, fails=reaction is Reaction.FAIL)

    def _append(self, following: Following, answer: PartitionData) -> Iterator[None]:
        follower, replica, records = following.follower, following.replica, answer.records
        if records:
            now_ms, total, position = self._parts.scheduler.now_ms(), len(records), 0
            view = records if isinstance(records, memoryview) else memoryview(records)
            self.fetcher.moved(following.key)
            while True:
                position = follower.append(view, position, now_ms)
                if position >= total:
                    break
                yield
                if self.fetcher.followings.get(following.key) is not following:
                    return  # it is followed in another epoch by now, or not here
            self._count(replica, total)
        heard = follower.heard(answer.high_watermark, answer.log_start_offset)
        following.errors = 0
        following.lag = max(answer.high_watermark - follower.log.end.offset, 0)
        if heard.high_watermark:
            replica.changed()
        if heard.log_start:
            self._parts.log_starts.take_over(replica, answer.log_start_offset)

    def _count(self, replica: Replica, size_bytes: int) -> None:
        self.received_bytes += size_bytes
        if self._parts.throttles() and self._parts.is_throttled(replica):
            self._parts.throttle.count(size_bytes, self._parts.scheduler.monotonic_ms())

    def _cut(self, following: Following) -> None:
        self.fetcher.go_on(following)
        self._parts.truncated(following.replica)

    # Logs whose beginning is in the store.

    def _begin_in_middle(self, following: Following) -> None:
        """Fetch a partition only when its log begins where the leader has its records on the disk."""
        if self._second is None:
            assert isinstance(self.peer, Peer)  # no other cluster says so to its consumers
            self._second = self.peer.beside()
        self.fetcher.stop(following, FetchState.ASKING)
        self._parts.tiering.begin_in_middle(following.replica, self._second, partial(self._has_begun, following))

    def _has_begun(self, following: Following, reason: str | None) -> None:
        if self._closed or self.fetcher.followings.get(following.key) is not following:
            return  # it is followed in another epoch by now, or not here
        if reason is None:
            self._cut(following)
        else:
            level = logging.DEBUG if following.errors else logging.WARNING
            log.log(level, "%s cannot begin in the middle yet, this is tried again: %s", following.replica, reason)
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())
        self.wake()

    # Errors.

    def _refused(self, following: Following, code: int, *, fails: bool = False) -> None:
        """Handle an error code of the leader for a partition."""
        name, epoch = error_codes.name(code), following.follower.epoch
        level = logging.DEBUG if code in EXPECTED else logging.WARNING
        log.log(
            level,
            "%s, epoch %d: %s %d answered the fetch with %s",
            following.replica, epoch, self.leader_kind, self.leader_id, name,
        )  # fmt: skip
        if fails:
            self.fetcher.stop(following, FetchState.FAILED)
        else:
            self.fetcher.delay(following, self._parts.scheduler.monotonic_ms())

    def _failed(self, following: Following, error: Exception) -> None:
        """Handle a failure to apply an answer: the partition is retried if the bytes were damaged, else left alone."""
        now_ms = self._parts.scheduler.monotonic_ms()
        if isinstance(error, DiskFailure):
            self._parts.disk_failed(error)
            if isinstance(error, TooManyOpenFiles):
                self.fetcher.delay(following, now_ms)
            else:
                self.fetcher.stop(following, FetchState.FAILED)
        elif isinstance(error, Malformed) or (
            isinstance(error, KafkaError) and error.code == error_codes.CORRUPT_MESSAGE
        ):
            self.damaged_answers += 1
            log.warning("Damaged records of %s %d are fetched again: %s", self.leader_kind, self.leader_id, error)
            self.fetcher.delay(following, now_ms)
        else:
            is_known = isinstance(error, KafkaError | StorageError)
            log.error("%s is no longer fetched: %s", following.replica, error, exc_info=None if is_known else error)
            self.fetcher.stop(following, FetchState.FAILED)

    # Out of range.

    def _ask(self, timestamp: int, followings: list[Following]) -> None:
        """Ask where the leader's logs end, or begin (``AbstractFetcherThread.fetchOffsetAndTruncate``)."""
        self._is_busy = True
        topics: dict[str, list[ListOffsetsPartition]] = {}
        for each in followings:
            epoch, topic = each.follower.epoch, each.replica.topic.name
            asked = ListOffsetsPartition(
                partition_index=each.replica.index, current_leader_epoch=epoch, timestamp=timestamp
            )
            topics.setdefault(topic, []).append(asked)
        request = ListOffsetsRequest(
            replica_id=self.fetcher.node_id,
            topics=[ListOffsetsTopic(name=topic, partitions=partitions) for topic, partitions in topics.items()],
        )
        self.peer.send(request, lambda response: self._on_response(timestamp, followings, response))

    def _on_response(self, timestamp: int, followings: list[Following], response: Any) -> None:
        self._is_busy = False
        if self._closed:
            return
        answers: dict[tuple[str, int], ListOffsetsPartitionResponse] = {}
        if not isinstance(response, NoResponse):
            answers = {
                (topic.name, each.partition_index): each for topic in response.topics for each in topic.partitions
            }
        further: list[Following] = []
        for each in followings:
            if self.fetcher.followings.get(each.key) is each and each.state is FetchState.ASKING:
                try:
                    if self._place(each, timestamp, answers.get((each.replica.topic.name, each.replica.index))):
                        further.append(each)
                except Exception as error:
                    self._failed(each, error)
        if further:
            self._ask(EARLIEST, further)
        else:
            self._go()

    def _place(self, following: Following, timestamp: int, answer: ListOffsetsPartitionResponse | None) -> bool:
        """Move a partition into the leader's range; whether the leader has to be asked where that begins."""
        code = error_codes.NETWORK_EXCEPTION if answer is None else answer.error_code
        if answer is None or code != error_codes.NONE:
            self._refused(following, code, fails=code == error_codes.FENCED_LEADER_EPOCH)
            return False
        follower, now_ms = following.follower, self._parts.scheduler.now_ms()
        if timestamp == LATEST:
            if not follower.leader_ends(answer.offset, now_ms):
                return True
        else:
            follower.leader_starts(answer.offset, now_ms)
        self._cut(following)
        return False
