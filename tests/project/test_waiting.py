"""Tests wait by `waiting` alone: with a deadline far away, which names what was awaited."""

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import python_files, relative, tree_of

from support import waiting
from support.waiting import NotInTimeError

WAITS = "compat-tests/support/waiting.py"
OWNERS = {
    "attempts": {WAITS},
    "becomes": {WAITS},
    "eventually": {WAITS},
    "until": {WAITS},
    "wait_until": set[str](),
    "free_port": {"compat-tests/oracle/process.py", "compat-tests/foreign/plugins/registry.py"},
}
"""Functions, and where they are. The plugin runs in the environment of another project, without these modules."""
AT_WORK = {
    "compat-tests/exactly_once/": "makes trouble while it waits",
    "compat-tests/failover/": "writes, transforms, and follows what comes back",
    "compat-tests/foreign/plugins/": "runs in the environment of another project",
    "compat-tests/support/migration_clusters.py": "reads records until it is ended",
    "compat-tests/oracle/process.py": "ends the process that does not answer",
    "compat-tests/sink_kills/": "kills what is left, and goes on while rows come",
    "compat-tests/cluster/test_cluster_clients.py": "reads and commits records",
    "tests/hostile/attacks": "attacks until it is over",
    "tests/hostile/held_loop.py": "measures until its input ends",
    "tests/mutation/trial.py": "kills the child that takes too long",
    "tests/sim/mutants.py": "starts trials",
    "tests/zookeeper/nodes_in_use.py": "sends requests",
}
"""Loops with a sleep that do something else than wait, by the beginnings of their paths."""


def loops() -> Iterator[tuple[str, ast.While]]:
    for path in python_files("tests", "compat-tests", "conftest.py"):
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.While):
                yield f"{relative(path)}:{node.lineno}", node


def is_empty(statement: ast.stmt) -> bool:
    is_constant = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    return isinstance(statement, ast.Pass | ast.Continue) or is_constant


def sleeps(loop: ast.While) -> bool:
    """Whether a loop sleeps, for longer than a turn of the event loop."""
    calls = [node for node in ast.walk(loop) if isinstance(node, ast.Call)]
    named = [call for call in calls if getattr(call.func, "attr", getattr(call.func, "id", "")) == "sleep"]
    return any(not (isinstance(call.args[0], ast.Constant) and call.args[0].value == 0) for call in named)


def test_no_loop_is_empty() -> None:
    assert not [place for place, loop in loops() if all(map(is_empty, loop.body))]


def test_nothing_waits_by_a_loop_of_its_own() -> None:
    places = [place for place, loop in loops() if sleeps(loop) and not place.startswith(WAITS)]
    assert not [place for place in places if not place.startswith(tuple(AT_WORK))]
    assert not [path for path in AT_WORK if not any(place.startswith(path) for place in places)], "needless exceptions"


@pytest.mark.parametrize("name", OWNERS)
def test_a_function_that_waits_is_defined_once(name: str) -> None:
    defined = {
        relative(path)
        for path in python_files("tests", "compat-tests")
        for node in tree_of(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name
    }
    assert defined == OWNERS[name]


@pytest.mark.parametrize(
    ("what", "words"),
    [("a leader", "waited 0 s for a leader"), (lambda: [1, 2], r"waited 0 s for \[1, 2\]")],
    ids=["named", "shown"],
)
def test_what_was_awaited_is_named(what: waiting.Name, words: str) -> None:
    with pytest.raises(NotInTimeError, match=rf"^{words}$"):
        waiting.eventually(lambda: None, what, 0)


def test_a_condition_without_a_name_is_its_own() -> None:
    leaders: list[int] = []

    def has_leaders() -> bool:
        return bool(leaders)

    with pytest.raises(NotInTimeError, match=r"waiting.eventually.lambda: len.leaders. == 3, within_s=0"):
        waiting.eventually(lambda: len(leaders) == 3, within_s=0)
    with pytest.raises(NotInTimeError, match=r"^waited 0 s for has_leaders$"):
        waiting.eventually(has_leaders, within_s=0)


def test_the_result_is_given_once_it_is_true() -> None:
    results = iter([None, 0, "", 7])
    assert waiting.eventually(lambda: next(results), every_s=0) == 7


def test_the_condition_is_asked_once_more_after_the_deadline() -> None:
    results = iter([False, True])
    assert waiting.eventually(lambda: next(results), within_s=0, every_s=0)


def test_an_error_that_means_not_yet_is_shown_at_the_end_and_others_are_raised() -> None:
    def refused() -> bool:
        raise ConnectionRefusedError(111, "refused")

    with pytest.raises(NotInTimeError, match=r"^waited 0 s for an answer; ConnectionRefusedError\(111, 'refused'\)$"):
        waiting.eventually(refused, "an answer", 0, despite=(OSError,))
    with pytest.raises(ConnectionRefusedError):
        waiting.eventually(refused, "an answer", 0, despite=(ValueError,))


def test_a_value_that_stays_another_is_shown() -> None:
    waiting.becomes(iter([1, 2, 3]).__next__, 3)
    with pytest.raises(NotInTimeError, match=r"^waited 0 s for 3, and found 2$"):
        waiting.becomes(lambda: 2, 3, 0)


def test_coroutines_wait_while_other_tasks_run() -> None:
    async def story() -> None:
        seen: list[int] = []
        asyncio.get_running_loop().call_soon(seen.append, 1)
        await waiting.until(lambda: seen)
        await waiting.until(lambda: asyncio.sleep(0, result=True))
        with pytest.raises(NotInTimeError, match=r"^waited 0 s for more$"):
            await waiting.until(lambda: asyncio.sleep(0, result=False), "more", 0)

    asyncio.run(story())


def test_the_exceptions_name_files_that_are_there() -> None:
    known = {relative(path) for path in python_files("tests", "compat-tests")}
    assert Path(WAITS).as_posix() in known
    assert not [path for path in AT_WORK if not any(each.startswith(path) for each in known)]
