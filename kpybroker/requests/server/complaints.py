"""Log lines that could be written thousands of times a second: the first one, then how often it was repeated.

Each kind of line is logged at most once in ten seconds. When the ten seconds are over, the number of suppressed lines
is logged. So an attacker cannot fill the disk, and the log still shows how much happened.
"""

import logging
from functools import partial
from typing import Final

from kpybroker.runtime.io.scheduler import Scheduler

QUIET_MS: Final = 10_000
MOST_KINDS: Final = 256
"""The number of kinds (such as peers) that are counted separately; all further ones share one kind."""
_OTHERS: Final = "others"


class Complaints:
    """A log with a rate limit for each kind of line. ``say`` is for the loop's thread only."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._kept_back: dict[str, int] = {}
        """The kinds that were logged in the last ten seconds, and how many lines were suppressed since."""

    def say(self, log: logging.Logger, level: int, kind: str, message: str, *arguments: object) -> None:
        """Log this line, or only count it if one of its ``kind`` was logged less than ten seconds ago."""
        if kind not in self._kept_back and len(self._kept_back) >= MOST_KINDS:
            kind = _OTHERS
        if kind in self._kept_back:
            self._kept_back[kind] += 1
            return
        log.log(level, message, *arguments)
        self._kept_back[kind] = 0
        self._scheduler.call_later(QUIET_MS, partial(self._over, log, level, kind))

    def _over(self, log: logging.Logger, level: int, kind: str) -> None:
        count = self._kept_back.pop(kind)
        if count:
            log.log(level, "%d more such lines in %d s: %s", count, QUIET_MS // 1000, kind)
            self._kept_back[kind] = 0
            self._scheduler.call_later(QUIET_MS, partial(self._over, log, level, kind))
