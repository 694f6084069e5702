"""Lines that could come thousands of times in a second: one, then how often it came again.

Every kind of line is said at most once in ten seconds. What was kept back is told with the next line of its kind, or
when the ten seconds are over. So an attacker fills no disk, and who reads the log still learns how much happened.
"""

import logging
from functools import partial
from typing import Final

from kpybroker.io.scheduler import Scheduler

QUIET_MS: Final = 10_000
MOST_KINDS: Final = 256
"""Kinds kept apart, such as peers; further ones share one."""
_OTHERS: Final = "others"


class Complaints:
    """Says things, but not all the time. ``say`` is for the loop's thread only."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._kept_back: dict[str, int] = {}
        """Kinds that were said lately, and how often since."""

    def say(self, log: logging.Logger, level: int, kind: str, message: str, *arguments: object) -> None:
        """Log this line, or count it where one of its ``kind`` was logged less than ten seconds ago."""
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
