"""The command line: which rows, how much work, which programs."""

import math
import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

import click
from rich.console import Console

from benchmarks import CHECKOUT, beside, kept, report
from benchmarks.kept import Circumstances, Kept
from benchmarks.machine import commit, machine_text
from benchmarks.match import Result, play, warm
from benchmarks.pace import Pace
from benchmarks.page import page
from benchmarks.progress import Watch
from benchmarks.raw import load
from benchmarks.rows import QUICK_ROWS, SUITES, Effort, Row
from benchmarks.rows.restarting import fitting_gb
from benchmarks.rows.row import BRIEF, FULL, QUICK
from benchmarks.sides import PROGRAMS, Kpybroker, KpybrokerBefore, Side, SideError, version
from oracle import BrokerProcessError

DIRECTORY = click.Path(path_type=Path, file_okay=False)
COMMAND = click.Path(path_type=Path, dir_okay=False, exists=True)
CHOSEN = sorted({*PROGRAMS} - {KpybrokerBefore.program})
QUICK_MINUTES = 5
OUTPUT = CHECKOUT / "build" / "bench"


class Run(NamedTuple):
    """The rows of a run, its two sides, and where results are kept."""

    rows: list[Row]
    effort: Effort
    names: tuple[str, str]
    versions: tuple[str, str]
    output: Path
    data: Path | None
    seconds: float
    commit: str
    further: Sequence[str] = ()

    @property
    def kept_rows(self) -> Path:
        return self.output / "rows"

    def circumstances(self, row: Row, result: Result, took_s: float) -> Circumstances:
        """The circumstances of a row that has just been played."""
        at = datetime.now().astimezone().isoformat(" ", "minutes")
        return Circumstances(
            self.names,
            self.versions,
            len(result.b),
            machine_text(),
            at,
            row.effort.words,
            round(took_s, 1),
            self.commit,
        )


@click.command()
@click.option("--quick", is_flag=True, help="Small rounds, a short warm-up, and a choice of rows: five minutes.")
@click.option("--suite", "suites", type=click.Choice(list(SUITES)), multiple=True, help="Only these; all without.")
@click.option("--rows", "patterns", default="", help="Beginnings of row keys, as in produce,round-trip.")
@click.option("--resume", is_flag=True, help="Leave out rows that were played already and did not fail.")
@click.option("--page", "only_page", is_flag=True, help="Play nothing: make table and page of what was played.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds per row and side.")
@click.option(
    "--minutes",
    type=click.FloatRange(1),
    help="Shorter rounds, and fewer where they would take longer than this; 5 if --quick.",
)
@click.option("--warm", "warm_s", type=click.FloatRange(0), help="Seconds to warm a JVM before the first row.")
@click.option("--a", "a_program", type=click.Choice(CHOSEN), default="apache-kafka", show_default=True)
@click.option("--b", "b_program", type=click.Choice(CHOSEN), default="kpybroker", show_default=True)
@click.option(
    "--sides",
    "further",
    type=click.Choice(list(beside.SIDES)),
    multiple=True,
    help="These play in the same rounds what they can: the bare ceiling, other brokers.",
)
@click.option("--kpybroker", type=COMMAND, help="The kpybroker command of another environment than this one.")
@click.option("--before", type=COMMAND, help="A is an older kpybroker: the command of the environment that has it.")
@click.option(
    "--restart-gb",
    type=click.FloatRange(0.001),
    help="GB in the topic of restart-full; else 10, or less on a small disk.",
)
@click.option("--compacted-gb", type=click.FloatRange(0.01), help="GB of tail-beside-compaction; else 1.5.")
@click.option("--output", type=DIRECTORY, help="Where the results go; build/bench/full or build/bench/quick without.")
@click.option("--data", type=DIRECTORY, help="An existing directory for the brokers' data.")
@click.option("--list", "listed", is_flag=True, help="Print the keys of all rows and end.")
def main(
    quick: bool,
    suites: tuple[str, ...],
    patterns: str,
    resume: bool,
    only_page: bool,
    rounds: int | None,
    minutes: float | None,
    warm_s: float | None,
    a_program: str,
    b_program: str,
    further: tuple[str, ...],
    kpybroker: Path | None,
    before: Path | None,
    restart_gb: float | None,
    compacted_gb: float | None,
    output: Path | None,
    data: Path | None,
    listed: bool,
) -> None:
    """Compare two brokers, A and B, in one run, in alternating rounds.

    Ends with code 1 when a row misses the required ratio or fails.
    """
    effort = QUICK if quick else BRIEF if minutes else FULL
    effort = effort._replace(
        rounds=rounds or effort.rounds,
        warm_s=effort.warm_s if warm_s is None else warm_s,
        compacted_gb=compacted_gb or effort.compacted_gb,
        restart_gb=restart_gb or fitting_gb(effort.restart_gb, data or Path(tempfile.gettempdir())),
    )
    everything = rows_of(effort)
    chosen = [row for name in suites or SUITES for row in SUITES[name](effort)]
    if quick and not patterns and not suites:
        chosen = [row for row in chosen if row.key in QUICK_ROWS]
    rows = selected(chosen, patterns)
    if listed:
        click.echo("\n".join(row.key for row in rows))
        return
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    if before is not None:
        KpybrokerBefore.path = before.absolute()
        a_program = KpybrokerBefore.program
    names = (a_program, b_program)
    seconds = 60 * (minutes or (QUICK_MINUTES if quick and not rounds else math.inf))
    place = output or OUTPUT / ("quick" if quick else "full")
    built = beside.possible(further, lambda line: click.echo(line, err=True)) if not only_page else []
    run = Run(rows, effort, names, versions(names), place, data, seconds, commit(), built)
    if resume:
        run = run._replace(rows=[row for row in rows if not played(run, row.key)])
    if run.rows and not only_page:
        compare(run, Console(stderr=True))
    publish(kept.load_all(run.kept_rows, [row.key for row in everything], names), run.output)
    mine = kept.load_all(run.kept_rows, [row.key for row in rows], names)
    raise SystemExit(1 if report.missed([each.result for each in mine]) else 0)


