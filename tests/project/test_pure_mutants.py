"""The mutations of pure packages: every pure module belongs to a package, and a mutant differs in one place."""

import ast
import tomllib
from pathlib import Path

from sources import ROOT

from tests.mutation.mutants import mutants_of, tree_with
from tests.mutation.packages import PACKAGES

CONTRACTS = (
    "kpystorage knows record batches, not messages, brokers, clocks or event loops",
    "kpywire knows bytes and messages, and no broker, clock, network or thread",
    "What decides is pure: no clock, loop, network, file, thread or process",
)
MODULE = '''
"""Some code."""
LIMIT = 5


def double(value: int, *, twice: bool = False) -> int:
    """The double."""
    if value < LIMIT and not twice:
        return value * 2
    log.info("1 of 2")
    if value > values[1]:
        values[1] = value
    elif value < values[2]:
        values[2] = value
    least = value if value < values[3] else values[3]
    none = -1
    if value > LIMIT:
        value, place = read(values, place - 1)
    values[0] = value
    text = f"{value} is too large: {values[:1]!r}"
    raise ValueError(f"{value + 1} is too large")
'''


NOT_MUTATED = {
    *("answered_errors", "apis", "config_def", "endpoints", "failed_response", "java_patterns", "lease_manifest"),
    *("names_nearby", "re2_patterns"),
}
"""Small pure modules whose tests start other programs, or belong to those of the packages that use them."""


def test_every_pure_module_is_mutated() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    pure = {module for each in contracts if each["name"] in CONTRACTS for module in each["source_modules"]}
    assert len([each for each in contracts if each["name"] in CONTRACTS]) == len(CONTRACTS)
    mutated = {module for package in PACKAGES.values() for module in package.modules()}
    folders = {"kpywire": ROOT / "wire" / "kpywire", "kpystorage": ROOT / "storage" / "kpystorage"}
    missing = set()
    for name in pure:
        folder = folders.get(name, ROOT / name.replace(".", "/"))
        for path in folder.rglob("*.py"):
            parts = path.relative_to(folder).with_suffix("").parts
            module = ".".join((name, *parts)).removesuffix(".__init__")
            if path.stem != "__init__" and parts[0] not in NOT_MUTATED:
                missing |= {module} - mutated
    assert not missing


def test_every_package_has_tests_that_are_there() -> None:
    missing = [each for package in PACKAGES.values() for each in package.tests if not (ROOT / "tests" / each).exists()]
    assert not missing


def test_a_mutant_differs_from_the_module_in_one_place(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(MODULE)
    found = list(mutants_of(path))
    assert [each.change for each in found] == [
        "-> or: value < LIMIT and (not twice)",
        "Lt -> LtE: value < LIMIT",
        "without not: not twice",
        "-> FloorDiv: value * 2",
        "2 -> 3",
        "1 -> 2",  # the larger of two stays the larger where both are equal: no `>=`
        "without values[1] = ...",
        "2 -> 3",
        "without values[2] = ...",
        "3 -> 4",
        "3 -> 4",
        "-1 -> 0",
        "-> Add: place - 1",
        "1 -> 2",
        "without values[0] = ...",
        "no raise",
    ]
    texts = {ast.unparse(tree_with(each)) for each in found}
    assert len(texts) == len(found)
    before = ast.unparse(ast.parse(MODULE)).splitlines()
    for each in found:
        after = ast.unparse(tree_with(each)).splitlines()
        assert before != after
        assert len(set(before) - set(after)) <= 1, each
        compile(tree_with(each), str(path), "exec")
