"""Logs why this node knows of no leader of the quorum, if that lasts: once for each reason.

Elections are over sooner than that. The reasons that last are a mistake in the configuration, a broken network, or too
few voters.
"""

import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler, Timer

log = logging.getLogger("kpybroker.controller")

PATIENCE_MS = 2_500
"""The time between two checks. The reason known at the second one counts, if there was no leader at the first one
either."""


class Leaderless:
    """The checks of one node, as long as it runs."""

    def __init__(
        self, scheduler: "Scheduler", is_led: Callable[[], bool], troubles: Callable[[], Mapping[str, str]]
    ) -> None:
        """``troubles`` returns the problems that the requests to other nodes met, by the addresses of these nodes."""
        self._scheduler = scheduler
        self._is_led = is_led
        self._troubles = troubles
        self._waited = False
        self._reported = ""
        self._timer: Timer | None = None

    def start(self) -> None:
        """Check from now on."""
        self._timer = self._scheduler.call_later(PATIENCE_MS, self._look)

    def stop(self) -> None:
        """Stop checking."""
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._is_led():
            self._waited, self._reported = False, ""
        elif not self._waited:
            self._waited = True
        else:
            reasons = "; ".join(f"{place}: {reason}" for place, reason in sorted(self._troubles().items()))
            reasons = reasons or "nobody who answers knows of one"
            if reasons != self._reported:
                self._reported = reasons
                log.warning("No leader of the quorum is known: %s", reasons)
        self.start()
