"""Every test can fail for the reason in its name: it asserts something, and never how long something took."""

import ast
import functools
from collections.abc import Iterator
from pathlib import Path

from sources import python_files, relative, tree_of

CLOCKS = {"monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns"}
PROVES = {"raises", "warns", "fail", "assert_outcomes", "assert_called_once_with", "assert_not_called"}
REFUSES = {"check_host", "check_site"}
"""Functions of kpybroker that return nothing, and raise where a request is refused."""

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(path: Path) -> Iterator[Function]:
    for node in ast.walk(tree_of(path)):
        if isinstance(node, Function):
            yield node


def name_of(called: ast.expr) -> str:
    return getattr(called, "attr", getattr(called, "id", ""))


def used_by(function: ast.AST) -> set[str]:
    """The functions that it calls, or hands to those."""
    found = set()
    for call in ast.walk(function):
        if isinstance(call, ast.Call):
            found |= {name_of(each) for each in (call.func, *call.args)}
    return found


def asserts(function: Function) -> bool:
    return any(isinstance(node, ast.Assert | ast.Raise) for node in ast.walk(function))


@functools.cache
def that_assert() -> set[str]:
    """Functions of the tests that fail them, themselves or by others: by their names, wherever they are."""
    calls: dict[str, set[str]] = {}
    found = PROVES | REFUSES
    for path in python_files("tests", "compat-tests"):
        for each in functions(path):
            if asserts(each):
                found.add(each.name)
            calls.setdefault(each.name, set()).update(used_by(each))
    while more := {name for name, used in calls.items() if name not in found and used & found}:
        found |= more
    return found


def is_upper_bound(node: ast.AST) -> bool:
    """Whether something is less than what a clock shows, or what a clock shows less than something."""
    if not isinstance(node, ast.Compare):
        return False
    sides = [node.left, *node.comparators]
    for operator, left, right in zip(node.ops, sides, sides[1:], strict=False):
        smaller = left if isinstance(operator, ast.Lt | ast.LtE) else right
        if isinstance(operator, ast.Lt | ast.LtE | ast.Gt | ast.GtE) and CLOCKS & used_by(smaller):
            return True
    return False


def test_every_test_asserts_something() -> None:
    proves = that_assert()
    assert not [
        f"{relative(path)}:{each.lineno} {each.name}"
        for path in python_files("tests", "compat-tests")
        for each in functions(path)
        if each.name.startswith("test_") and not asserts(each) and not used_by(each) & proves
    ]


def test_nothing_asserts_that_something_was_fast() -> None:
    """A busy machine takes as long as it takes. That something waits at least as long as it must may be asserted."""
    assert not [
        f"{relative(path)}:{node.lineno}"
        for path in python_files("tests", "compat-tests")
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Assert) and any(map(is_upper_bound, ast.walk(node.test)))
    ]
