"""Tables for people and JSON for programs: the output of commands. Pure, except for `show_json`."""

import json
import unicodedata
from collections.abc import Sequence
from typing import Any

import click

from kpybroker.cli.control_characters import CONTROL

_JOINER = "\u200d"
_AS_EMOJI = "\ufe0f"
"""The letter before it is shown as an emoji, which is wide."""
_SKINS = "\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff"


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


def time_text(timestamp_ms: int) -> str:
    """``2026-01-31T12:00:00Z``; the number itself where it is no time."""
    from datetime import UTC, datetime  # most tables have no times

    try:
        return datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (OverflowError, ValueError, OSError):
        return str(timestamp_ms)


def columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """A table of aligned columns, never cut off. Numbers are aligned to the right, and so is the sign for a missing
    one."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    widths = [max(map(width_of, column)) for column in zip(headings, *cells, strict=True)]
    right = [_is_numeric([row[index] for row in rows]) for index in range(len(headings))]

    def line(row: Sequence[str]) -> str:
        padded = []
        for cell, width, to_right in zip(row, widths, right, strict=True):
            blank = " " * (width - width_of(cell))
            padded.append(blank + cell if to_right else cell + blank)
        return "  ".join(padded).rstrip()

    return "\n".join(line(row) for row in [headings, *cells])


def width_of(text: str) -> int:
    """The columns of a terminal that a text takes: two for wide letters and emoji, none for what joins the letter
    before it."""
    if text.isascii():
        return len(text)
    width = last = 0
    is_joined = False
    for letter in text:
        if letter == _JOINER:
            is_joined = True
        elif letter == _AS_EMOJI and last == 1:
            width, last = width + 1, 2
        elif not _takes_no_room(letter) and not (letter in _SKINS and last == 2):
            last = 2 if unicodedata.east_asian_width(letter) in "WF" else 1
            width += 0 if is_joined else last
            is_joined = False
    return width


def _takes_no_room(letter: str) -> bool:
    return unicodedata.category(letter) in ("Mn", "Me", "Cf") or "\u1160" <= letter <= "\u11ff"


def _is_numeric(column: Sequence[object]) -> bool:
    return any(isinstance(cell, int) for cell in column) and all(
        isinstance(cell, int) or cell in ("-", "?") for cell in column
    )
