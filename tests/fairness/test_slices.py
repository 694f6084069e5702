"""Requests of many elements: worked on in pieces, by turns, answered once, ended with their connections."""

from collections.abc import Callable, Generator

import pytest

from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import GivenUp, Work, each
from kpybroker.runtime.fairness.line import Line
from kpybroker.runtime.fairness.slices import Slices
from kpybroker.runtime.fairness.times import CROWDED_NS, LONG_NS, SLICE_NS, WORK_BYTES
from kpybroker.runtime.fairness.trait import Trait

SOME_KIND = Trait()


MOST_TURNS = 10_000


class Turns:
    """Time that passes a step with every look at it, and a loop that is turned by hand."""

    def __init__(self, step_ns: int) -> None:
        self.step_ns = step_ns
        self.time_ns = 0
        self.soon: list[Callable[[], object]] = []
        self.slices = Slices(Line(self, lambda: 0, lambda: 0, self.now_ns), self.now_ns, self.now_ns)  # type: ignore[arg-type]

    def finish(self) -> None:
        """Turn until nothing is due any more."""
        for _ in range(MOST_TURNS):
            if not self.turn():
                return
        raise AssertionError(f"something is due after {MOST_TURNS} turns")

    def now_ns(self) -> int:
        self.time_ns += self.step_ns
        return self.time_ns

    def call_soon(self, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def call_later(self, _delay_ms: float, callback: Callable[[], object]) -> None:
        self.soon.append(callback)

    def turn(self) -> bool:
        due, self.soon = self.soon, []
        for callback in due:
            callback()
        return bool(due)


class Client:
    def __init__(self) -> None:
        self.closed = False
        self.owed_ns = 0
        self.long_ns: list[int] = []
        self.errors: list[Exception] = []
        self.resumed = self.waited = 0
        self.is_admitted = False

    def wait_for_time(self) -> None:
        self.waited += 1

    def costs(self, took_ns: int, *, is_long: bool) -> None:
        assert is_long
        self.long_ns.append(took_ns)

    def end_with(self, error: Exception) -> None:
        self.errors.append(error)

    def resume_soon(self) -> None:
        self.resumed += 1


@pytest.fixture
def turns() -> Turns:
    return Turns(SLICE_NS // 4)


def counting(count: int, seen: list[int]) -> Generator[None, None, list[int]]:
    def see(number: int) -> int:
        seen.append(number)
        return number

    return (yield from each(range(count), see))


def test_short_requests_are_answered_at_once(turns: Turns) -> None:
    assert turns.slices.begin(counting(3, []), Client()) == [0, 1, 2]
    assert not turns.soon


def test_long_requests_are_answered_in_later_turns(turns: Turns) -> None:
    seen: list[int] = []
    pending = turns.slices.begin(counting(1000, seen), Client())
    assert isinstance(pending, Pending)
    most = len(seen)
    while turns.soon:
        before = len(seen)
        turns.turn()
        assert len(seen) - before <= most, "a turn works on more than one piece"
    assert pending.response == list(range(1000))


def test_the_first_piece_is_brief_with_many_connections() -> None:
    """Each of those who are served in one turn waits for the first pieces of all before it."""
    crowd = [True]
    turns = Turns(CROWDED_NS // 2)
    turns.slices = Slices(
        Line(turns, lambda: 0, lambda: 0, turns.now_ns),  # type: ignore[arg-type]
        turns.now_ns,
        turns.now_ns,
        is_crowded=lambda: crowd[0],
    )
    first: list[int] = []
    pending = turns.slices.begin(counting(100, first), Client())
    crowd[0] = False
    second: list[int] = []
    turns.slices.begin(counting(100, second), Client())
    assert 0 < len(first) <= 2 < len(second)
    turns.finish()
    assert pending.response == list(range(100))


def test_several_take_turns(turns: Turns) -> None:
    first: list[int] = []
    second: list[int] = []
    pendings = [turns.slices.begin(counting(100, seen), Client()) for seen in (first, second)]
    while turns.turn():
        assert abs(len(first) - len(second)) <= 8
    assert [pending.response for pending in pendings] == [list(range(100))] * 2


def waiting_for(inner: Pending) -> Work:
    value = yield inner
    return f"answered {value}"


def test_work_goes_on_with_what_it_waited_for(turns: Turns) -> None:
    inner = Pending()
    pending = turns.slices.begin(waiting_for(inner), Client())
    while turns.turn():
        assert not pending.resolved
    inner.resolve("late")
    turns.finish()
    assert pending.response == "answered late"


def test_an_answer_that_comes_later_still_is_waited_for(turns: Turns) -> None:
    inner = Pending()

    def work() -> Generator[None, None, Pending]:
        yield from each(range(100), str)
        return inner

    pending = turns.slices.begin(work(), Client())
    while turns.turn():
        assert not pending.resolved
    inner.resolve("late")
    assert pending.response == "late"


def test_cancelled_work_cancels_what_it_waits_for(turns: Turns) -> None:
    forgotten: list[bool] = []
    inner = Pending()
    inner.when_cancelled(lambda: forgotten.append(True))
    turns.slices.begin(waiting_for(inner), Client()).cancel()
    assert forgotten == [True]


def test_requests_of_closed_connections_are_dropped(turns: Turns) -> None:
    seen: list[int] = []
    pending = turns.slices.begin(counting(1000, seen), Client())
    pending.cancel()
    done = len(seen)
    turns.finish()
    assert len(seen) == done


@pytest.mark.parametrize("waits", [False, True])
def test_abandoned_work_frees_its_memory_in_steps(turns: Turns, waits: bool) -> None:
    held = list(range(100))

    def work() -> Work:
        try:
            yield Pending() if waits else None
            while True:
                yield None
        except GivenUp:
            while held:
                held.pop()
                yield None
            raise

    pending = turns.slices.begin(work(), Client())
    turns.turn()
    pending.cancel()
    turns.turn()
    assert 0 < len(held) < 100
    turns.finish()
    assert held == []


def test_work_that_fails_ends_its_connection_and_nothing_else(turns: Turns) -> None:
    def failing() -> Generator[None, None, None]:
        yield from each(range(50), str)
        raise ValueError("a mistake of ours")

    failed, honest = Client(), Client()
    turns.slices.begin(failing(), failed)
    other = turns.slices.begin(counting(100, []), honest)
    turns.finish()
    assert [str(error) for error in failed.errors] == ["a mistake of ours"]
    assert not honest.errors
    assert other.response == list(range(100))


def test_work_that_fails_at_once_raises(turns: Turns) -> None:
    def failing() -> Generator[None, None, None]:
        yield
        raise ValueError("a mistake of ours")

    with pytest.raises(ValueError, match="a mistake of ours"):
        turns.slices.begin(failing(), Client())


def test_a_step_that_takes_long_is_charged_to_its_client(turns: Turns) -> None:
    def slow() -> Generator[None, None, None]:
        yield from each(range(50), str)
        turns.time_ns += 10 * LONG_NS
        yield

    client = Client()
    turns.slices.begin(slow(), client)
    turns.finish()
    assert len(client.long_ns) == 1
    assert client.long_ns[0] > 10 * LONG_NS


def test_large_requests_begin_when_there_is_room_the_smallest_first(turns: Turns) -> None:
    slices = turns.slices
    assert slices.may_begin(Client(), 2 * WORK_BYTES), "one may always begin"
    pending = slices.begin(counting(100, []), Client(), 2 * WORK_BYTES)
    large, small, gone = Client(), Client(), Client()
    gone.closed = True
    assert not slices.may_begin(large, WORK_BYTES // 2)
    assert not slices.may_begin(small, 10)
    assert not slices.may_begin(gone, 1)
    resumed_at: dict[str, int] = {}
    for turn in range(1000):
        turns.turn()
        for name, client in (("large", large), ("small", small)):
            if client.resumed:
                resumed_at.setdefault(name, turn)
        if not pending.resolved:
            assert not resumed_at
    assert (large.resumed, small.resumed, gone.resumed) == (1, 1, 0)
    assert resumed_at["small"] <= resumed_at["large"]
    assert slices.may_begin(large, WORK_BYTES)


def test_waiting_work_does_not_stop_other_requests_from_starting(turns: Turns) -> None:
    inner = Pending()
    turns.slices.begin(waiting_for(inner), Client(), WORK_BYTES)
    assert turns.slices.may_begin(Client(), WORK_BYTES)


def test_work_that_is_cancelled_makes_room(turns: Turns) -> None:
    pending = turns.slices.begin(counting(1000, []), Client(), WORK_BYTES)
    assert not turns.slices.may_begin(Client(), 1)
    pending.cancel()
    assert turns.slices.may_begin(Client(), 1)


def test_a_kind_of_large_requests_is_long_while_its_last_had_a_long_step(turns: Turns) -> None:
    def work(step_ns: int) -> Generator[None, None, None]:
        yield from each(range(50), str)
        turns.time_ns += step_ns
        yield

    for step_ns, is_long in ((0, False), (10 * LONG_NS, True), (0, False)):
        turns.slices.begin(work(step_ns), Client(), 10, SOME_KIND)
        turns.slices.begin(work(10 * LONG_NS), Client())
        turns.finish()
        assert set(turns.slices.long_kinds) == ({SOME_KIND} if is_long else set())


def test_a_long_step_is_charged_once(turns: Turns) -> None:
    def work() -> Generator[None, None, None]:
        yield from each(range(50), str)
        turns.time_ns += 10 * LONG_NS
        yield

    first, second = Client(), Client()
    for client in (first, second):
        turns.slices.begin(work(), client, 10, SOME_KIND)
        turns.finish()
    assert (len(first.long_ns), len(second.long_ns)) == (1, 0)


def test_a_kind_that_takes_long_begins_when_there_is_time(turns: Turns) -> None:
    turns.slices.long_kinds[SOME_KIND] = 10 * LONG_NS
    client = Client()
    assert not turns.slices.may_begin(client, 10, SOME_KIND)
    assert client.waited == 1
    assert turns.slices.may_begin(client, 10, Trait()), "others of its requests may begin"
    client.is_admitted = True
    assert turns.slices.may_begin(client, 10, SOME_KIND)
    assert not client.is_admitted, "it waits again before the next"
