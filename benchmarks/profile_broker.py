"""A profile of a kpybroker's CPU time while it plays one row.

    python -m benchmarks.profile_broker ROW [--by sample|cprofile|perf|strace] [--rounds N] [--top N]

``sample`` looks at the Python stack every millisecond and disturbs least; ``cprofile`` counts calls and makes small
functions look expensive; ``perf`` shows the C functions and the kernel (needs Linux's perf); ``strace`` counts system
calls (needs strace).
"""

import json
import pstats
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import click

from benchmarks.figures import shown
from benchmarks.rows import SUITES, Row
from benchmarks.rows.row import QUICK
from benchmarks.sides import Kpybroker, Side

SAMPLING: Final = Path(__file__).with_name("sampling.py")
TITLES: Final = {"functions": "by function", "lines": "by line", "with_callees": "by function, with all it calls"}


def launcher(by: str, output: Path) -> Sequence[str]:
    """The command before the program, which observes it."""
    match by:
        case "sample":
            return [sys.executable, str(SAMPLING), str(output)]
        case "cprofile":
            return [sys.executable, "-m", "cProfile", "-o", str(output)]
        case "strace":
            return ["strace", "-D", "-f", "-c", "-S", "calls", "-o", str(output)]
        case _:
            return []


@click.command()
@click.argument("row_key", metavar="ROW")
@click.option("--by", type=click.Choice(["sample", "cprofile", "perf", "strace"]), default="sample", show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--top", type=click.IntRange(1), default=25, show_default=True, help="Lines to print of each list.")
def main(row_key: str, by: str, rounds: int, top: int) -> None:
    """Play the row whose key is ROW or begins so on a kpybroker under observation and print where its time goes."""
    rows = [row for suite in SUITES.values() for row in suite(QUICK)]
    rows.sort(key=lambda row: row.key != row_key)
    row = next((row for row in rows if row.key.startswith(row_key)), None)
    if row is None:
        raise click.BadParameter(f"no row begins with {row_key}")
    if by in ("perf", "strace") and not shutil.which(by):
        raise click.ClickException(f"{by} is not installed")
    with tempfile.TemporaryDirectory(prefix="kpyprofile-") as directory:
        output = Path(directory) / "profile"
        broker = Kpybroker(Path(directory) / "broker", launcher(by, output))
        with Side("B", "kpybroker", Path(directory), broker) as side:
            row.open(side)
            row.play(side)
            watching = watch(side.broker.pid, output) if by == "perf" else None
            for _ in range(rounds):
                click.echo(", ".join(f"{name} {shown(value)}" for name, value in row.play(side).items()))
            if watching is not None:
                watching.terminate()
                watching.wait()
        report(by, output, row, top)


def watch(pid: int, output: Path) -> subprocess.Popen[bytes]:
    command = ["perf", "record", "-q", "-g", "-F", "997", "-p", str(pid), "-o", str(output)]
    return subprocess.Popen(command, stderr=subprocess.DEVNULL)


def report(by: str, output: Path, row: Row, top: int) -> None:
    click.echo(f"\n{row.title}, by {by}")
    match by:
        case "sample":
            print_samples(output, top)
        case "cprofile":
            pstats.Stats(str(output)).sort_stats("tottime").print_stats(top)
        case "perf":
            command = [
                "perf",
                "report",
                "-i",
                str(output),
                "--no-children",
                "-g",
                "none",
                "--stdio",
                "--sort",
                "dso,symbol",
            ]
            printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
            rows = [line for line in printed.splitlines() if line and not line.startswith("#")]
            click.echo("\n".join(rows[:top]))
        case _:
            click.echo("\n".join(output.read_text().splitlines()[: top + 2]))


def print_samples(output: Path, top: int) -> None:
    sampled = json.loads(output.read_text())
    total = sum(sampled["functions"].values())
    for kind, title in TITLES.items():
        click.echo(f"\n{title} (share of {total} looks)")
        ordered = sorted(sampled[kind].items(), key=lambda item: -item[1])
        for name, count in ordered[:top]:
            click.echo(f"{count / total * 100:6.1f} %  {name}")


if __name__ == "__main__":
    main()
