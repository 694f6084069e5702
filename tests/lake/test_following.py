"""The loop of a writer that follows a topic: how long records wait for their commit."""

from threading import Event
from typing import Any

import pytest

from kpybroker.machines.lake.coverage import Lane
from kpybroker.machines.lake.planning import CommitLimits, is_due, pending
from kpybroker.pipeline.lake import following

WRITE_S = 2.0
ROWS_PER_S = 10


class Clock:
    """A clock that is moved by what takes time."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


class GrowingTopic:
    """A topic to which a record comes every tenth of a second."""

    name = "t"

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def find(self) -> str:
        return "id"

    def ends(self) -> dict[int, int]:
        return {0: int((self._clock.now_s - 100.0) * ROWS_PER_S)}


class SlowWriter:
    """A writer whose commits take two seconds. It notes the age of the oldest record of each."""

    def __init__(self, clock: Clock, stop: Event) -> None:
        self._clock, self._stop = clock, stop
        self.coverage = {0: (Lane(0, 0),)}
        self.ages_s: list[float] = []

    def require_log(self, ends: dict[int, int]) -> list[str]:  # noqa: ARG002
        return []

    def pending(self, ends: dict[int, int]) -> Any:
        return pending(self.coverage, ends)

    def is_due(self, waiting: Any, waited_ms: int) -> bool:
        return is_due(waiting, CommitLimits(age_ms=3_000), 1.0, waited_ms)

    def write(self, ends: dict[int, int]) -> str:
        oldest_s = 100.0 + self.coverage[0][0].end / ROWS_PER_S
        self._clock.now_s += WRITE_S
        self.coverage = {0: (Lane(0, ends[0]),)}
        self.ages_s.append(self._clock.now_s - oldest_s)
        if len(self.ages_s) == 5:
            self._stop.set()
        return "committed"


class Waiting(Event):
    """An event whose waiting moves the clock."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        self._clock.now_s += timeout or 0.0
        return self.is_set()


def test_records_wait_no_longer_because_a_commit_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(following, "time", clock)
    stop = Waiting(clock)
    writer: Any = SlowWriter(clock, stop)
    topic: Any = GrowingTopic(clock)
    assert list(following.follow(writer, topic, "id", stop, print)) == ["committed"] * 5
    first, *later = writer.ages_s
    assert first <= 3.0 + WRITE_S + following.POLL_S
    assert max(later) <= 2 * WRITE_S + 2 * following.POLL_S
