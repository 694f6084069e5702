"""Tables for people and JSON for programs: the output of commands. Pure, except for `show_json`."""

import json
from collections.abc import Sequence
from typing import Any

import click

from kpybroker.cli.log_lines import CONTROL


def show_json(found: Any) -> None:
    """Print one JSON document."""
    click.echo(json.dumps(found, indent=2, ensure_ascii=False))


def printable(text: str) -> str:
    """The text without control characters: a name may come from any client, and the terminal is the reader's."""
    return text.translate(CONTROL)


def plural(count: int, noun: str) -> str:
    """``1 record``, ``2 records``."""
    return f"{count} {noun}{'s' * (count != 1)}"


def bytes_text(count: int) -> str:
    """``512 B``, ``1.5 KiB``: for people, who need three digits."""
    if count < 1024:
        return f"{count} B"
    size = float(count)
    for unit in ("KiB", "MiB", "GiB", "TiB"):
        size /= 1024
        if size < 1024 or unit == "TiB":
            break
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def duration_text(milliseconds: int) -> str:
    """``350 ms``, ``12 s``, ``5 min 3 s``, ``2 h 5 min``, ``3 d 4 h``: the two largest units."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    seconds = milliseconds // 1000
    units = (("d", 86_400), ("h", 3_600), ("min", 60), ("s", 1))
    parts: list[str] = []
    for name, size in units:
        if seconds >= size and len(parts) < 2:
            parts.append(f"{seconds // size} {name}")
            seconds %= size
        elif parts:
            break
    return " ".join(parts)


def columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns, never cut off. Numbers are aligned to the right, and so is the sign for a missing
    one."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(headings, *cells, strict=True)]
    right = [_is_numeric([row[index] for row in rows]) for index in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        padded = (
            cell.rjust(width) if to_right else cell.ljust(width)
            for cell, width, to_right in zip(row, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [headings, *cells])


def _is_numeric(column: Sequence[object]) -> bool:
    return any(isinstance(cell, int) for cell in column) and all(
        isinstance(cell, int) or cell in ("-", "?") for cell in column
    )
