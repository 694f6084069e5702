"""The progress of long work, on one line of the terminal that is erased at the end; nothing without a terminal.

It shows itself only after a second, so that short work stays silent.
"""

import sys
import time
from types import TracebackType
from typing import Self

import click

FIRST_AFTER_S = 1.0
EVERY_S = 0.2


class ProgressLine:
    """``with Progress("Produced", "record") as progress: progress.reached(10)``. ``total`` is 0 where it is unknown."""

    def __init__(self, verb: str, noun: str, total: int = 0) -> None:
        self.verb = verb
        self.noun = noun
        self.total = total
        self._shown = False
        self._started = time.monotonic()
        self._next = self._started + FIRST_AFTER_S

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)

    def reached(self, count: int) -> None:
        """Note that ``count`` is done."""
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + EVERY_S
        self._shown = True
        click.echo(
            "\r\x1b[K" + progress_text(self.verb, self.noun, count, self.total, now - self._started), nl=False, err=True
        )


def progress_text(verb: str, noun: str, count: int, total: int, elapsed_s: float) -> str:
    """``Produced 12000 of 50000 records (24 %), 6000 a second, 6 s to go``."""
    rate = count / elapsed_s if elapsed_s > 0 else 0.0
    text = f"{verb} {count} {noun}s, {rate:.0f} a second"
    if total <= 0:
        return text
    text = f"{verb} {count} of {total} {noun}s ({100 * count // total} %), {rate:.0f} a second"
    return f"{text}, {(total - count) / rate:.0f} s to go" if rate > 0 else text
