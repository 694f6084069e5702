"""The timeout for opening a connection to another node (KIP-601). An attempt that takes longer is given up.

Each failed attempt doubles the timeout of the next one to the same address, up to a limit, with Kafka's random spread.
"""

import random
from collections.abc import Callable
from typing import Final

from kpybroker.hosts.network.peer import Connect, Link
from kpybroker.runtime.io.scheduler import Scheduler, Timer

SPREAD: Final = 0.2
"""The random part of the timeout, so that nodes that lost another one together do not all retry at the same time."""


class _Timed:
    """A link that may be closed before it is open."""

    __slots__ = ("_link", "_timer", "send")

    def __init__(self, link: Link, timer: Timer) -> None:
        self.send = link.send
        self._link = link
        self._timer = timer

    def close(self) -> None:
        self._timer.cancel()
        self._link.close()


class TimedConnect:
    """A `Connect` that adds the timeout to another one."""

    def __init__(
        self, scheduler: Scheduler, connect: Connect, rng: random.Random, first_ms: float, most_ms: float
    ) -> None:
        self._scheduler = scheduler
        self._connect = connect
        self._rng = rng
        self._first_ms = first_ms
        self._most_ms = most_ms
        self._failures: dict[tuple[str, int], int] = {}
        """The number of failed attempts since the last success, by address."""

    def __call__(
        self,
        host: str,
        port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
    ) -> Link:
        place = host, port
        is_open = False

        def made() -> None:
            nonlocal is_open
            is_open = True
            timer.cancel()
            self._failures.pop(place, None)
            opened()

        def failed(reason: str) -> None:
            timer.cancel()
            if not is_open:
                self._failures[place] = self._failures.get(place, 0) + 1
            lost(reason)

        def too_late() -> None:
            link.close()
            failed(f"no connection within {timeout_ms:.0f} ms")

        timeout_ms = self._timeout_ms(self._failures.get(place, 0))
        timer = self._scheduler.call_later(timeout_ms, too_late)
        link = self._connect(host, port, made, taken, failed)
        return _Timed(link, timer)

    def _timeout_ms(self, failures: int) -> float:
        if self._most_ms <= self._first_ms:
            return self._first_ms
        grown_ms = min(self._first_ms * 2.0 ** min(failures, 63), self._most_ms)
        return min(grown_ms * self._rng.uniform(1 - SPREAD, 1 + SPREAD), self._most_ms)
