"""The tests of a package, played over its mutants.

The tests are imported and collected once. Each mutant lives in a fork of that process, in which the code of the changed
function is replaced; so no file is written, and a mutant costs no imports. The tests that call the function are played,
the quickest first, and if all of them pass the others of their modules: a result that is kept may be made by one test
and used by another. A fork has a limit of CPU time: one that does not end in it counts as found.
"""

import ast
import faulthandler
import gc
import importlib
import os
import resource
import signal
import sys
import time
import types
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from .calls import Calls, Played, read
from .mutants import Mutant, tree_with
from .packages import QUICK, ROOT, Package
from .planting import Function, codes_of, plant

FOUND, SURVIVED, NOT_CALLED, NOT_RUN = "found", "survived", "not called by any test", "not run"
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
    """The tests of one package. As a plugin of pytest it plays them over mutants, in place of once."""

    def __init__(self, package: Package, mutants: Iterable[Mutant], log: Path) -> None:
        self._package = package
        self._mutants = mutants
        self._log = log
        self._tests = [str(ROOT / "tests" / each) for each in package.tests]
        self._tests = [each for each in self._tests if Path(each).exists()]
        self._terminal = os.fdopen(os.dup(1), "w")
        self._played: list[Played] = []
        self.passes = False
        """Whether the tests pass as they are."""
        self.outcomes: list[Outcome] = []
        self.cpu_s = 0.0
        """The CPU time of the tests without a mutant."""

    def run(self) -> None:
        """Play all mutants."""
        order = ["-q", "--no-header", "--capture=no", "-p", "no:cacheprovider", "-p", "no:rerunfailures", "-m", QUICK]
        with _output_in(self._log):
            pytest.main([f"--rootdir={ROOT}", *order, *self._tests], [self])
        faulthandler.cancel_dump_traceback_later()  # conftest's, for a process that does not end: this one goes on

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        if session.testsfailed or not session.items:
            return True
        gc.unfreeze()  # conftest's: what is frozen is not found by `plant`
        for name in self._package.modules():
            importlib.import_module(name)  # some are imported only when they are used
        self.passes = self._without_mutant(session)
        for mutant in self._mutants if self.passes else ():
            outcome = self._play(session, mutant)
            self.outcomes.append(outcome)
            if outcome.fate != FOUND:
                where = f"{mutant.path.relative_to(ROOT)}:{mutant.line}"
                print(f"  {where} {outcome.fate}: {mutant.change}", file=self._terminal, flush=True)
        return True

    def _without_mutant(self, session: pytest.Session) -> bool:
        notes = self._log.with_suffix(".calls")

        def run() -> int:
            calls = Calls(self._package.files())
            session.config.pluginmanager.register(calls)
            if not _all_pass(session, session.items):
                return 1
            calls.write(notes, session.items)
            return 0

        code, self.cpu_s = self._in_fork(run, ASLEEP_S * 10)
        if code == 0:
            self._played = read(notes)
            notes.unlink()
        return code == 0

    def _play(self, session: pytest.Session, mutant: Mutant) -> Outcome:
        changed = _changed(mutant)
        callers = [each for each in self._played if not each.called.isdisjoint(changed)]
        if not callers:
            return Outcome(mutant, NOT_CALLED, 0.0)
        modules = {each.module for each in callers}
        others = [each for each in self._played if each.module in modules and each not in callers]
        chosen = [*sorted(callers, key=lambda each: each.cpu_s), *others]
        tests_s = sum(each.cpu_s for each in chosen)
        limit_s = int(TIMES_THE_TESTS * tests_s) + LEAST_CPU_S

        def run() -> int:
            resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
            if not plant(changed):
                return NOTHING_TO_CHANGE
            return 0 if _all_pass(session, [session.items[each.number] for each in chosen]) else 1

        code, cpu_s = self._in_fork(run, ASLEEP_S + 10 * tests_s)
        fate = SURVIVED if code == 0 else NOT_RUN if code == NOTHING_TO_CHANGE else FOUND
        return Outcome(mutant, fate, cpu_s)

    def _in_fork(self, run: Callable[[], int], patience_s: float) -> tuple[int, float]:
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            os.setsid()
            os.truncate(self._log, 0)
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


def _all_pass(session: pytest.Session, items: list[pytest.Item]) -> bool:
    """Run tests until one fails."""
    for number, item in enumerate(items):
        following = items[number + 1] if number + 1 < len(items) else None
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
        if session.testsfailed:
            return False
    return True


class _output_in:  # noqa: N801  used like a function
    """Standard output and error of the block are in a file."""

    def __init__(self, log: Path) -> None:
        self._log = log

    def __enter__(self) -> None:
        sys.stdout.flush()
        self._kept = [os.dup(1), os.dup(2)]
        out = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(out)

    def __exit__(self, *_: object) -> None:
        sys.stdout.flush()
        for number, kept in enumerate(self._kept, 1):
            os.dup2(kept, number)
            os.close(kept)


def _changed(mutant: Mutant) -> dict[Function, types.CodeType]:
    """The functions that a mutant changes, those around the changed one too, with their new code."""
    as_it_is = {code for _, code in codes_of(ast.parse(mutant.path.read_text()), mutant.path)}
    return {place: code for place, code in codes_of(tree_with(mutant), mutant.path) if code not in as_it_is}
