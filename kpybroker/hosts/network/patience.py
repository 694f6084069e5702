"""Attempts to connect that are not repeated at once where TLS or the login fails: a pause, and one line in the log.

The callers of a connection retry often, since most failures end soon. A certificate that is not trusted or a password
that is wrong stays so until somebody changes it. So each such failure doubles the pause before the next attempt at the
same address, up to a limit, and only a reason that is new is logged.
"""

import logging
from collections.abc import Callable
from typing import Final

from kpybroker.hosts.network.outgoing import Unprotected
from kpybroker.hosts.network.peer import Connect, Link
from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.network")

FIRST_PAUSE_MS: Final = 50
LONGEST_PAUSE_MS: Final = 1_000
"""Both as Kafka's ``reconnect.backoff.ms`` and ``reconnect.backoff.max.ms``."""
_MOST_REASONS: Final = 16


class _Trouble:
    """The failures at one address since it answered last."""

    __slots__ = ("next_ms", "pause_ms", "reasons")

    def __init__(self) -> None:
        self.reasons: set[str] = set()
        """The reasons that are in the log."""
        self.pause_ms: float = 0
        self.next_ms: float = 0
        """The earliest time of the next attempt."""


class PatientConnect:
    """A `Connect` that adds the pause and the line to another one."""

    def __init__(self, scheduler: Scheduler, connect: Connect, listener: str) -> None:
        """``listener`` names the listener that is dialled, for the log."""
        self._scheduler = scheduler
        self._connect = connect
        self._listener = listener
        self._troubles: dict[tuple[str, int], _Trouble] = {}

    def __call__(
        self,
        host: str,
        port: int,
        opened: Callable[[], object],
        taken: Callable[[bytes | memoryview], object],
        lost: Callable[[str], object],
    ) -> Link:
        place = host, port
        has_answered = False

        def answered(frame: bytes | memoryview) -> None:
            nonlocal has_answered
            if not has_answered:
                has_answered = True
                self._succeeded(place)
            taken(frame)

        def failed(reason: str) -> None:
            if isinstance(reason, Unprotected):
                self._failed(place, reason)
            lost(reason)

        def begin() -> Link:
            return self._connect(host, port, opened, answered, failed)

        trouble = self._troubles.get(place)
        wait_ms = 0 if trouble is None else trouble.next_ms - self._scheduler.monotonic_ms()
        return begin() if wait_ms <= 0 else _LaterLink(self._scheduler, wait_ms, begin)

    def _failed(self, place: tuple[str, int], reason: str) -> None:
        trouble = self._troubles.setdefault(place, _Trouble())
        trouble.pause_ms = min(max(trouble.pause_ms * 2, FIRST_PAUSE_MS), LONGEST_PAUSE_MS)
        trouble.next_ms = self._scheduler.monotonic_ms() + trouble.pause_ms
        if reason not in trouble.reasons and len(trouble.reasons) < _MOST_REASONS:
            trouble.reasons.add(reason)
            log.warning("Connections to listener %s at %s:%d fail: %s", self._listener, *place, reason)

    def _succeeded(self, place: tuple[str, int]) -> None:
        if self._troubles.pop(place, None) is not None:
            log.info("Connections to listener %s at %s:%d succeed again", self._listener, *place)


class _LaterLink:
    """A link that is opened after a pause."""

    __slots__ = ("_begin", "_link", "_timer")

    def __init__(self, scheduler: Scheduler, wait_ms: float, begin: Callable[[], Link]) -> None:
        self._begin = begin
        self._link: Link | None = None
        self._timer = scheduler.call_later(wait_ms, self._open)

    def _open(self) -> None:
        self._link = self._begin()

    def send(self, frame: bytes) -> None:
        if self._link is not None:
            self._link.send(frame)

    def close(self) -> None:
        self._timer.cancel()
        if self._link is not None:
            self._link.close()
