"""``python -m tests.budget``: what a request costs now, beside the budget; ``--write`` makes it the budget."""

import sys
import tempfile
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "compat-tests")]


@click.command()
@click.option("--write", is_flag=True, help="Make what is counted now the budget.")
@click.option("--functions", metavar="SCENARIO", help="Also every call of one scenario, such as heartbeat.")
def main(write: bool, functions: str | None) -> None:
    """Count the work of one request of each scenario, beside the committed budget."""
    from . import counting, held

    problem = counting.missing_for_strace()
    if write and problem:
        raise click.ClickException(f"a budget without system calls would hold nothing: {problem}")
    before = held.read()[1] if held.BUDGET.exists() else {}
    with tempfile.TemporaryDirectory(prefix="kpybudget-") as directory:
        now = counting.measured(Path(directory))
    table = Table("a request", *held.KINDS.values(), "bytes at once", "bytes left behind")
    for name, work in now.items():
        cells = [shown(work[kind], before.get(name, {}).get(kind)) for kind in held.KINDS]
        table.add_row(name, *cells, str(work["peak_bytes"]), str(work["held_bytes"]))
    Console().print(table)
    if functions:
        for kind in held.KINDS:
            for name, count in (now[functions][kind] or {}).items():
                click.echo(f"{count:8.2f}  {name}")
    if write:
        held.write(now)
        click.echo(f"Written: {held.BUDGET}")


def shown(now: dict[str, float] | None, before: dict[str, float] | None) -> str:
    """The figures, and what they were if that differs."""
    if now is None:
        return "not counted"
    count = sum(now.values())
    was = None if before is None else sum(before.values())
    return f"{count:.2f}" if was is None or abs(was - count) < 0.01 * count else f"{count:.2f} ({was:.2f})"


if __name__ == "__main__":
    main(prog_name="python -m tests.budget")
