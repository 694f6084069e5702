"""The throttle of moves: it rises while clients feel nothing, is halved when they do, and doubled when nothing moves.

Not here: how latencies are measured, and Kafka's configs (`kpybroker.client.balance_throttles`).
Invariant: the rate stays between the least and the most of its settings.
"""

from typing import Final, NamedTuple

RISE: Final = 1.25
SLOWER: Final = 2.0
"""Clients feel a move when requests take this many times as long as before."""
GRACE_MS: Final = 10.0
"""A longer latency by less than this is noise."""
STALLED_MS: Final = 15_000
"""Moves that copy nothing for this long need a higher rate: producers may write faster than the throttle allows."""
CHANGED: Final = 0.1
"""A rate that differs by less than this part is not set again."""
MIB: Final = 1024 * 1024


class ThrottleRange(NamedTuple):
    """The rates of a node in bytes a second: the first one, the least and the most."""

    first: int = 20 * MIB
    least: int = MIB
    most: int = 1024 * MIB


class Feeling(NamedTuple):
    """The effect of moves on clients now."""

    latency_ms: float | None = None
    """The longest latency of the nodes that take part; None where it is unknown."""
    short: int | None = None
    """The partitions that lack a replica in sync and do not move; None where it is unknown."""
    left_bytes: int | None = None
    """The bytes that are left to copy; None where they are unknown."""


class MovePace:
    """The rate of one execution."""

    def __init__(self, settings: ThrottleRange) -> None:
        self.settings = settings
        self.rate = float(min(max(settings.first, settings.least), settings.most))
        self.is_felt = False
        """Whether clients felt the moves at the last look; then none begins."""
        self._set = 0.0
        self._latency_ms: float | None = None
        self._short: int | None = None
        self._left: int | None = None
        self._copied_at_ms: float | None = None

    def before(self, feeling: Feeling) -> None:
        """Note what clients feel before anything moves."""
        if feeling.latency_ms is not None:
            known = self._latency_ms
            self._latency_ms = feeling.latency_ms if known is None else min(known, feeling.latency_ms)
        if feeling.short is not None:
            self._short = feeling.short if self._short is None else min(self._short, feeling.short)

    def look(self, feeling: Feeling, now_ms: float) -> int | None:
        """The new rate, None if the present one stays."""
        self.is_felt = self._is_slow(feeling) or self._is_short(feeling)
        if self._stalls(feeling, now_ms):
            self.rate *= 2
        elif self.is_felt:
            self.rate /= 2
        else:
            self.rate *= RISE
        self.rate = float(min(max(self.rate, self.settings.least), self.settings.most))
        is_bound = self.rate in (self.settings.least, self.settings.most)
        if abs(self.rate - self._set) <= (0.0 if is_bound else CHANGED * self._set):
            return None
        self._set = self.rate
        return int(self.rate)

    def _is_slow(self, feeling: Feeling) -> bool:
        if feeling.latency_ms is None or self._latency_ms is None:
            return False
        return feeling.latency_ms > max(SLOWER * self._latency_ms, self._latency_ms + GRACE_MS)

    def _is_short(self, feeling: Feeling) -> bool:
        return feeling.short is not None and self._short is not None and feeling.short > self._short

    def _stalls(self, feeling: Feeling, now_ms: float) -> bool:
        """Whether nothing was copied for long. The time begins again with each answer of yes."""
        left = feeling.left_bytes
        if not left or self._left is None or left != self._left or self._copied_at_ms is None:
            self._left, self._copied_at_ms = left, now_ms
            return False
        if now_ms - self._copied_at_ms < STALLED_MS:
            return False
        self._copied_at_ms = now_ms
        return True
