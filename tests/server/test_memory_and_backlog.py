"""The memory of requests: who gets it, who waits for it, who gives it back, and which clients are given up."""

from collections.abc import Callable
from typing import Any

from kpybroker.requests.server.backlog import Backlog, HeldResources
from kpybroker.requests.server.listener import FIRST_REUSED_BYTES, Server
from kpybroker.requests.server.memory import MemoryBudget


class Asking:
    """A budget of 100 bytes, and a record of who was asked to try again."""

    def __init__(self, limit_bytes: int = 100) -> None:
        self.later: list[Callable[[], object]] = []
        self.resumed: list[str] = []
        self.pressed = 0
        self.budget = MemoryBudget(limit_bytes, self.later.append, self._press)

    def _press(self) -> None:
        self.pressed += 1

    def grow(self, owner: str, total_bytes: int) -> bool:
        return self.budget.grow(owner, total_bytes, lambda: self.resumed.append(owner))

    def run(self) -> list[str]:
        """The connections that are resumed now."""
        while self.later:
            self.later.pop(0)()
        resumed, self.resumed = self.resumed, []
        return resumed


def test_without_a_limit_no_request_waits() -> None:
    asking = Asking(-1)
    assert all(asking.grow(f"owner {number}", 1 << 40) for number in range(10))
    assert not asking.budget.is_short


def test_a_request_that_does_not_fit_waits_for_free_memory() -> None:
    asking = Asking()
    assert asking.grow("first", 60)
    assert asking.grow("second", 40)
    assert not asking.grow("third", 10)
    assert asking.budget.is_short
    assert asking.pressed == 1
    asking.budget.release("second")
    assert asking.run() == ["third"]
    assert not asking.budget.is_short
    assert asking.grow("third", 10)
    assert asking.budget.used_bytes == 70


def test_the_oldest_may_always_go_on() -> None:
    asking = Asking()
    assert asking.grow("first", 90)
    assert not asking.grow("second", 20)
    assert asking.grow("first", 500)
    asking.budget.release("first")
    assert asking.run() == ["second"]
    assert asking.grow("second", 300), "nobody is older now"


def test_waiting_requests_resume_in_order_as_far_as_they_fit() -> None:
    asking = Asking()
    assert asking.grow("first", 50)
    assert asking.grow("second", 50)
    for owner in ("third", "fourth", "fifth"):
        assert not asking.grow(owner, 25)
    asking.budget.release("second")
    assert asking.run() == ["third", "fourth"]
    asking.budget.release("fifth")
    asking.budget.release("first")
    assert asking.run() == []


def test_an_oldest_one_that_waits_is_resumed_whatever_it_wants() -> None:
    asking = Asking()
    assert asking.grow("first", 50)
    assert asking.grow("second", 50)
    assert not asking.grow("second", 900)
    asking.budget.release("first")
    assert asking.run() == ["second"]
    assert asking.grow("second", 900)


def test_a_thousand_that_wait_are_resumed_without_one_calling_the_other() -> None:
    asking = Asking()
    assert asking.grow("first", 100)
    budget = asking.budget
    resumed = []

    def resume(owner: int) -> None:
        resumed.append(owner)
        assert budget.grow(owner, 100, lambda: resume(owner))
        budget.release(owner)

    for owner in range(5_000):
        assert not budget.grow(owner, 100, lambda owner=owner: resume(owner))  # type: ignore[misc]
    budget.release("first")
    asking.run()
    assert resumed == list(range(5_000))
    assert budget.used_bytes == 0


def test_owners_are_holders_and_waiting_requests() -> None:
    asking = Asking()
    assert asking.grow("holds", 100)
    assert not asking.grow("waits", 1)
    assert asking.budget.owners() == ["holds", "waits"]


class Client:
    """A connection that can be given up."""

    def __init__(self, backlog: Backlog, last_active_ms: float) -> None:
        self.backlog = backlog
        self.last_active_ms = last_active_ms
        self.given_up = False

    def give_up(self, _reason: str) -> None:
        self.given_up = True
        self.backlog.release(self)


def test_the_slowest_readers_are_given_up_first_and_only_as_many_as_needed() -> None:
    backlog = Backlog(HeldResources(100, 10))
    clients = [Client(backlog, last_active_ms) for last_active_ms in (5, 1, 3, 4)]
    for client in clients[:3]:
        backlog.hold(client, HeldResources(33, 3))
    assert not any(client.given_up for client in clients)
    backlog.hold(clients[3], HeldResources(33, 0))
    assert [client.given_up for client in clients] == [False, True, False, False]
    backlog.hold(clients[3], HeldResources(1, 5))
    assert [client.given_up for client in clients] == [False, True, True, False]
    assert (backlog.size_bytes, backlog.files) == (34, 8)


def test_one_reader_alone_may_take_what_it_needs() -> None:
    backlog = Backlog(HeldResources(100, 10))
    client = Client(backlog, 1)
    backlog.hold(client, HeldResources(1000, 1))
    assert not client.given_up
    backlog.release(client)
    assert (backlog.size_bytes, backlog.files) == (0, 0)


def test_a_buffer_that_somebody_looks_at_is_not_used_again(start_server: Callable[..., Any]) -> None:
    server: Server = start_server(lambda _connection, _frame: None).server
    size = 2 * FIRST_REUSED_BYTES
    free, watched = bytearray(size), bytearray(size)
    view = memoryview(watched)[10:20]
    server.recycle(watched)
    server.recycle(free)
    assert server.spare_body(size) is free
    assert server.spare_body(size) is None
    assert bytes(view) == bytes(10)
