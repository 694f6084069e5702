"""Progress as a person sees it: a line that moves in a terminal, whole lines in a log."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

Say = Callable[[str], None]
Advance = Callable[[int], None]
LOOK_S = 0.2
LINES = 4
"""The number of lines that a log gets of a bar that fills."""
DOWNLOAD = re.compile(r"^downloading \S*?([^/\s]+\.jar)\b")
RESOLVING = ":: resolving dependencies"


@contextmanager
def waiting(console: Console, what: str, log: Path | None = None) -> Iterator[None]:
    """Says what is waited for, what Spark downloads meanwhile by what it writes to ``log``, and how long it took."""
    began = time.monotonic()
    if not console.is_terminal:
        console.print(f"{what} ...", soft_wrap=True)
        with following(log, lambda news: console.print(f"  {news}", soft_wrap=True)):
            yield
    else:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console, transient=True) as progress:
            task = progress.add_task(what, total=None)
            with following(log, lambda news: progress.update(task, description=f"{what}: {news}")):
                yield
    console.print(f"{what}: {time.monotonic() - began:.0f} s", soft_wrap=True)


@contextmanager
def following(log: Path | None, say: Say) -> Iterator[None]:
    """Tells of the jars that Spark looks for and downloads, as its output grows."""
    if log is None:
        yield
        return
    over = Event()
    with open(log, errors="replace") as lines:

        def follow() -> None:
            last = ""
            while not last:
                last = "over" if over.wait(LOOK_S) else ""
                for line in lines:
                    if news := news_of(line):
                        say(news)

        thread = Thread(target=follow, name="follows Spark's output")
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def news_of(line: str) -> str | None:
    """The meaning of a line of Ivy's, if it is worth telling."""
    if RESOLVING in line:
        return "looks for its Kafka connector"
    found = DOWNLOAD.match(line)
    return f"downloads {found[1]}" if found else None


@contextmanager
def bar(console: Console, what: str, total: int) -> Iterator[Advance]:
    """A progress bar over ``total`` records; call what it yields with the number of records that were done since."""
    began, done = time.monotonic(), 0

    def rate() -> str:
        return f"{done / max(time.monotonic() - began, 1e-3):,.0f}"

    if not console.is_terminal:

        def count(more: int) -> None:
            nonlocal done
            before, done = done, done + more
            if before * LINES // total != done * LINES // total:
                console.print(f"{what}: {done:,} of {total:,}, {rate()}/s", soft_wrap=True)

        yield count
        return
    speed = TextColumn("{task.fields[rate]:>9}/s")
    columns = (TextColumn("{task.description:<33}"), BarColumn(16), MofNCompleteColumn(), speed)
    with Progress(*columns, console=console) as progress:
        task = progress.add_task(what, total=total, rate="")

        def advance(more: int) -> None:
            nonlocal done
            done += more
            progress.update(task, completed=done, rate=rate())

        yield advance
