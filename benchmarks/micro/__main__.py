"""``python -m benchmarks.micro``."""

from importlib import import_module

import click
from rich.console import Console
from rich.table import Table

from benchmarks.micro import clock

SUBJECTS = (
    *("codec", "batches", "columns", "appending", "handling", "authorizing", "scraping", "auditing", "lake"),
    "balancing",
)


@click.command()
@click.argument("subjects", nargs=-1, type=click.Choice(SUBJECTS))
@click.option("--profile", "wanted", help="Profile the operations whose name contains this text instead of timing all.")
def main(subjects: tuple[str, ...], wanted: str | None) -> None:
    """Time kpybroker's modules on their own."""
    console = Console()
    for subject in subjects or SUBJECTS:
        table = Table("operation", "µs", "µs each", title=subject, title_justify="left")
        for operation in import_module(f"benchmarks.micro.{subject}").operations():
            if wanted is not None:
                if wanted in operation.name:
                    clock.profile(operation)
                continue
            us = clock.best_us(operation)
            each = f"{us / operation.per:.3f} per {operation.unit} of {operation.per}" if operation.unit else ""
            table.add_row(operation.name, f"{us:.2f}", each)
        if wanted is None:
            console.print(table)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.micro")
