"""A Produce with acks=all that waits until the high watermark covers the appended batches (Kafka's DelayedProduce).

Each partition is decided separately: committed; REQUEST_TIMED_OUT when ``timeout_ms`` passes; NOT_LEADER_OR_FOLLOWER
when the leadership of the append is over; NOT_ENOUGH_REPLICAS_AFTER_APPEND when it is committed by fewer replicas than
``min.insync.replicas``. The answer is sent when the last partition is decided.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from kpybroker.hosts.replicas.replica import Replica
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler
from kpywire import error_codes
from kpywire.produce import Answers

Refusal = Callable[["UncommittedBatch", int], bytes]
"""(the appended batch, error code) -> the encoded answer."""


class UncommittedBatch(NamedTuple):
    """One appended batch that is not committed, and the place of its answer. The answer there reports success."""

    replica: Replica
    term: int
    """The term of the leader that appended it."""
    next_offset: int
    """The offset that the high watermark must reach."""
    partition: int
    answers: list[bytes]
    place: int


class CommitWait:
    """One waiting request; ``pending`` resolves to its answers."""

    __slots__ = ("_refusal", "_timer", "answers", "pending", "undecided")

    def __init__(
        self,
        scheduler: Scheduler,
        answers: Answers,
        undecided: Sequence[UncommittedBatch],
        refusal: Refusal,
        timeout_ms: int,
    ) -> None:
        self.answers = answers
        self.undecided = list(undecided)
        self.pending = Pending(overlaps=True)
        self.pending.when_cancelled(self._forget)
        self._refusal = refusal
        self._timer = scheduler.call_later(max(timeout_ms, 0), self._expire)
        for each in self.undecided:
            each.replica.commit_waits[self] = None

    def check(self) -> None:
        """Decide what can be decided, since a high watermark or a leadership changed."""
        before, self.undecided = self.undecided, []
        for each in before:
            code = _decide(each)
            if code is None:
                self.undecided.append(each)
                continue
            each.replica.commit_waits.pop(self, None)
            if code != error_codes.NONE:
                self._refuse(each, code)
        for each in self.undecided:
            each.replica.commit_waits[self] = None
        if not self.undecided:
            self._answer()

    def _refuse(self, each: UncommittedBatch, code: int) -> None:
        each.answers[each.place] = self._refusal(each, code)

    def _expire(self) -> None:
        for each in self.undecided:
            self._refuse(each, error_codes.REQUEST_TIMED_OUT)
        self._answer()

    def _answer(self) -> None:
        self._forget()
        self.pending.resolve(self.answers)

    def _forget(self) -> None:
        self._timer.cancel()
        for each in self.undecided:
            each.replica.commit_waits.pop(self, None)


def _decide(each: UncommittedBatch) -> int | None:
    """The error code of a batch's answer, NONE if it is committed; None while it is undecided."""
    leader = each.replica.leader
    if leader is None or leader.term != each.term:
        return error_codes.NOT_LEADER_OR_FOLLOWER
    if leader.high_watermark.offset < each.next_offset:
        return None
    if not leader.has_reached_enough(each.replica.topic.config.min_insync_replicas):
        return error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND
    return error_codes.NONE
