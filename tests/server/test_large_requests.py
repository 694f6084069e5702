"""Large requests: served as they come while there is time for them, and by turns when a flood has used it up."""

from kpybroker.io.scheduler import ManualScheduler
from kpybroker.server.large_requests import FREE_MS, SAVED_MS, SHARE, LargeRequests


def busy(scheduler: ManualScheduler) -> LargeRequests:
    """Of a server that others want to be served by all the time."""
    return LargeRequests(scheduler, lambda: int(scheduler.monotonic_ms()))


class Client:
    """Asks again when it is told to, and counts when it was let in."""

    def __init__(self, large: LargeRequests, size: int, scheduler: ManualScheduler) -> None:
        self.large, self.size, self.scheduler = large, size, scheduler
        self.closed = self.is_light = False
        self.let_in_ms: list[float] = []
        self.held_ms = 0.0

    def ask(self) -> bool:
        if not self.large.may_start(self, self.size):
            return False
        self.scheduler.run()
        self.let_in_ms.append(self.scheduler.monotonic_ms())
        self.large.took(self, self.held_ms)
        return True

    resume = ask


def used_up(scheduler: ManualScheduler) -> LargeRequests:
    large = busy(scheduler)
    large.took(Client(large, 0, scheduler), SAVED_MS + FREE_MS + 100)
    return large


def test_an_administrators_requests_are_served_as_they_come() -> None:
    scheduler = ManualScheduler()
    client = Client(busy(scheduler), 100_000, scheduler)
    client.held_ms = 300.0
    for _ in range(30):
        assert client.ask()
        scheduler.advance(500)


def test_while_nobody_else_is_there_nobody_waits_for_long() -> None:
    scheduler = ManualScheduler()
    large = LargeRequests(scheduler, lambda: 0)
    client = Client(large, 100_000, scheduler)
    client.held_ms = 500.0
    for number in range(1, 50):
        client.ask()
        scheduler.advance(30)
        assert len(client.let_in_ms) == number


def test_a_turn_of_the_loop_serves_one() -> None:
    scheduler = ManualScheduler()
    large = busy(scheduler)
    first, second = Client(large, 10_000, scheduler), Client(large, 10_000, scheduler)
    assert large.may_start(first, 10_000)
    assert not large.may_start(second, 10_000)
    scheduler.advance(1)
    assert len(second.let_in_ms) == 1


def test_a_pause_fills_the_account() -> None:
    scheduler = ManualScheduler()
    large = used_up(scheduler)
    client = Client(large, 100_000, scheduler)
    scheduler.advance(1_000)
    client.held_ms = 500.0
    assert client.ask()


def test_what_takes_a_moment_is_never_charged() -> None:
    scheduler = ManualScheduler()
    client = Client(busy(scheduler), 30_000, scheduler)
    client.held_ms = FREE_MS
    assert all(client.ask() for _ in range(100_000))


def test_a_flood_gets_its_share_of_the_time_and_no_more() -> None:
    scheduler = ManualScheduler()
    large = used_up(scheduler)
    clients = [Client(large, 100_000, scheduler) for _ in range(200)]
    for client in clients:
        client.held_ms = FREE_MS + 100
        assert not client.ask()
        assert not client.ask(), "asking twice changes nothing"
    scheduler.advance(40_000)
    served = sum(len(client.let_in_ms) for client in clients)
    assert abs(served - 40_000 * SHARE / 100) <= 2
    assert all(len(client.let_in_ms) <= 1 for client in clients)


def test_who_takes_no_time_never_waits_until_he_does() -> None:
    scheduler = ManualScheduler()
    large = busy(scheduler)
    consumer = Client(large, 5_000, scheduler)
    consumer.held_ms = FREE_MS
    assert consumer.ask()
    large.took(Client(large, 0, scheduler), SAVED_MS + 100)
    assert consumer.ask()
    consumer.held_ms = FREE_MS + 1
    assert consumer.ask()
    assert not consumer.ask()


def test_the_smallest_goes_first() -> None:
    scheduler = ManualScheduler()
    large = used_up(scheduler)
    clients = [Client(large, size, scheduler) for size in (90_000, 10_000, 50_000)]
    for client in clients:
        client.held_ms = FREE_MS + 10
        client.ask()
    scheduler.advance(10_000)
    assert [client.size for client in sorted(clients, key=lambda client: client.let_in_ms[0])] == [
        10_000, 50_000, 90_000,
    ]  # fmt: skip


def test_who_is_gone_costs_nobody_a_turn() -> None:
    scheduler = ManualScheduler()
    large = used_up(scheduler)
    gone, patient = Client(large, 10_000, scheduler), Client(large, 20_000, scheduler)
    gone.ask()
    patient.ask()
    gone.closed = True
    scheduler.advance(10_000)
    assert (len(gone.let_in_ms), len(patient.let_in_ms)) == (0, 1)


def test_a_turn_that_is_not_taken_goes_to_the_next() -> None:
    scheduler = ManualScheduler()
    large = used_up(scheduler)
    busy, patient = Client(large, 10_000, scheduler), Client(large, 20_000, scheduler)
    busy.ask()
    patient.ask()
    busy.resume = lambda: False  # type: ignore[method-assign]
    scheduler.advance(10_000)
    assert len(patient.let_in_ms) == 1
    assert busy.ask(), "and it may ask again"
