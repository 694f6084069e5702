"""Results of single rows as JSON files, so that a long run can be cut into pieces, and one page made of all of them.

One file per row, named by its key; a row that is played again replaces its file. A file that is not one of these is
left alone and not read.
"""

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figures import Figure
from benchmarks.match import Result
from benchmarks.rows.row import Point

FORM = 1


class Circumstances(NamedTuple):
    """The conditions that the figures of a row depend on, and when they were taken."""

    names: tuple[str, str]
    versions: tuple[str, str]
    rounds: int
    machine: str
    at: str
    """Local date and time."""
    rounds_of: str = ""
    """How long they were, in words."""
    took_s: float = 0.0
    """All of it."""
    commit: str = ""
    """The commit of the sources that were measured."""


class Kept(NamedTuple):
    result: Result
    circumstances: Circumstances


def keep(directory: Path, kept: Kept) -> None:
    """Writes the file of one row, whole or not at all."""
    directory.mkdir(parents=True, exist_ok=True)
    result = {
        **asdict(kept.result),
        "figures": [figure._asdict() for figure in kept.result.figures],
        "points": [point._asdict() for point in kept.result.points],
    }
    written = {"form": FORM, "circumstances": kept.circumstances._asdict(), "result": result}
    target = directory / f"{kept.result.key}.json"
    beside = target.with_suffix(".part")
    beside.write_text(json.dumps(written, indent=1))
    beside.replace(target)


def load(directory: Path, key: str) -> Kept | None:
    """The kept result of a row, if there is something that can be read."""
    try:
        read = json.loads((directory / f"{key}.json").read_text())
        return _parsed(read) if read["form"] == FORM else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_all(directory: Path, keys: Iterable[str], names: tuple[str, str]) -> list[Kept]:
    """The kept results of these rows, of these two sides, in their order."""
    found = [load(directory, key) for key in keys]
    return [kept for kept in found if kept is not None and kept.circumstances.names == names]


def _parsed(read: dict[str, Any]) -> Kept:
    result, around = read["result"], read["circumstances"]
    figures = tuple(Figure(**figure) for figure in result.pop("figures"))
    points = tuple(Point(**point) for point in result.pop("points"))
    pairs = {name: (around[name][0], around[name][1]) for name in ("names", "versions")}
    return Kept(Result(**result, figures=figures, points=points), Circumstances(**{**around, **pairs}))
