"""A DeleteRecords that waits until no live replica has the records any more (Kafka's DelayedDeleteRecords).

Each partition is decided separately: the low watermark reached the requested offset; REQUEST_TIMED_OUT when
``timeout_ms`` passes; NOT_LEADER_OR_FOLLOWER when this node no longer leads, KAFKA_STORAGE_ERROR when its log directory
failed.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes

UNKNOWN = -1


class RecordDeletion(NamedTuple):
    """Records below ``offset`` are to be deleted; ``decided`` is called with an error code and the low watermark."""

    replica: Replica
    offset: int
    decided: Callable[[int, int], object]


class DeletionWait:
    """One waiting request; ``done`` is called when its last partition is decided, at once if they all can be."""

    __slots__ = ("_done", "_is_over", "_timer", "_undecided")

    def __init__(
        self, scheduler: Scheduler, deletions: Sequence[RecordDeletion], timeout_ms: int, done: Callable[[], object]
    ) -> None:
        self._undecided = list(deletions)
        self._done = done
        self._is_over = False
        self._timer = scheduler.call_later(max(timeout_ms, 0), self._expire)
        self.check()

    def check(self) -> None:
        """Decide what can be decided, since a replica's log start or a leadership changed."""
        if self._is_over:
            return
        before, self._undecided = self._undecided, []
        for each in before:
            outcome = _decide(each)
            if outcome is None:
                self._undecided.append(each)
            else:
                each.replica.commit_waits.pop(self, None)
                each.decided(*outcome)
        for each in self._undecided:
            each.replica.commit_waits[self] = None
        if not self._undecided:
            self._finish()

    def forget(self) -> None:
        """Stop waiting: the answer is no longer wanted."""
        self._is_over = True
        self._timer.cancel()
        for each in self._undecided:
            each.replica.commit_waits.pop(self, None)

    def _expire(self) -> None:
        for each in self._undecided:
            leader = each.replica.leader
            each.decided(error_codes.REQUEST_TIMED_OUT, UNKNOWN if leader is None else leader.low_watermark())
        self._finish()

    def _finish(self) -> None:
        self.forget()
        self._done()


def _decide(each: RecordDeletion) -> tuple[int, int] | None:
    """Error code and low watermark; None while it is undecided."""
    replica = each.replica
    if replica.gone:
        return error_codes.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN
    if replica.offline:
        return error_codes.KAFKA_STORAGE_ERROR, UNKNOWN
    if replica.leader is None:
        return error_codes.NOT_LEADER_OR_FOLLOWER, UNKNOWN
    low_watermark = replica.leader.low_watermark()
    return None if low_watermark < each.offset else (error_codes.NONE, low_watermark)
