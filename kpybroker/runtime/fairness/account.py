"""The time budget of work that cannot be cut into slices.

All connections share one account. An administrator's occasional request never exhausts it, since it fills in every
pause. A flood of such requests empties it; they then wait until it holds something, or the broker is idle.

Invariant: without a pause, long work takes at most `SHARE` of the time beyond `SAVED_NS`.
"""

from kpybroker.runtime.fairness.times import LEAST_CHARGE_NS, OVERDRAWN_NS, PAUSE_NS, SAVED_NS, SHARE


class Account:
    """The time that is left for long work. All times are those of the clock that the caller passes as ``now_ns``."""

    def __init__(self, now_ns: int) -> None:
        self._left_ns = float(SAVED_NS)
        self._at_ns = now_ns
        self._last_ns = now_ns - PAUSE_NS
        """The time when the last long piece was charged."""

    def charge(self, now_ns: int, took_ns: int, *, is_waited_for: bool = False) -> None:
        """Take a long piece from the account."""
        self.left_ns(now_ns, is_waited_for=is_waited_for)
        self._left_ns = max(self._left_ns - max(took_ns, LEAST_CHARGE_NS), -float(OVERDRAWN_NS))
        self._last_ns = now_ns

    def left_ns(self, now_ns: int, *, is_waited_for: bool = False) -> float:
        """The time that is left, below 0 if it is overdrawn.

        ``is_waited_for``: somebody has been waiting for the account, so the time since the last call was no pause.
        """
        paused_ns = 0 if is_waited_for else max(0, now_ns - max(self._at_ns, self._last_ns + PAUSE_NS))
        busy_ns = now_ns - self._at_ns - paused_ns
        self._left_ns = min(float(SAVED_NS), self._left_ns + paused_ns + busy_ns * SHARE)
        self._at_ns = now_ns
        return self._left_ns
