"""The progress of a run at a terminal: which round is played, how many are left, and each result as it comes."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from benchmarks.figures import Comparison

COLOURS = {"aim": "green", "ok": "yellow", "MISS": "red"}


class Watch:
    """Used as a context manager; ``rounds`` are all that will be played, on both sides together."""

    def __init__(self, console: Console, rounds: int) -> None:
        columns = (SpinnerColumn(), MofNCompleteColumn(), BarColumn(20), TimeElapsedColumn())
        self._progress = Progress(*columns, TextColumn("{task.description}"), console=console, transient=True)
        self._task = self._progress.add_task("starting", total=rounds)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Show the current step."""
        self._progress.update(self._task, description=escape(text))

    def advance(self, to: int | None = None) -> None:
        """One round is over, or as many as ``to`` in all."""
        if to is None:
            self._progress.advance(self._task)
        else:
            self._progress.update(self._task, completed=to)

    def show(self, comparison: Comparison) -> None:
        """One line for a figure of a row that has just been played."""
        ratios = comparison.ratios
        spread = f"({ratios.smallest:.2f}-{ratios.largest:.2f})"
        line = f"[{COLOURS[comparison.verdict]}]{ratios.median:6.2f}[/] {spread:>14}  "
        self._progress.console.print(f"{line}{comparison.row}: {comparison.figure.name}", soft_wrap=True)

    def show_remark(self, text: str) -> None:
        """A line that stays."""
        self._progress.console.print(escape(text), soft_wrap=True)

    def show_failure(self, title: str, failure: str) -> None:
        self._progress.console.print(f"[red]FAILED[/] {escape(title)}: {escape(failure)}", soft_wrap=True)
