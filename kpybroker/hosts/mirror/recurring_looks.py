"""Looks at the source of a mirror, one at a time, each some time after the one before is over."""

from collections.abc import Callable

from kpybroker.runtime.io.scheduler import Scheduler, Timer


class RecurringLooks:
    """The looks of one part of a mirror, between `begin` and `stop`."""

    def __init__(self, scheduler: Scheduler, look: Callable[[], object]) -> None:
        """``look`` begins a look. Once that is done, `over` is called."""
        self._scheduler = scheduler
        self._look = look
        self._timer: Timer | None = None
        self._goes_on = False
        self.is_under_way = False
        self.pause_ms = 0
        """The pause before the look that is due, or that is under way."""

    def begin(self) -> None:
        """Look from now on."""
        self._goes_on = True
        if self._timer is None and not self.is_under_way:
            self._due()

    def stop(self) -> None:
        """Look no more. A look that is under way goes on."""
        self._goes_on = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def over(self, pause_ms: int) -> None:
        """Look again after a pause."""
        self.is_under_way, self.pause_ms = False, pause_ms
        if self._goes_on:
            self._timer = self._scheduler.call_later(pause_ms, self._due)

    def hurry(self, most_ms: int) -> None:
        """Look now if the pause is longer than this."""
        if self._timer is not None and self.pause_ms > most_ms:
            self._timer.cancel()
            self._due()

    def _due(self) -> None:
        self._timer, self.is_under_way = None, True
        self._look()
