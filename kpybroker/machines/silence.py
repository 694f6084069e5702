"""The brokers that do not answer this one, as it reports them to the controller.

A leader is silent while a fetch of this node waits for longer than the leader may keep it. A follower is silent while
its next fetch does not come. A node that stood still has unread messages, so it starts all over.

Invariant: no broker is reported that was heard within `OVERDUE_MS`.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from kpybroker.machines.reporting_heartbeat import SilentBroker

LOOK_MS: Final = 250
LATE_MS: Final = 250
"""A look that comes later than that after its time means that this node stood still."""
OVERDUE_MS: Final = 500
"""The time by which an answer is overdue when its broker counts as silent."""
LONGEST_MS: Final = 60_000
"""The longest silence that is reported: later it proves nothing, since the follower may follow others."""


class Awaited(NamedTuple):
    """Something that a broker has to send."""

    since_ms: float
    """The time when it was asked, or was heard last."""
    due_ms: float
    """The time when it has to be here."""
    is_answer: bool
    """The broker owes an answer to a fetch of this node. If false, it owes a fetch."""


class Silence:
    """The silent peers of one node."""

    def __init__(self, now_ms: float) -> None:
        self._looked_ms = now_ms
        self._woke_ms = now_ms
        self._silent: frozenset[tuple[int, bool]] = frozenset()
        self._awaited: Mapping[int, Awaited] = {}

    def look(self, now_ms: float, awaited: Mapping[int, Awaited]) -> bool:
        """Note what each peer has to send. Return whether there is something new to report."""
        if now_ms - self._looked_ms > LOOK_MS + LATE_MS:
            self._woke_ms = now_ms
        self._looked_ms = now_ms
        self._awaited = {peer: each for peer, each in awaited.items() if self._is_silent(each, now_ms)}
        before = self._silent
        self._silent = frozenset((peer, each.is_answer) for peer, each in self._awaited.items())
        return self._silent != before

    def _is_silent(self, awaited: Awaited, now_ms: float) -> bool:
        overdue_ms = now_ms - max(awaited.due_ms, self._woke_ms)
        return overdue_ms >= OVERDUE_MS and now_ms - awaited.since_ms <= LONGEST_MS

    def report(self, now_ms: float) -> list[SilentBroker]:
        """The brokers that were silent at the last look."""
        return [
            SilentBroker(
                broker_id=peer,
                silent_ms=int(now_ms - max(each.since_ms, self._woke_ms)),
                is_unanswered=each.is_answer,
            )
            for peer, each in sorted(self._awaited.items())
        ]
