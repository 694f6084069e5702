"""The poller's notes for the queue of expensive work: which turn was the last that served a connection at once."""

from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kpybroker.requests.server.poller import READABLE, EpollPoller
from kpybroker.runtime.fairness.turn import NoWrites, Turn

AT_ONCE, LINED_UP, DISCOUNTED, COUNTED_AND_LINED_UP = "at once", "lined up", "discounted", "counted and lined up"


class Loop:
    """A loop without turns of its own, and the epoll that it watches."""

    def __init__(self) -> None:
        self.ready: list[tuple[int, int]] = []

    def fileno(self) -> int:
        return 3

    def add_reader(self, _descriptor: int, _ready: Callable[[], object]) -> None: ...

    def register(self, _descriptor: int, _events: int) -> None: ...

    def poll(self, _timeout: int, _most: int) -> list[tuple[int, int]]:
        return self.ready


@given(st.lists(st.lists(st.sampled_from([AT_ONCE, LINED_UP, DISCOUNTED, COUNTED_AND_LINED_UP]), min_size=1)))
def test_only_turns_that_serve_a_connection_at_once_are_noted(turns: list[list[str]]) -> None:
    loop: Any = Loop()
    poller = EpollPoller(loop, lambda: 0.0, Turn(NoWrites()), loop)
    kinds: list[str] = []

    def on_event(_events: int) -> None:
        kind = kinds.pop()
        if kind == DISCOUNTED:
            poller.discount()
        elif kind != AT_ONCE:
            poller.lined_up += 1
        if kind == COUNTED_AND_LINED_UP:  # its channel had more than the socket showed
            poller.count()
            poller.lined_up += 1

    expected_ns = poller.served_ns
    for number, turn in enumerate(turns):
        for descriptor in range(len(turn)):
            poller.add(descriptor, on_event)
        kinds, loop.ready = list(turn), [(descriptor, READABLE) for descriptor in range(len(turn))]
        poller._ready()
        if AT_ONCE in turn:
            expected_ns = poller.turn_ns
        if number % 2:  # asked now, or not before a later turn
            assert poller.served_ns == expected_ns
    assert poller.served_ns == expected_ns


def test_a_connection_is_alone_only_while_the_poller_serves_nothing_else() -> None:
    loop: Any = Loop()
    poller = EpollPoller(loop, lambda: 0.0, Turn(NoWrites()), loop)
    seen: list[bool] = []
    for descriptor in range(5):
        poller.add(descriptor, lambda _events: seen.append(poller.is_alone))
    for count in (1, 2, 5):
        loop.ready = [(descriptor, READABLE) for descriptor in range(count)]
        poller._ready()
        assert not poller.is_alone
    poller.look()
    assert seen == [True, *[False] * 7, *[False] * 5]