def rows_of(effort: Effort) -> list[Row]:
    """Every row there is."""
    return [row for suite in SUITES.values() for row in suite(effort)]


def versions(names: tuple[str, str]) -> tuple[str, str]:
    """The versions of both programs; builds the load generator too. Raises click.ClickException if one is missing."""
    try:
        load.program()
        return version(names[0]), version(names[1])
    except (load.LoadError, SideError) as problem:
        raise click.ClickException(str(problem)) from None


def selected(rows: list[Row], patterns: str) -> list[Row]:
    """The rows whose key is one of the patterns or begins with one; all without any. Raises click.BadParameter."""
    beginnings = [part.strip() for part in patterns.split(",") if part.strip()]
    for beginning in beginnings:
        if not any(row.key.startswith(beginning) for row in rows):
            raise click.BadParameter(f"no row begins with {beginning}; rows: {', '.join(row.key for row in rows)}")
    exact = {row.key for row in rows}.intersection(beginnings)
    others = tuple(set(beginnings) - exact)
    return [row for row in rows if not beginnings or row.key in exact or row.key.startswith(others)]


def played(run: Run, key: str) -> bool:
    """Whether a row is kept of the same programs, with as many rounds and all further sides, and without a failure."""
    before = kept.load(run.kept_rows, key)
    if before is None or before.result.failure:
        return False
    around = before.circumstances
    if not set(run.further) <= {*before.result.beside, *before.result.apart}:
        return False
    return (around.names, around.versions) == (run.names, run.versions) and around.rounds >= run.effort.rounds


def compare(run: Run, console: Console) -> None:
    """Starts both brokers, warms them, plays every row and keeps each as soon as it is over."""
    keys = [row.key for row in run.rows]
    ends, over_s, pace = 0, time.monotonic() + run.seconds, Pace()
    with (
        tempfile.TemporaryDirectory(prefix="kpybench-", dir=run.data) as directory,
        Watch(console, sum(2 * row.effort.rounds for row in run.rows)) as watch,
        Side("A", run.names[0], Path(directory) / "a") as a,
        Side("B", run.names[1], Path(directory) / "b") as b,
        beside.running(run.further, Path(directory), watch.show_remark) as further,
    ):
        for side in (a, b):
            pace.wait()
            warm(side, rows_of, keys, run.effort.warm_s, watch.say)
        expected_s = sum(row.expected_s for row in run.rows)
        for row in run.rows:
            revive((a, b), watch)
            began_s = time.monotonic()
            share_s = (over_s - began_s) * row.expected_s / expected_s
            expected_s -= row.expected_s
            result = play(row, a, b, watch, began_s + share_s, pace, further)
            kept.keep(run.kept_rows, Kept(result, run.circumstances(row, result, time.monotonic() - began_s)))
            ends += 2 * row.effort.rounds
            watch.advance(ends)
            show(result, watch)
        for side in (a, b, *further):
            side.keep_output(run.output)


def revive(sides: Sequence[Side], watch: Watch) -> None:
    """A broker that died in one row plays the next one again."""
    for side in sides:
        try:
            side.revive()
        except BrokerProcessError as problem:
            watch.say(str(problem))


def show(result: Result, watch: Watch) -> None:
    for comparison in result.comparisons():
        watch.show(comparison)
    for program in result.beside:
        for comparison in result.comparisons_with(program):
            watch.show(comparison._replace(row=f"{comparison.row}, beside {program}"))
    for program, reason in result.apart.items():
        watch.show_remark(f"{result.title}: without {program}: {reason}")
    if result.failure:
        watch.show_failure(result.title, result.failure)


def publish(rows: Sequence[Kept], output: Path) -> None:
    """Prints the table of all that is kept and writes table, raw rounds and page."""
    if not rows:
        raise click.ClickException(f"nothing has been played yet that {output} would keep")
    table = report.markdown(rows)
    (output / "results.md").write_text(table)
    (output / "results.json").write_text(report.raw_json(rows))
    (output / "results.html").write_text(page(rows))
    click.echo(table)
    click.echo(f"Written: {output / 'results.md'}, results.json, results.html; each row alone in rows/.")
