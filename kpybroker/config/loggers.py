"""The loggers of this process, as the configs of a BROKER_LOGGER resource (KIP-412).

Levels have log4j's names. Python has no TRACE; here it is any level finer than DEBUG. Only loggers of this program and
the root logger are shown: a host program's loggers are its own.
"""

import logging
from collections.abc import Mapping
from typing import Final

ROOT: Final = "root"
_OURS: Final = ("kpybroker", "kpystorage", "kpywire")
_LEVELS: Final = {
    "DEBUG": logging.DEBUG,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
    "INFO": logging.INFO,
    "TRACE": 5,
    "WARN": logging.WARNING,
}
LEVEL_NAMES: Final = tuple(_LEVELS)


class Loggers:
    """Reads and sets levels of Python's loggers."""

    def levels(self) -> Mapping[str, str]:
        """The effective level of every logger, by name."""
        names = [name for name in logging.root.manager.loggerDict if name.partition(".")[0] in _OURS]
        return {name: _name_of(_logger(name).getEffectiveLevel()) for name in [ROOT, *sorted(names)]}

    def set_level(self, name: str, level: str | None) -> None:
        """Give a logger a level of its own, or with None the level of its parent."""
        _logger(name).setLevel(logging.NOTSET if level is None else _LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _name_of(level: int) -> str:
    """The name of the finest level that is shown where ``level`` is."""
    return min((name for name in _LEVELS if _LEVELS[name] >= level), key=_LEVELS.__getitem__, default="FATAL")
