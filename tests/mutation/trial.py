"""The tests of a package, played over its mutants.

The tests are imported once. Each mutant lives in a fork of that process, in which the code of the changed function is
replaced; so no file is written, and a mutant costs no imports. Only the test modules that call the changed function are
played, the quickest first; a first run without a mutant says which they are. A fork has a limit of CPU time: one that
does not end in it counts as found.
"""

import faulthandler
import gc
import importlib
import json
import os
import resource
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from .mutants import Mutant, tree_with
from .packages import QUICK, ROOT, Package

FOUND, SURVIVED, NOT_CALLED, NOT_RUN = "found", "survived", "not called by any test", "not run"
LEAST_CPU_S: Final = 5
TIMES_THE_TESTS: Final = 2
"""The CPU time of a mutant, in that of the tests without one, which are slower: their calls are noted."""
ASLEEP_S: Final = 240
"""A mutant that waits this long for what never happens is found."""
NOTHING_TO_CHANGE: Final = 99


class Outcome(NamedTuple):
    """The fate of one mutant."""

    mutant: Mutant
    fate: str
    cpu_s: float


Function = tuple[str, str, int]
"""The module, the qualified name and the first line of a function."""


class Trial:
    """The imported tests of one package."""

    def __init__(self, package: Package, log: Path) -> None:
        self._log = log
        self._tests = [str(ROOT / "tests" / each) for each in package.tests]
        self._tests = [each for each in self._tests if Path(each).exists()]
        with _output_in(log):
            self.has_tests = bool(self._tests) and self._play("--collect-only") == 0
        for name in package.modules():
            importlib.import_module(name)  # some are imported only when they are used
        self.cpu_s = 0.0
        self._files = {str(path) for path in package.files()}
        self._called: dict[str, tuple[float, set[Function]]] = {}
        """The CPU time of each test module, and the functions that it calls."""

    def without_mutant(self) -> bool:
        """Whether the tests pass as they are. Notes their CPU time, and the functions that they call."""
        notes = self._log.with_suffix(".called")

        def run() -> int:
            calls = Calls(self._files)
            code = self._play("-x", plugins=[calls])
            notes.write_text(calls.as_json())
            return code

        code, self.cpu_s = self._in_fork(run, ASLEEP_S * 10)
        if code == 0:
            for module, (cpu_s, functions) in json.loads(notes.read_text()).items():
                self._called[module] = cpu_s, {(path, name, line) for path, name, line in functions}
        notes.unlink(missing_ok=True)
        return code == 0

    def play(self, mutant: Mutant) -> Outcome:
        """Play the tests over a mutant."""
        changed = _changed(mutant)
        callers = sorted(
            (cpu_s, each) for each, (cpu_s, called) in self._called.items() if not called.isdisjoint(changed)
        )
        if not callers:
            return Outcome(mutant, NOT_CALLED, 0.0)
        tests_s = sum(cpu_s for cpu_s, _ in callers)
        limit_s = int(TIMES_THE_TESTS * tests_s) + LEAST_CPU_S

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
            return self._play("-x", tests=[each for _, each in callers]) if _plant(changed) else NOTHING_TO_CHANGE

        code, cpu_s = self._in_fork(run, ASLEEP_S + 10 * tests_s)
        fate = SURVIVED if code == 0 else NOT_RUN if code == NOTHING_TO_CHANGE else FOUND
        return Outcome(mutant, fate, cpu_s)

    def _play(self, *options: str, tests: list[str] | None = None, plugins: list[Any] | None = None) -> int:
        order = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "-m", QUICK]
        code = int(pytest.main([f"--rootdir={ROOT}", *order, *options, *(tests or self._tests)], plugins))
        faulthandler.cancel_dump_traceback_later()  # conftest's, for a process that does not end: this one goes on
        gc.unfreeze()
        return code

    def _in_fork(self, run: Callable[[], int], patience_s: float) -> tuple[int, float]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.setsid()
            with _output_in(self._log):
                try:
                    code = run()
                except BaseException:
                    code = 1
            os._exit(code)
        until = time.monotonic() + patience_s
        while True:
            ended, status, usage = os.wait4(child, os.WNOHANG)
            if ended:
                return os.waitstatus_to_exitcode(status), usage.ru_utime + usage.ru_stime
            if time.monotonic() > until:
                os.killpg(child, signal.SIGKILL)
            time.sleep(0.02)


class _output_in:  # noqa: N801  used like a function
    """Standard output and error of the block are in a file."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._kept = [os.dup(1), os.dup(2)]
        out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(out)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        for number, kept in enumerate(self._kept, 1):
            os.dup2(kept, number)
            os.close(kept)


class Calls:
    """A plugin of pytest: the functions of some modules that each test module calls."""

    def __init__(self, files: set[str]) -> None:
        self._files = files
        self._cpu_s: dict[str, float] = {}
        self._codes: dict[str, set[types.CodeType]] = {}
        self._now: set[types.CodeType] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        module = str(item.path)
        self._now = self._codes.setdefault(module, set())
        begun_s = time.process_time()
        threading.setprofile(self._called)
        sys.setprofile(self._called)
        try:
            return (yield)
        finally:
            sys.setprofile(None)
            self._cpu_s[module] = self._cpu_s.get(module, 0.0) + time.process_time() - begun_s

    def _called(self, frame: types.FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in self._files:
            self._now.add(frame.f_code)

    def as_json(self) -> str:
        """The CPU time of each test module, and the functions that it calls."""
        return json.dumps(
            {
                module: (
                    self._cpu_s[module],
                    [(code.co_filename, code.co_qualname, code.co_firstlineno) for code in codes],
                )
                for module, codes in self._codes.items()
            }
        )


def _changed(mutant: Mutant) -> dict[Function, types.CodeType]:
    """The functions that a mutant changes, those around the changed one too, with their new code."""
    path = str(mutant.path)
    as_it_is = set(_codes(compile(mutant.path.read_text(), path, "exec")))
    return {
        (path, code.co_qualname, code.co_firstlineno): code
        for code in _codes(compile(tree_with(mutant), path, "exec"))
        if code not in as_it_is
    }


def _plant(changed: dict[Function, types.CodeType]) -> bool:
    """Give the functions their new code; False if there is none of them."""
    planted = False
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType):
            old = function.__code__
            new = changed.get((old.co_filename, old.co_qualname, old.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(old.co_freevars):
                function.__code__ = new
                planted = True
    return planted


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from _codes(each)
