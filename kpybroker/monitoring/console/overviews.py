"""The last overviews of all groups. Each is kept for a moment, the longer the more it cost; a viewer waits for its own
alone."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from kpybroker.machines.console.groups import GroupRow, PositionRow
from kpybroker.monitoring.console.lag_history import LagHistory
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.history.recorder import HistoryRecorder
from kpybroker.monitoring.metrics.lag import Times
from kpybroker.monitoring.metrics.readers import Readers
from kpybroker.runtime.io.scheduler import Scheduler

FRESH: Final = 10
"""An overview is kept for this many times the time that it took."""
MOST_FRESH_MS: Final = 5_000
MOST_VIEWERS: Final = 4
MOST_WATCHED: Final = 1_000
"""The groups whose pace is known, by viewer."""
WATCHED_SAMPLES: Final = 16
MOST_TIMES: Final = 100_000
KEPT_MS: Final = 60_000
"""The time for which times of other nodes are kept: a record may be deleted there."""
EVERYBODY: Final = ""
"""The viewer of a node without ACLs."""


class Overview(NamedTuple):
    """The groups that a viewer may see."""

    rows: tuple[GroupRow, ...]
    """All of them, without the lag in time."""
    positions: Mapping[str, Sequence[PositionRow]]
    """The positions of the groups."""
    unreachable: tuple[str, ...]
    """Why groups of other nodes are missing."""
    silent: tuple[str, ...]
    """Why the ends of partitions that other nodes lead are missing."""
    readers: Readers
    in_groups: set[str]
    """The names of all groups and of their members."""


def viewer_key(viewer: Viewer) -> str:
    """The name under which something is kept that viewers with other rights may not see."""
    return EVERYBODY if viewer.authorizer is None else f"{viewer.principal} at {viewer.host}"


class Overviews:
    """Keeps overviews, by viewer, and what several of them show: how fast groups read, and times of records."""

    def __init__(self, scheduler: Scheduler, history: HistoryRecorder) -> None:
        self.paces = LagHistory(scheduler, history, MOST_WATCHED, WATCHED_SAMPLES)
        self._times: Times = {}
        self._fetched: dict[str, tuple[float, Times]] = {}
        """The times that each viewer has fetched from other nodes, and until when they are kept."""
        self._scheduler = scheduler
        self._known: dict[str, tuple[float, Overview]] = {}
        """The overview of each viewer, and until when it is fresh."""
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The viewers whose overviews are being made."""

    @property
    def times(self) -> Times:
        """Times of records that were read from files."""
        if len(self._times) > MOST_TIMES:
            self._times.clear()
        return self._times

    def fetched_times(self, key: str) -> Times:
        """Times of records that a viewer has fetched from other nodes. It adds more to them."""
        now_ms = self._scheduler.monotonic_ms()
        until_ms, found = self._fetched.pop(key, (0.0, {}))
        if now_ms >= until_ms or len(found) > MOST_TIMES:
            until_ms, found = now_ms + KEPT_MS, {}
        if len(self._fetched) >= MOST_VIEWERS:
            del self._fetched[next(iter(self._fetched))]
        self._fetched[key] = until_ms, found
        return found

    def forget(self) -> None:
        """Forget the overviews: something has changed."""
        self._known.clear()

    async def of(self, key: str, make: Callable[[], Awaitable[Overview]]) -> Overview:
        """The overview of a viewer, made if the last one is too old."""
        turn = self._turns.setdefault(key, asyncio.Lock())
        async with turn:
            began_ms = self._scheduler.monotonic_ms()
            until_ms, known = self._known.pop(key, (0.0, None))
            if known is None or began_ms >= until_ms:
                known = await make()
                now_ms = self._scheduler.monotonic_ms()
                until_ms = now_ms + min(MOST_FRESH_MS, FRESH * (now_ms - began_ms))
            if len(self._known) >= MOST_VIEWERS:
                del self._known[next(iter(self._known))]
            self._known[key] = until_ms, known
            return known
