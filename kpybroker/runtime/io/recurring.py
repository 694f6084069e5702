"""Work that is done again and again, at an interval."""

from collections.abc import Callable

from kpybroker.runtime.io.scheduler import Scheduler


class Recurring:
    """One piece of work, from now on until `stop`."""

    def __init__(
        self, scheduler: Scheduler, interval_ms: float, work: Callable[[], object], first_ms: float | None = None
    ) -> None:
        """``first_ms`` is the time before the first time; without it, it is the interval."""
        self._scheduler = scheduler
        self._interval_ms = interval_ms
        self._work = work
        self._timer = scheduler.call_later(interval_ms if first_ms is None else first_ms, self._due)

    def stop(self) -> None:
        """Do it no more."""
        self._timer.cancel()

    def _due(self) -> None:
        self._work()
        self._timer = self._scheduler.call_later(self._interval_ms, self._due)
