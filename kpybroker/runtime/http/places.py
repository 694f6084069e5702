"""The places of a server's connections, and which of them gives way when all are taken.

A connection whose request has not come, or whose client does not take its answer, gives way to a new one, after it has
had its place for a moment: of the host with the most such connections, the one that waits for longest. A connection
whose request is being answered keeps its place, and these never take all places. So there is always room soon.
"""

import asyncio
from collections import Counter
from enum import IntEnum
from typing import Final

GRACE_S: Final = 0.25
"""The time in which a connection may do its next step before it can be asked to give way."""


class Phase(IntEnum):
    """The phases of a connection, in the order in which they give way."""

    READING = 0
    SENDING = 1
    REFUSED = 2
    """Its answer is held back: a login has failed."""
    ANSWERING = 3


class Place:
    """One place, and the phase of its connection, which a task serves."""

    __slots__ = ("host", "phase", "since_s", "task")

    def __init__(self, host: str, now_s: float) -> None:
        self.task: asyncio.Task[None] | None = None
        self.host = host
        self.phase = Phase.READING
        self.since_s = now_s

    def enter(self, phase: Phase, now_s: float) -> None:
        """Begin the next phase."""
        self.phase = phase
        self.since_s = now_s


class Places:
    """The taken places."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._taken: dict[Place, None] = {}

    @property
    def answered(self) -> int:
        """The number of requests that are being answered."""
        return sum(place.phase is Phase.ANSWERING for place in self._taken)

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that serve the connections."""
        return [place.task for place in self._taken if place.task is not None]

    def take(self, host: str, now_s: float) -> Place:
        """Take a place."""
        place = Place(host, now_s)
        self._taken[place] = None
        return place

    def leave(self, place: Place) -> None:
        """Give a place back. Safe to call twice."""
        self._taken.pop(place, None)

    def make_room(self, now_s: float) -> bool:
        """Let a connection give way if all places are taken. Return whether there is room now."""
        if len(self._taken) >= self._most:
            slow = self._yielding(now_s)
            if slow is None:
                return False
            self.leave(slow)
            if slow.task is not None:
                slow.task.cancel()
        return True

    def _yielding(self, now_s: float) -> Place | None:
        """The place that gives way now; None if every connection has begun its phase a moment ago, or is answered."""
        late = [p for p in self._taken if p.phase is not Phase.ANSWERING and now_s - p.since_s >= GRACE_S]
        of_host = Counter(place.host for place in late)
        return min(late, key=lambda place: (place.phase, -of_host[place.host], place.since_s), default=None)
