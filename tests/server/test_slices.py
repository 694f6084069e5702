"""Requests of many elements: worked on in slices, by turns, answered once, ended with their connections."""

from collections.abc import Generator, Iterator
from typing import Any

import pytest

from kpybroker.server import slices
from kpybroker.server.pending import Pending
from kpybroker.server.slices import Slices, each


class Turns:
    """Time that passes a step with every look at it, and a loop that is turned by hand."""

    def __init__(self, step_ms: float) -> None:
        self.step_ms = step_ms
        self.time_ms = 0.0
        self.soon: list[Any] = []
        self.rests_ms: list[float] = []

    def monotonic_ms(self) -> float:
        self.time_ms += self.step_ms
        return self.time_ms

    def call_soon(self, callback: Any, *arguments: Any) -> None:
        self.soon.append((callback, arguments))

    def call_later(self, delay_ms: float, callback: Any, *arguments: Any) -> None:
        self.rests_ms.append(delay_ms)
        self.soon.append((callback, arguments))

    def turn(self) -> bool:
        due, self.soon = self.soon, []
        for callback, arguments in due:
            callback(*arguments)
        return bool(due)


@pytest.fixture
def turns() -> Turns:
    return Turns(slices.SLICE_MS / 4)


def counting(count: int, seen: list[int]) -> Generator[None, None, list[int]]:
    def see(number: int) -> int:
        seen.append(number)
        return number

    return (yield from each(range(count), see))


def begin(turns: Turns, work: Iterator[Any]) -> Any:
    return Slices(turns).begin(work, lambda: None)  # type: ignore[arg-type]


def test_what_is_short_is_answered_at_once(turns: Turns) -> None:
    assert begin(turns, counting(3, [])) == [0, 1, 2]
    assert not turns.soon


def test_what_is_long_is_answered_in_later_turns(turns: Turns) -> None:
    seen: list[int] = []
    pending = begin(turns, counting(1000, seen))
    assert isinstance(pending, Pending)
    most = len(seen)
    while turns.soon:
        before = len(seen)
        turns.turn()
        assert len(seen) - before <= most, "a turn works on more than one slice"
    assert pending.response == list(range(1000))


def test_several_take_turns(turns: Turns) -> None:
    together = Slices(turns)  # type: ignore[arg-type]
    first: list[int] = []
    second: list[int] = []
    pendings = [together.begin(counting(100, seen), lambda: None) for seen in (first, second)]
    while turns.turn():
        assert abs(len(first) - len(second)) <= 8
    assert [pending.response for pending in pendings] == [list(range(100))] * 2


def test_an_answer_that_comes_later_still_is_waited_for(turns: Turns) -> None:
    inner = Pending()

    def work() -> Generator[None, None, Pending]:
        yield from each(range(100), str)
        return inner

    pending = begin(turns, work())
    while turns.turn():
        assert not pending.resolved
    inner.resolve("late")
    assert pending.response == "late"


def test_after_an_answer_that_took_long_to_write_others_get_the_loop_for_longer(turns: Turns) -> None:
    together = Slices(turns)  # type: ignore[arg-type]
    first = together.begin(counting(100, []), lambda: None)
    together.begin(counting(10_000, []), lambda: None)

    def write(_response: Any) -> None:
        turns.time_ms += 50

    first.encode_with(write)
    while not first.resolved:
        assert not turns.rests_ms
        turns.turn()
    (rest_ms,) = turns.rests_ms
    assert rest_ms > 50


def test_who_is_gone_is_not_worked_for(turns: Turns) -> None:
    seen: list[int] = []
    pending = begin(turns, counting(1000, seen))
    pending.cancel()
    done = len(seen)
    while turns.turn():
        pass
    assert len(seen) == done


def test_work_that_fails_ends_its_connection_and_nothing_else(turns: Turns, caplog: pytest.LogCaptureFixture) -> None:
    def failing() -> Generator[None, None, None]:
        yield from each(range(50), str)
        raise ValueError("a mistake of ours")

    ended: list[str] = []
    together = Slices(turns)  # type: ignore[arg-type]
    together.begin(failing(), lambda: ended.append("connection"))
    other = together.begin(counting(100, []), lambda: ended.append("other"))
    while turns.turn():
        pass
    assert ended == ["connection"]
    assert other.response == list(range(100))
    assert "a mistake of ours" in caplog.text


def test_work_that_fails_at_once_raises(turns: Turns) -> None:
    def failing() -> Generator[None, None, None]:
        yield
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="a mistake of ours"):
        begin(turns, failing())
