"""A plugin of pytest: the functions of some modules that each test calls, and the CPU time that it takes."""

import ast
import builtins
import json
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from .planting import Function, codes_of, plant

NOTE: Final = "__note_call__"
"""The name of the function that functions call."""


class Played(NamedTuple):
    """A test that passed without a mutant."""

    number: int
    """Its place among the collected tests."""
    module: str
    cpu_s: float
    called: frozenset[Function]
    """The functions that it calls, and those that the fixtures of its module call."""


class Calls:
    """Notes which functions of some modules are called while tests run.

    Each function notes itself: it gets the same code with one statement before it. To trace all calls would take
    several times the CPU time of the tests.
    """

    def __init__(self, paths: Iterable[Path]) -> None:
        self._of_tests: dict[str, set[Function]] = {}
        self._of_fixtures: dict[str, set[Function]] = {}
        self._cpu_s: dict[str, float] = {}
        self._now: set[Function] = set()
        setattr(builtins, NOTE, lambda *function: self._now.add(function))
        plant({place: code for path in paths for place, code in _noting(path)})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun_s = time.process_time()
        self._now = self._of_fixtures.setdefault(str(item.path), set())
        try:
            return (yield)
        finally:
            self._cpu_s[item.nodeid] = time.process_time() - begun_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        fixtures, self._now = self._now, self._of_tests.setdefault(item.nodeid, set())
        try:
            return (yield)
        finally:
            self._now = fixtures

    def write(self, notes: Path, items: Iterable[pytest.Item]) -> None:
        """Write what was noted of these tests."""
        played = []
        for number, item in enumerate(items):
            called = self._of_tests.get(item.nodeid, set()) | self._of_fixtures[str(item.path)]
            played.append((number, str(item.path), self._cpu_s[item.nodeid], sorted(called)))
        notes.write_text(json.dumps(played))


def read(notes: Path) -> list[Played]:
    """The tests of which `Calls` has written."""
    return [
        Played(number, module, cpu_s, frozenset((path, name, line) for path, name, line in called))
        for number, module, cpu_s, called in json.loads(notes.read_text())
    ]


def _noting(path: Path) -> Iterator[tuple[Function, types.CodeType]]:
    """The functions of a module with code that notes them."""
    tree = _Noting(path).visit(ast.parse(path.read_text()))
    return codes_of(ast.fix_missing_locations(tree), path)


class _Noting(ast.NodeTransformer):
    """Puts a statement into each function, which notes it by its place."""

    def __init__(self, path: Path) -> None:
        self._path = str(path)
        self._around: list[str] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        self._around.append(node.name)
        self.generic_visit(node)
        self._around.pop()
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        name = ".".join((*self._around, node.name))
        first_line = min([node.lineno, *(each.lineno for each in node.decorator_list)])
        self._around += (node.name, "<locals>")
        self.generic_visit(node)
        del self._around[-2:]
        place = [ast.Constant(each) for each in (self._path, name, first_line)]
        note = ast.copy_location(ast.Expr(ast.Call(ast.Name(NOTE, ast.Load()), place, [])), node.body[0])
        node.body.insert(0, note)
        return node
