"""The signals that ask for a stop, and output after the terminal was closed."""

import os
import signal
import sys
from contextlib import suppress
from typing import Final

HANGUP: Final[int | None] = getattr(signal, "SIGHUP", None)
"""The signal of a closed terminal. It may arrive twice, or together with another signal, for the same stop."""


def stopping_signals() -> list[int]:
    """SIGINT, SIGTERM and SIGHUP. An ignored SIGHUP stays ignored, as in Java: ``nohup`` relies on it."""
    numbers = [int(signal.SIGINT), int(signal.SIGTERM)]
    if HANGUP is not None and signal.getsignal(HANGUP) is not signal.SIG_IGN:
        numbers.append(int(HANGUP))
    return numbers


def say(line: str) -> None:
    """Write a line to the standard error, if that is still open."""
    with suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)


def let_go_of_output() -> None:
    """Discard output that can no longer be written, so that it does not make the end of the process a failure."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
