"""The throttle follows what clients feel: it rises, is halved, and is doubled when nothing moves."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.machines.balance.pace import MIB, STALLED_MS, Feeling, MovePace, ThrottleRange

SETTINGS = ThrottleRange(first=10 * MIB, least=MIB, most=100 * MIB)


def pace(latency_ms: float | None = 5.0, short: int | None = 0) -> MovePace:
    made = MovePace(SETTINGS)
    made.before(Feeling(latency_ms, short))
    return made


def test_it_rises_to_the_most_while_no_client_feels_it() -> None:
    made = pace()
    rates = [made.look(Feeling(6.0, 0, 1000 - second), second * 1000.0) for second in range(30)]
    assert rates[0] == int(12.5 * MIB)
    assert [each for each in rates if each is not None][-1] == 100 * MIB
    assert rates[-1] is None


def test_it_is_halved_down_to_the_least_while_requests_take_long() -> None:
    made = pace()
    rates = [made.look(Feeling(40.0, 0, 1000 - second), second * 1000.0) for second in range(8)]
    assert rates[0] == 5 * MIB
    assert made.rate == MIB
    assert made.is_felt


def test_a_lost_replica_of_another_partition_halves_it_and_its_return_lets_it_rise() -> None:
    made = pace(short=2)
    assert made.look(Feeling(5.0, 3, 500), 0.0) == 5 * MIB
    assert made.is_felt
    assert made.look(Feeling(5.0, 2, 400), 1000.0) == int(6.25 * MIB)
    assert not made.is_felt


def test_a_short_delay_is_noise() -> None:
    made = pace(latency_ms=0.5)
    made.look(Feeling(9.0, 0, 10), 0.0)
    assert not made.is_felt


def test_it_is_doubled_when_nothing_was_copied_for_long_even_if_requests_are_slow() -> None:
    made = pace()
    made.look(Feeling(50.0, 0, 1000), 0.0)
    slow = made.rate
    assert made.look(Feeling(50.0, 0, 1000), STALLED_MS) == int(slow * 2)
    assert made.look(Feeling(50.0, 0, 1000), STALLED_MS + 1000) == int(slow)


def test_what_is_unknown_holds_nothing_back() -> None:
    made = pace(latency_ms=None, short=None)
    made.look(Feeling(1000.0, 50, None), 0.0)
    assert not made.is_felt


@given(
    st.lists(st.tuples(st.none() | st.floats(0, 1e6), st.none() | st.integers(0, 9), st.integers(0, 9)), max_size=60)
)
def test_it_stays_within_its_bounds(feelings: list[tuple[float | None, int | None, int]]) -> None:
    made = pace()
    for second, each in enumerate(feelings):
        rate = made.look(Feeling(*each), second * 1000.0)
        assert rate is None or SETTINGS.least <= rate <= SETTINGS.most
