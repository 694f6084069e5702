"""A Produce with acks=all that waits until the high watermark covers what it appended (Kafka's DelayedProduce).

Each partition is decided for itself: committed; REQUEST_TIMED_OUT when ``timeout_ms`` passes; NOT_LEADER_OR_FOLLOWER
when the leadership it was appended under is gone; NOT_ENOUGH_REPLICAS_AFTER_APPEND when it is committed by fewer
replicas than ``min.insync.replicas``. The answer leaves when the last partition is decided.
"""

from collections.abc import Sequence

from kpybroker.io.scheduler import Scheduler
from kpybroker.replicas.replica import Replica
from kpybroker.server.pending import Pending
from kpywire import error_codes
from kpywire.messages.produce import PartitionProduceResponse, ProduceResponse

Uncommitted = tuple[Replica, int, PartitionProduceResponse]
"""(partition, offset that the high watermark must reach, the answer if it does)."""


class CommitWait:
    """One waiting request; ``pending`` resolves to its response."""

    __slots__ = ("_epochs", "_timer", "pending", "response", "undecided")

    def __init__(
        self, scheduler: Scheduler, response: ProduceResponse, undecided: Sequence[Uncommitted], timeout_ms: int
    ) -> None:
        self.response = response
        self.undecided = list(undecided)
        self._epochs = {replica: replica.led().epoch for replica, _, _ in undecided}
        self.pending = Pending(overlaps=True)
        self.pending.when_cancelled(self._forget)
        self._timer = scheduler.call_later(max(timeout_ms, 0), self._expire)
        for replica in self._epochs:
            replica.commit_waits[self] = None

    def check(self) -> None:
        """A high watermark or a leadership changed: decide what can be decided."""
        still = []
        for uncommitted in self.undecided:
            code = self._decide(uncommitted[0], uncommitted[1])
            if code is None:
                still.append(uncommitted)
            elif code != error_codes.NONE:
                _fail(uncommitted[2], code)
        self.undecided = still
        if not still:
            self._answer()

    def _decide(self, replica: Replica, next_offset: int) -> int | None:
        leader = replica.leader
        if leader is None or leader.epoch != self._epochs[replica]:
            return error_codes.NOT_LEADER_OR_FOLLOWER
        if leader.high_watermark.offset < next_offset:
            return None
        if not leader.has_enough_in_sync(replica.topic.config.min_insync_replicas):
            return error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND
        return error_codes.NONE

    def _expire(self) -> None:
        for _, _, answer in self.undecided:
            _fail(answer, error_codes.REQUEST_TIMED_OUT)
        self._answer()

    def _answer(self) -> None:
        self._forget()
        self.pending.resolve(self.response)

    def _forget(self) -> None:
        self._timer.cancel()
        for replica in self._epochs:
            replica.commit_waits.pop(self, None)


def _fail(answer: PartitionProduceResponse, code: int) -> None:
    answer.error_code = code
    answer.base_offset = -1
    answer.log_append_time_ms = -1
    answer.log_start_offset = -1
