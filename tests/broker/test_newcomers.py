"""Clients that asked where the brokers are and never came back."""

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.requests.dispatching.newcomers import (
    MOST_LOOKING,
    MOST_SETTLED,
    SUSPECT_AFTER_MS,
    ClientIdentity,
    Newcomers,
)

LOST = ClientIdentity("10.0.0.9", "lost", "PLAINTEXT")


def looks(newcomers: Newcomers, client: ClientIdentity, now_ms: float, *, only_looks: bool = True) -> None:
    newcomers.seen(*client, only_looks=only_looks, now_ms=now_ms)


def test_a_client_that_stays_and_only_looks_is_suspect_after_a_while() -> None:
    newcomers = Newcomers()
    looks(newcomers, LOST, 0)
    assert newcomers.suspects([LOST], SUSPECT_AFTER_MS - 1) == {}
    assert newcomers.suspects([LOST], SUSPECT_AFTER_MS) == {LOST: SUSPECT_AFTER_MS}


def test_a_client_that_keeps_coming_by_the_same_door_is_suspect_too() -> None:
    newcomers = Newcomers()
    for second in range(12):
        looks(newcomers, LOST, second * 1000)
    assert newcomers.suspects([], 60_000) == {LOST: 11_000}


def test_a_tool_that_looked_and_left_is_not() -> None:
    newcomers = Newcomers()
    looks(newcomers, LOST, 0)
    assert newcomers.suspects([], 3_600_000) == {}


def test_a_client_that_does_anything_else_is_forgotten_for_good() -> None:
    newcomers = Newcomers()
    looks(newcomers, LOST, 0)
    looks(newcomers, LOST, 500, only_looks=False)
    looks(newcomers, LOST, 600)
    assert newcomers.suspects([LOST], 3_600_000) == {}


@given(st.lists(st.tuples(st.integers(0, 5000), st.booleans()), max_size=50))
def test_however_many_clients_come_the_memory_is_bounded(visits: list[tuple[int, bool]]) -> None:
    newcomers = Newcomers()
    for first, only_looks in visits:
        for number in range(first, first + 200):
            looks(newcomers, ClientIdentity(f"10.0.0.{number}", "x" * 5000, "L"), 0, only_looks=only_looks)
    assert len(newcomers.looking) <= MOST_LOOKING
    assert len(newcomers._settled) <= MOST_SETTLED
    assert all(len(client.client_id) <= 100 for client in newcomers.looking)
