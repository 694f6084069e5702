"""The lines of ``consume`` and ``produce`` on stderr: one when the broker is away, and one when it is back.

Invariant: stdout is never touched, and an outage is reported once, however many attempts fail.
"""

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

import click

from kpybroker.cli.tables import duration_text, printable
from kpybroker.client.connection import Unreachable
from kpybroker.machines.errors import KafkaError

PATIENCE_S: Final = 1.0
"""The shortest outage that is reported. A shorter one, as when a leader moves, is not worth a line."""

Say = Callable[[str], object]


def say(text: str) -> None:
    """Print one line on stderr, over any progress shown there."""
    click.echo(("\r\x1b[K" if sys.stderr.isatty() else "") + printable(text), err=True)


def why(error: KafkaError | Unreachable) -> str:
    """The reason in words, such as ``partition t-0 has no leader (LEADER_NOT_AVAILABLE)``. Other errors than Kafka's
    have their own text."""
    if isinstance(error, Unreachable):
        return str(error)
    name, _, text = str(error).partition(": ")
    return f"{text.rstrip('.')} ({name})"


class Contact:
    """Whether the cluster answers, as reported to the user. ``plan`` says what happens in the meantime."""

    def __init__(self, plan: str, say_line: Say = say) -> None:
        self.plan = plan
        self.say = say_line
        self._lost_s: float | None = None
        self._is_reported = False

    @property
    def is_lost(self) -> bool:
        return self._lost_s is not None

    def lost(self, error: KafkaError | Unreachable) -> None:
        """Note that an attempt failed, and will be repeated."""
        now_s = time.monotonic()
        if self._lost_s is None:
            self._lost_s = now_s
        if isinstance(error, Unreachable) or now_s - self._lost_s >= PATIENCE_S:
            self._tell(why(error))

    def silent(self, reason: str) -> None:
        """Note that an answer is overdue, and still awaited."""
        if self._lost_s is None:
            self._lost_s = time.monotonic()
        self._tell(reason)

    def back(self) -> None:
        """Note that an attempt has succeeded."""
        lost_s, is_reported = self._lost_s, self._is_reported
        self._lost_s, self._is_reported = None, False
        if lost_s is not None and is_reported:
            self.say(f"The broker is back after {duration_text(int((time.monotonic() - lost_s) * 1000))}.")

    def _tell(self, reason: str) -> None:
        if not self._is_reported:
            self._is_reported = True
            self.say(f"{reason[:1].upper()}{reason[1:]}; {self.plan}")


def mute(_text: str) -> None:
    """Print nothing, for a user who wants no messages."""


class SayIfLong:
    """``with SayIfLong(2.0, "Waiting for ..."):`` prints the line once if the body takes longer."""

    def __init__(self, after_s: float, text: str, say_line: Say = say) -> None:
        self._timer = threading.Timer(after_s, say_line, (text,))
        self._timer.daemon = True

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
