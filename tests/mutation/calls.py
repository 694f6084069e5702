"""A plugin of pytest: the functions of some modules that each test calls, and the CPU time that it takes."""

import json
import sys
import threading
import time
import types
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

Function = tuple[str, str, int]
"""The module, the qualified name and the first line of a function."""


class Played(NamedTuple):
    """A test that passed without a mutant."""

    number: int
    """Its place among the collected tests."""
    module: str
    cpu_s: float
    called: frozenset[Function]
    """The functions that it calls, and those that the fixtures of its module call."""


class Calls:
    """Notes the calls of functions in ``files`` while tests run."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._of_tests: dict[str, set[types.CodeType]] = {}
        self._of_fixtures: dict[str, set[types.CodeType]] = {}
        self._cpu_s: dict[str, float] = {}
        self._now: set[types.CodeType] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        begun_s = time.process_time()
        self._note_in(self._of_fixtures.setdefault(str(item.path), set()))
        try:
            return (yield)
        finally:
            sys.settrace(None)
            self._cpu_s[item.nodeid] = time.process_time() - begun_s

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        fixtures = self._now
        self._note_in(self._of_tests.setdefault(item.nodeid, set()))
        try:
            return (yield)
        finally:
            self._note_in(fixtures)

    def _note_in(self, codes: set[types.CodeType]) -> None:
        self._now = codes
        threading.settrace(self._called)
        sys.settrace(self._called)

    def _called(self, frame: types.FrameType, _event: str, _argument: object) -> None:
        if frame.f_code.co_filename in self._files:
            self._now.add(frame.f_code)

    def write(self, notes: Path, items: Iterable[pytest.Item]) -> None:
        """Write what was noted of these tests."""
        played = []
        for number, item in enumerate(items):
            codes = self._of_tests.get(item.nodeid, set()) | self._of_fixtures[str(item.path)]
            called = [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in codes]
            played.append((number, str(item.path), self._cpu_s[item.nodeid], called))
        notes.write_text(json.dumps(played))


def read(notes: Path) -> list[Played]:
    """The tests of which `Calls` has written."""
    return [
        Played(number, module, cpu_s, frozenset((path, name, line) for path, name, line in called))
        for number, module, cpu_s, called in json.loads(notes.read_text())
    ]
