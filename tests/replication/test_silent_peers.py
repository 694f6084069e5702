"""A broker looks at those that it follows and at those that follow it, and reports at once who is silent."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from kpybroker.hosts.replicas.replicas import FollowerFetch
from kpybroker.hosts.replicas.silent_peers import SilentPeers
from kpybroker.machines.reporting_heartbeat import SilentBroker
from kpybroker.machines.silence import LOOK_MS
from kpybroker.runtime.io.scheduler import ManualScheduler

WAIT_MS = 500


class Watching:
    """A broker with connections to leaders, and fetches of followers."""

    def __init__(self) -> None:
        self.scheduler = ManualScheduler()
        self.feeds: list[Any] = []
        self.fetches: dict[int, FollowerFetch] = {}
        self.reported: list[list[tuple[int, bool]]] = []
        self.silent: Callable[[], list[SilentBroker]] = list
        self.peers = SilentPeers(self.scheduler, self.feeds, self.fetches, lambda: WAIT_MS, self)

    def report_silent(self, silent_peers: Callable[[], list[SilentBroker]]) -> None:
        self.silent = silent_peers

    def report(self) -> None:
        self.reported.append([(each.broker_id, each.is_unanswered) for each in self.silent()])

    def feed(self, leader_id: int) -> Any:
        """A connection to a leader whose request was sent now."""
        now_ms = self.scheduler.monotonic_ms()
        feed = SimpleNamespace(leader_id=leader_id, answered_ms=-1.0, unanswered_since_ms=now_ms)
        self.feeds.append(feed)
        return feed

    def pass_time(self, duration_ms: float) -> None:
        for _ in range(int(duration_ms // LOOK_MS)):
            self.scheduler.advance(LOOK_MS)


def test_a_leader_that_does_not_answer_is_reported_once() -> None:
    watching = Watching()
    watching.feed(2)
    watching.pass_time(5_000)
    assert watching.reported == [[(2, True)]]


def test_a_leader_that_answers_on_another_connection_is_not_silent() -> None:
    watching = Watching()
    watching.feed(2)
    other = watching.feed(2)
    for _ in range(10):
        watching.pass_time(500)
        other.answered_ms = other.unanswered_since_ms = watching.scheduler.monotonic_ms()
    assert watching.reported == []


def test_a_leader_of_which_nothing_is_asked_is_not_silent() -> None:
    watching = Watching()
    watching.feed(2).unanswered_since_ms = -1.0
    watching.pass_time(5_000)
    assert watching.reported == []


def test_a_follower_that_does_not_fetch_any_more_is_reported_and_its_return_too() -> None:
    watching = Watching()
    watching.fetches[3] = FollowerFetch(watching.scheduler.monotonic_ms(), WAIT_MS)
    watching.pass_time(2_000)
    watching.fetches[3] = FollowerFetch(watching.scheduler.monotonic_ms(), WAIT_MS)
    watching.pass_time(LOOK_MS)
    assert watching.reported == [[(3, False)], []]


def test_nothing_is_looked_at_after_the_end() -> None:
    watching = Watching()
    watching.feed(2)
    watching.peers.close()
    watching.pass_time(5_000)
    assert watching.reported == []
