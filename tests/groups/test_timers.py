"""Timers that are refreshed all the time, set earlier, cancelled, and due together."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.groups.timers import GroupTimer, GroupTimers


def nothing() -> None:
    """The call that these timers make."""


def due(timers: GroupTimers, now_ms: int) -> list[GroupTimer]:
    found = []
    while (timer := timers.pop_due(now_ms)) is not None:
        found.append(timer)
    return found


def test_a_timer_that_was_moved_fires_once_and_late() -> None:
    timers, timer = GroupTimers(), GroupTimer(nothing)
    timers.set(timer, 10)
    timers.set(timer, 30)
    assert due(timers, 29) == []
    assert due(timers, 30) == [timer]
    assert due(timers, 99) == []


def test_a_timer_that_was_moved_to_earlier_fires_early() -> None:
    timers, timer = GroupTimers(), GroupTimer(nothing)
    timers.set(timer, 30)
    timers.set(timer, 10)
    assert timers.next_deadline_ms() == 10
    assert due(timers, 10) == [timer]
    assert due(timers, 99) == []


def test_timers_of_clients_that_left_long_ago_take_no_memory() -> None:
    timers = GroupTimers()
    for number in range(10_000):
        timer = GroupTimer(nothing)
        timers.set(timer, 1_800_000 + number)
        timers.cancel(timer)
    assert len(timers._heap) < 100
    assert timers.next_deadline_ms() is None


Steps = st.lists(
    st.one_of(
        st.tuples(st.just("set"), st.integers(0, 4), st.integers(1, 50)),
        st.tuples(st.just("cancel"), st.integers(0, 4), st.just(0)),
        st.tuples(st.just("wait"), st.just(0), st.integers(0, 30)),
    ),
    max_size=60,
)


@given(Steps)
def test_timers_fire_when_a_plain_table_says(steps: list[tuple[str, int, int]]) -> None:
    timers, all_timers = GroupTimers(), [GroupTimer(nothing) for _ in range(5)]
    deadlines: dict[GroupTimer, int] = {}
    now_ms = 0
    for kind, number, amount in steps:
        timer = all_timers[number]
        if kind == "set":
            timers.set(timer, now_ms + amount)
            deadlines[timer] = now_ms + amount
        elif kind == "cancel":
            timers.cancel(timer)
            deadlines.pop(timer, None)
        else:
            now_ms += amount
            fired = due(timers, now_ms)
            expected = {timer for timer, deadline_ms in deadlines.items() if deadline_ms <= now_ms}
            assert set(fired) == expected
            assert [deadlines[each] for each in fired] == sorted(deadlines[each] for each in fired)
            for each in expected:
                del deadlines[each]
        assert len(timers) == len(deadlines)
        next_ms = timers.next_deadline_ms()
        assert (next_ms is None) == (not deadlines)
        assert next_ms is None or next_ms <= min(deadlines.values())
