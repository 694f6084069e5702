"""The sources of mirrors, as they were read last for the console: in a thread, by the mirror's own way to them.

Invariant: a source is read once at a time, however many pages wait for it, and a page waits for a bounded time. The
state of a source is kept for a moment, ten times as long as reading it took, a few seconds at most.
"""

import asyncio
from collections.abc import Callable
from typing import Final, NamedTuple

from kpybroker.client.connection import Unreachable
from kpybroker.client.mirror_requests import SourceState
from kpybroker.machines.console.mirrors import AWAY
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.overviews import FRESH, MOST_FRESH_MS
from kpybroker.runtime.io.scheduler import Scheduler

PATIENCE_S: Final = 2.0


class SourceLook(NamedTuple):
    """The state of a source; without one the reason why."""

    state: SourceState | None
    problem: str


SILENT: Final = SourceLook(None, AWAY)


class SourceLooks:
    """Reads sources, by the names of their mirrors."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._known: dict[str, tuple[float, SourceLook]] = {}
        """The last look at each source, and until when it is fresh."""
        self._reading: dict[str, tuple[float, asyncio.Task[SourceLook]]] = {}
        """The sources that are being read, and since when: one that hangs is waited for once."""

    async def at(self, mirror: str, read: Callable[[], SourceState]) -> SourceLook:
        """A look at the source of a mirror. ``read`` blocks, and raises KafkaError and Unreachable."""
        until_ms, known = self._known.get(mirror, (0.0, SILENT))
        now_ms = self._scheduler.monotonic_ms()
        if now_ms < until_ms:
            return known
        if mirror not in self._reading:
            self._reading[mirror] = now_ms, asyncio.create_task(self._read(mirror, read))
        began_ms, task = self._reading[mirror]
        done, _ = await asyncio.wait((task,), timeout=max(0.0, PATIENCE_S - (now_ms - began_ms) / 1000))
        return task.result() if done else SILENT

    async def _read(self, mirror: str, read: Callable[[], SourceState]) -> SourceLook:
        began_ms = self._scheduler.monotonic_ms()
        try:
            look = SourceLook(await asyncio.to_thread(read), "")
        except (KafkaError, Unreachable, OSError, EOFError) as error:
            look = SourceLook(None, str(error))
        finally:
            del self._reading[mirror]
        now_ms = self._scheduler.monotonic_ms()
        self._known[mirror] = now_ms + min(MOST_FRESH_MS, FRESH * (now_ms - began_ms)), look
        return look

    def close(self) -> None:
        """Wait for nothing any more."""
        for _, task in self._reading.values():
            task.cancel()
