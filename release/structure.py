"""Prints the structure of the packages that are shipped: ``python -m release.structure [DIRECTORY]``.

A room is an entry of ``kpybroker/``, or another package. An arrow leads from a room to one whose modules it imports, in
functions and for type checkers, too. The floor of a room is above those of all rooms that it imports. A circle is a set
of modules that import one another.
"""

import ast
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

PACKAGES: Final = ("kpybroker", "pyspark_kpybroker", "wire/kpywire", "storage/kpystorage")

Imports = Mapping[str, frozenset[str]]
"""The modules that each module imports."""


class Structure(NamedTuple):
    """The arrows between rooms, the floor of each room (from 1), and the circles of modules."""

    arrows: Imports
    floors: Mapping[str, int]
    circles: tuple[tuple[str, ...], ...]

    def __str__(self) -> str:
        count = sum(len(rooms) for rooms in self.arrows.values())
        return (
            f"{len(self.arrows)} rooms on {max(self.floors.values())} floors, {count} arrows, "
            f"{len(self.circles)} circles of modules"
        )


def imports_below(root: Path) -> Imports:
    """The imports among the modules of all shipped packages."""
    paths = dict(_modules(root))
    return {name: frozenset(_imported(path, paths) - {name}) for name, path in paths.items()}


def structure_of(imports: Imports) -> Structure:
    """The rooms of these modules. Raises RecursionError if rooms import one another."""
    arrows: dict[str, set[str]] = {room_of(name): set() for name in imports}
    for name, others in imports.items():
        arrows[room_of(name)] |= {room_of(other) for other in others} - {room_of(name)}
    floors: dict[str, int] = {}
    for room in arrows:
        _floor_of(room, arrows, floors)
    circles = tuple(tuple(sorted(circle)) for circle in _circles(imports) if len(circle) > 1)
    return Structure({room: frozenset(others) for room, others in arrows.items()}, floors, circles)


def room_of(module: str) -> str:
    """The room of a module: its package, and in kpybroker the entry below it."""
    parts = module.split(".")
    return ".".join(parts[: 2 if parts[0] == "kpybroker" else 1])


def _modules(root: Path) -> Iterator[tuple[str, Path]]:
    for package in PACKAGES:
        home = (root / package).parent
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(home).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            named = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules else node.module for name in named}
    return found & modules.keys()


def _floor_of(room: str, arrows: Mapping[str, Iterable[str]], floors: dict[str, int]) -> int:
    if room not in floors:
        floors[room] = 1 + max((_floor_of(other, arrows, floors) for other in arrows[room]), default=0)
    return floors[room]


def _circles(imports: Imports) -> Iterator[set[str]]:
    """The strongly connected components, by Kosaraju's algorithm."""
    order: list[str] = []
    seen: set[str] = set()
    for name in imports:
        _leave_in_order(name, imports, seen, order)
    importers: dict[str, set[str]] = {name: set() for name in imports}
    for name, others in imports.items():
        for other in others:
            importers[other].add(name)
    seen = set()
    for name in reversed(order):
        circle: list[str] = []
        _leave_in_order(name, importers, seen, circle)
        yield set(circle)


def _leave_in_order(first: str, arrows: Mapping[str, Iterable[str]], seen: set[str], order: list[str]) -> None:
    """Append all modules that are reached from ``first`` and not seen yet, each after those that it leads to."""
    if first in seen:
        return
    seen.add(first)
    way = [(first, iter(arrows[first]))]
    while way:
        name, others = way[-1]
        following = next((other for other in others if other not in seen), None)
        if following is None:
            order.append(name)
            way.pop()
        else:
            seen.add(following)
            way.append((following, iter(arrows[following])))


if __name__ == "__main__":
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = structure_of(imports_below(root))
    for room in sorted(found.arrows, key=lambda each: (-found.floors[each], each)):
        print(f"{found.floors[room]:3} {room:24} {' '.join(sorted(found.arrows[room]))}")
    for circle in found.circles:
        print("circle:", " ".join(circle))
    print(found)
