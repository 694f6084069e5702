"""acks=all: an answer waits until its batches are committed, and says what became of each of them."""

from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.hosts.replicas.commit_wait import CommitWait, UncommittedBatch
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes


class FakeReplica:
    """A partition whose leader the test moves."""

    def __init__(self, epoch: int = 4) -> None:
        self.commit_waits: dict[Any, None] = {}
        self.topic = SimpleNamespace(config=SimpleNamespace(min_insync_replicas=2))
        self.enough = True
        self.leader: Any = SimpleNamespace(
            term=epoch,
            high_watermark=SimpleNamespace(offset=0),
            has_reached_enough=lambda _minimum: self.enough,
        )

    def reach(self, offset: int) -> None:
        self.leader.high_watermark.offset = offset
        for wait in list(self.commit_waits):
            wait.check()


def refusal(each: UncommittedBatch, code: int) -> bytes:
    return f"{each.partition}:{code}".encode()


class Waiting:
    """A request with one batch in each of two partitions, up to offset 10."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.replicas = [FakeReplica(), FakeReplica()]
        self.answers = [b"0:ok", b"1:ok"]
        undecided: list[Any] = [
            UncommittedBatch(replica, 4, 10, place, self.answers, place)  # type: ignore[arg-type]
            for place, replica in enumerate(self.replicas)
        ]
        wait = CommitWait(self.scheduler, [("t", self.answers)], undecided, refusal, 1000)
        self.delivered: list[Any] = []
        self.pending = wait.pending
        self.pending.when_resolved(self.delivered.append)


def test_the_answer_leaves_when_the_last_batch_is_committed() -> None:
    waiting = Waiting()
    waiting.replicas[0].reach(10)
    waiting.replicas[1].reach(9)
    assert waiting.delivered == []
    waiting.replicas[1].reach(10)
    assert waiting.delivered == [[("t", [b"0:ok", b"1:ok"])]]
    assert not any(replica.commit_waits for replica in waiting.replicas)
    waiting.scheduler.advance(5000)
    assert len(waiting.delivered) == 1


def test_only_the_batch_that_is_not_committed_in_time_times_out() -> None:
    waiting = Waiting()
    waiting.replicas[1].reach(12)
    waiting.scheduler.advance(999)
    assert waiting.delivered == []
    waiting.scheduler.advance(1)
    assert waiting.answers == [f"0:{error_codes.REQUEST_TIMED_OUT}".encode(), b"1:ok"]
    assert len(waiting.delivered) == 1


@pytest.mark.parametrize("new_epoch", [None, 5])
def test_a_lost_leadership_ends_the_wait(new_epoch: int | None) -> None:
    waiting = Waiting()
    lost = waiting.replicas[0]
    lost.leader = None if new_epoch is None else FakeReplica(new_epoch).leader
    for wait in list(lost.commit_waits):
        wait.check()
    waiting.replicas[1].reach(10)
    assert waiting.answers == [f"0:{error_codes.NOT_LEADER_OR_FOLLOWER}".encode(), b"1:ok"]
    assert len(waiting.delivered) == 1


def test_a_batch_committed_by_too_few_replicas_gets_not_enough_replicas_after_append() -> None:
    waiting = Waiting()
    waiting.replicas[0].enough = False
    waiting.replicas[0].reach(10)
    waiting.replicas[1].reach(10)
    assert waiting.answers[0] == f"0:{error_codes.NOT_ENOUGH_REPLICAS_AFTER_APPEND}".encode()


def test_a_client_that_left_is_waited_for_no_more() -> None:
    waiting = Waiting()
    waiting.pending.cancel()
    assert not any(replica.commit_waits for replica in waiting.replicas)
    waiting.scheduler.advance(5000)
    assert waiting.delivered == []
