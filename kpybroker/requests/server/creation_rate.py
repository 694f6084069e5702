"""The limit on new connections per second (``max.connection.creation.rate``, KIP-612). Connections above it wait in
the backlog of the listening socket."""

from typing import Final

WINDOW_MS: Final = 1_000


class CreationRate:
    """The new connections, counted in windows of one second. ``per_second`` is the limit for each window."""

    def __init__(self, per_second: int) -> None:
        self.per_second = per_second
        self._window_ms = 0.0
        self._count = 0

    def delay_ms(self, now_ms: float) -> float:
        """Return 0 if another connection may be accepted now, else the time to wait."""
        if now_ms >= self._window_ms + WINDOW_MS:
            self._window_ms = now_ms
            self._count = 0
        return 0.0 if self._count < self.per_second else self._window_ms + WINDOW_MS - now_ms

    def count(self) -> None:
        """Count a connection that was accepted."""
        self._count += 1
