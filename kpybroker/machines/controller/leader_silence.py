"""The silence of the quorum's leader, as a voter notices it before it gives the leader up.

A voter that hears nothing of its leader stands for election after ``controller.quorum.fetch.timeout.ms``. Shortly
before, it asks the leader for a sign of life. So when it becomes the active controller, it knows for how long the
former leader has been silent, and whether it answered. A voter that stood still has unread messages, so it starts all
over.

Not here: what follows for the broker of the same node (`kpybroker.machines.controller.suspicion`).
"""

from typing import Final

from kpybroker.machines.controller.suspicion import LATE_MS, LOOK_MS, PROBE_MS, QUIET_MS
from kpybroker.machines.raft.roles import HeardLeader

SPARE_MS: Final = LOOK_MS
"""The time by which the question comes earlier than it must, so that looks may be late."""


class LeaderSilence:
    """The looks of one voter at its leader."""

    def __init__(self, fetch_timeout_ms: float, now_ms: float) -> None:
        self._quiet_ms = max(fetch_timeout_ms - PROBE_MS - SPARE_MS, QUIET_MS)
        self._due_ms = now_ms
        self._answered_ms = -1.0
        self.asked_ms: float | None = None
        """The time since when the leader has been asked and has not answered; None if it is not asked."""
        self.lag_ms = 0.0
        """The lateness of looks meanwhile."""

    def look(self, now_ms: float, heard: HeardLeader | None) -> float:
        """Decide whether the leader has to be asked (`asked_ms`). Return the time of the next look."""
        late_ms = max(now_ms - self._due_ms, 0.0)
        if late_ms > LATE_MS:
            self.asked_ms = None
        quiet_ms = -1.0 if heard is None else now_ms - max(heard.heard_ms, self._answered_ms)
        if quiet_ms < self._quiet_ms:
            self.asked_ms = None
        elif self.asked_ms is None:
            self.asked_ms, self.lag_ms = now_ms, late_ms
        else:
            self.lag_ms = max(self.lag_ms, late_ms)
        wait_ms = self._quiet_ms if heard is None else self._quiet_ms - quiet_ms
        self._due_ms = now_ms + max(wait_ms, LOOK_MS)
        return self._due_ms

    def answered(self, now_ms: float) -> None:
        """Note that the leader answered."""
        self._answered_ms, self.asked_ms = now_ms, None
