"""``python -m benchmarks.micro``."""

import sys
from importlib import import_module

from rich.console import Console
from rich.table import Table

SUBJECTS = ("codec", "batches", "appending")


def main(wanted: list[str]) -> None:
    console = Console()
    for subject in wanted or list(SUBJECTS):
        table = Table("operation", "µs", "µs per", title=subject, title_justify="left")
        for timing in import_module(f"benchmarks.micro.{subject}").timings():
            each = f"{timing.us / timing.per:.3f} per {timing.unit} of {timing.per}" if timing.unit else ""
            table.add_row(timing.name, f"{timing.us:.2f}", each)
        console.print(table)


if __name__ == "__main__":
    main(sys.argv[1:])
