"""A time limit that is the same for all: each one that is not done is called in its time, by one timer for all."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.requests.server.time_limit import TimeLimit
from kpybroker.runtime.io.scheduler import ManualScheduler

LIMIT_MS = 100


def waiting(scheduler: ManualScheduler) -> int:
    """The number of timers that wait."""
    return len(scheduler._timers)


@given(st.lists(st.tuples(st.integers(0, 60), st.none() | st.integers(0, 150)), max_size=12))
def test_unfinished_requests_are_called_at_their_time_limit(those: list[tuple[int, int | None]]) -> None:
    """Each one begins some time after the one before, and is done some time later, or never."""
    scheduler = ManualScheduler()
    called: list[tuple[int, float]] = []
    limit: TimeLimit[int] = TimeLimit(LIMIT_MS, lambda one: called.append((one, scheduler.monotonic_ms())))
    expected, began_ms = [], 0
    for one, (pause_ms, takes_ms) in enumerate(those):
        began_ms += pause_ms
        scheduler.call_later(began_ms, limit.begin, one, scheduler)
        if takes_ms is not None:
            scheduler.call_later(began_ms + takes_ms, limit.end, one)
        if takes_ms is None or takes_ms > LIMIT_MS:
            expected.append((one, began_ms + LIMIT_MS))
        elif takes_ms == LIMIT_MS:
            scheduler.call_later(began_ms + takes_ms - 1, limit.end, one)
    scheduler.advance(began_ms + 10 * LIMIT_MS)
    assert called == expected
    assert waiting(scheduler) == 0


def test_there_is_one_timer_for_all() -> None:
    scheduler = ManualScheduler()
    limit: TimeLimit[int] = TimeLimit(LIMIT_MS, lambda _one: None)
    for one in range(50):
        limit.begin(one, scheduler)
        scheduler.advance(1)
        assert waiting(scheduler) == 1
    for one in range(50):
        limit.end(one)
    limit.end(7)
    scheduler.advance(LIMIT_MS)
    assert waiting(scheduler) == 0


def test_a_timer_restarted_in_its_callback_gets_its_full_time() -> None:
    scheduler = ManualScheduler()
    called: list[float] = []

    def again(one: int) -> None:
        called.append(scheduler.monotonic_ms())
        if len(called) < 3:
            limit.begin(one, scheduler)

    limit: TimeLimit[int] = TimeLimit(LIMIT_MS, again)
    limit.begin(1, scheduler)
    scheduler.advance(10 * LIMIT_MS)
    assert called == [LIMIT_MS, 2 * LIMIT_MS, 3 * LIMIT_MS]
