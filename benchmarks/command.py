"""The command line: which rows, how much work, which programs."""

import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape

from benchmarks import CHECKOUT, report
from benchmarks.match import Result, play, warm
from benchmarks.page import page
from benchmarks.raw import load
from benchmarks.rows import SUITES, Row, RowsOf
from benchmarks.rows.row import FULL, QUICK, Effort
from benchmarks.sides import PROGRAMS, Kpybroker, Side, SideError, version

DIRECTORY = click.Path(path_type=Path, file_okay=False)
COMMAND = click.Path(path_type=Path, dir_okay=False, exists=True)
OUTPUT = CHECKOUT / "build" / "bench"


@click.command()
@click.option("--quick", is_flag=True, help="Small rounds and a short warm-up: about five minutes.")
@click.option("--suite", type=click.Choice(list(SUITES)), default="speed", show_default=True)
@click.option("--rows", "patterns", default="", help="Beginnings of row keys, as in produce,round-trip.")
@click.option("--rounds", type=click.IntRange(1), help="Rounds per row and side.")
@click.option("--warm", "warm_s", type=click.FloatRange(0), help="Seconds to warm a JVM before the first row.")
@click.option("--a", "a_program", type=click.Choice(list(PROGRAMS)), default="apache-kafka", show_default=True)
@click.option("--b", "b_program", type=click.Choice(list(PROGRAMS)), default="kpybroker", show_default=True)
@click.option("--kpybroker", type=COMMAND, help="The kpybroker command of another environment than this one.")
@click.option("--partitions", type=click.IntRange(1), help="Partitions of the throughput topics.")
@click.option("--output", type=DIRECTORY, help="Where the results go; build/bench/SUITE without.")
@click.option("--data", type=DIRECTORY, help="An existing directory for the brokers' data.")
@click.option("--list", "listed", is_flag=True, help="Print the keys of all rows and end.")
def main(
    quick: bool,
    suite: str,
    patterns: str,
    rounds: int | None,
    warm_s: float | None,
    a_program: str,
    b_program: str,
    kpybroker: Path | None,
    partitions: int | None,
    output: Path | None,
    data: Path | None,
    listed: bool,
) -> None:
    """Compare two brokers, A and B, in one run, in alternating rounds.

    Ends with code 1 when a row misses the required ratio or fails.
    """
    effort = QUICK if quick else FULL
    effort = effort._replace(
        rounds=rounds or effort.rounds,
        warm_s=effort.warm_s if warm_s is None else warm_s,
        partitions=partitions or effort.partitions,
    )
    rows = selected(SUITES[suite](effort), patterns)
    if listed:
        click.echo("\n".join(row.key for row in rows))
        return
    output = output or OUTPUT / suite
    output.mkdir(parents=True, exist_ok=True)
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    try:
        load.program()
        versions = (version(a_program), version(b_program))
    except (load.LoadError, SideError) as problem:
        raise click.ClickException(str(problem)) from None
    results = run(rows, SUITES[suite], effort, (a_program, b_program), data, output, Console(stderr=True))
    publish(results, (a_program, b_program), versions, effort.rounds, output)
    raise SystemExit(1 if report.missed(results) else 0)


def selected(rows: list[Row], patterns: str) -> list[Row]:
    """The rows whose key is one of the patterns or begins with one; all without any. Raises click.BadParameter."""
    beginnings = [part.strip() for part in patterns.split(",") if part.strip()]
    for beginning in beginnings:
        if not any(row.key.startswith(beginning) for row in rows):
            raise click.BadParameter(f"no row begins with {beginning}; rows: {', '.join(row.key for row in rows)}")
    exact = {row.key for row in rows}.intersection(beginnings)
    others = tuple(set(beginnings) - exact)
    return [row for row in rows if not beginnings or row.key in exact or row.key.startswith(others)]


def run(
    rows: list[Row],
    rows_of: RowsOf,
    effort: Effort,
    programs: tuple[str, str],
    data: Path | None,
    output: Path,
    console: Console,
) -> list[Result]:
    """Starts both brokers, warms them, plays every row."""
    results = []
    with tempfile.TemporaryDirectory(prefix="kpybench-", dir=data) as directory:
        root = Path(directory)
        with console.status("starting") as status:

            def say(text: str) -> None:
                status.update(escape(text))

            with Side("A", programs[0], root / "a") as a, Side("B", programs[1], root / "b") as b:
                for side in (a, b):
                    warm(side, rows_of, [row.key for row in rows], effort.warm_s, say)
                for row in rows:
                    result = play(row, a, b, say)
                    results.append(result)
                    show(result, console)
                for side in (a, b):
                    side.keep_output(output)
    return results


def show(result: Result, console: Console) -> None:
    """One line per figure as soon as its row is played."""
    for comparison in result.comparisons():
        ratios = comparison.ratios
        colour = {"aim": "green", "ok": "yellow", "MISS": "red"}[comparison.verdict]
        spread = f"({ratios.smallest:.2f}-{ratios.largest:.2f})"
        line = f"[{colour}]{ratios.median:6.2f}[/] {spread:>14}  {comparison.row}: {comparison.figure.name}"
        console.print(line, soft_wrap=True)
    if result.failure:
        console.print(f"[red]FAILED[/] {escape(result.title)}: {escape(result.failure)}", soft_wrap=True)


def publish(
    results: list[Result], names: tuple[str, str], versions: tuple[str, str], rounds: int, output: Path
) -> None:
    """Prints the table and writes table, raw rounds and page."""
    table = report.markdown(results, names, versions, rounds)
    (output / "results.md").write_text(table)
    (output / "results.json").write_text(report.raw_json(results, names, versions, rounds))
    (output / "results.html").write_text(page(results, names, table))
    click.echo(table)
    click.echo(f"Written: {output / 'results.md'}, results.json, results.html and what the brokers wrote beside it.")
