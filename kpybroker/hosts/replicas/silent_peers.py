"""The looks of a broker at those that it follows and at those that follow it, and the reports of the silent ones.

`kpybroker.machines.silence` decides which ones are silent. A report travels with the next heartbeat, which is sent at
once. Not here: what the controller makes of it (`kpybroker.machines.controller.suspicion`).
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kpybroker.hosts.replicas.feed import Feed
from kpybroker.hosts.replicas.replicas import FollowerFetch
from kpybroker.machines.silence import LOOK_MS, Awaited, Silence

if TYPE_CHECKING:
    from collections.abc import Callable

    from kpybroker.machines.reporting_heartbeat import SilentBroker
    from kpybroker.runtime.io.scheduler import Scheduler, Timer


class Reporting(Protocol):
    """The registration of this broker, whose heartbeats carry the reports."""

    def report_silent(self, silent_peers: "Callable[[], list[SilentBroker]]") -> None: ...

    def report(self) -> None: ...


class SilentPeers:
    """The silent peers of one broker."""

    def __init__(
        self,
        scheduler: "Scheduler",
        feeds: Iterable[Feed],
        follower_fetches: Mapping[int, FollowerFetch],
        longest_wait_ms: "Callable[[], int]",
        registered: Reporting,
    ) -> None:
        """``feeds`` are the connections to leaders now, where a fetch may wait for ``longest_wait_ms``."""
        self._scheduler = scheduler
        self._feeds = feeds
        self._follower_fetches = follower_fetches
        self._longest_wait_ms = longest_wait_ms
        self._registered = registered
        self._silence = Silence(scheduler.monotonic_ms())
        self._timer: Timer = scheduler.call_later(LOOK_MS, self._look)
        registered.report_silent(lambda: self._silence.report(scheduler.monotonic_ms()))

    def close(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        self._timer = self._scheduler.call_later(LOOK_MS, self._look)
        if self._silence.look(self._scheduler.monotonic_ms(), self._awaited()):
            self._registered.report()

    def _awaited(self) -> dict[int, Awaited]:
        awaited = {
            broker_id: Awaited(fetch.at_ms, fetch.at_ms + fetch.max_wait_ms, is_answer=False)
            for broker_id, fetch in self._follower_fetches.items()
        }
        answered_ms: dict[int, float] = {}
        asked_ms: dict[int, float] = {}
        for feed in self._feeds:
            leader_id = feed.leader_id
            answered_ms[leader_id] = max(feed.answered_ms, answered_ms.get(leader_id, -1.0))
            if feed.unanswered_since_ms >= 0:
                asked_ms[leader_id] = min(feed.unanswered_since_ms, asked_ms.get(leader_id, feed.unanswered_since_ms))
        longest_wait_ms = self._longest_wait_ms()
        for leader_id, since_ms in asked_ms.items():
            heard_ms = max(since_ms, answered_ms[leader_id])
            awaited[leader_id] = Awaited(heard_ms, heard_ms + longest_wait_ms, is_answer=True)
        return awaited
