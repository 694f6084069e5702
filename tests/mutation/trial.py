"""The tests of a package, played over its mutants.

The tests are imported once. Each mutant lives in a fork of that process, in which the code of the changed function is
replaced; so no file is written, and a mutant costs no imports. A fork has a limit of CPU time: one that does not end in
it counts as found.
"""

import faulthandler
import gc
import importlib
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from .mutants import Mutant, tree_with
from .packages import QUICK, ROOT, Package

FOUND, SURVIVED, NOT_RUN = "found", "survived", "not run"
LEAST_CPU_S: Final = 5
TIMES_THE_TESTS: Final = 4
"""The CPU time of a mutant, in that of the tests without one."""
ASLEEP_S: Final = 240
"""A mutant that waits this long for what never happens is found."""
NOTHING_TO_CHANGE: Final = 99


class Outcome(NamedTuple):
    """The fate of one mutant."""

    mutant: Mutant
    fate: str
    cpu_s: float


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

    def without_mutant(self) -> bool:
        """Whether the tests pass as they are. Notes their CPU time."""
        code, self.cpu_s = self._in_fork(lambda: self._play("-x"), ASLEEP_S * 10)
        return code == 0

    def play(self, mutant: Mutant) -> Outcome:
        """Play the tests over a mutant."""
        limit_s = int(TIMES_THE_TESTS * self.cpu_s) + LEAST_CPU_S

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
            return self._play("-x") if _plant(mutant) else NOTHING_TO_CHANGE

        code, cpu_s = self._in_fork(run, ASLEEP_S + 10 * self.cpu_s)
        fate = SURVIVED if code == 0 else NOT_RUN if code == NOTHING_TO_CHANGE else FOUND
        return Outcome(mutant, fate, cpu_s)

    def _play(self, *options: str) -> int:
        order = ["-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "-m", QUICK]
        code = int(pytest.main([f"--rootdir={ROOT}", *order, *options, *self._tests]))
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


def _plant(mutant: Mutant) -> bool:
    """Give the changed function of a module the code of its mutant; False if there is no such function."""
    as_it_is = set(_codes(compile(mutant.path.read_text(), str(mutant.path), "exec")))
    changed = {
        (code.co_qualname, code.co_firstlineno): code
        for code in _codes(compile(tree_with(mutant), str(mutant.path), "exec"))
        if code not in as_it_is
    }
    planted = False
    for function in gc.get_objects():
        if isinstance(function, types.FunctionType) and function.__code__.co_filename == str(mutant.path):
            old = function.__code__
            new = changed.get((old.co_qualname, old.co_firstlineno))
            if new is not None and len(new.co_freevars) == len(old.co_freevars):
                function.__code__ = new
                planted = True
    return planted


def _codes(code: types.CodeType) -> Iterator[types.CodeType]:
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            yield each
            yield from _codes(each)
