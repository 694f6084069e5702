"""The documents that a newcomer reads first stay short, and have what they promise."""

import ast
import re
import subprocess

import pytest
from sources import ROOT, tree_of

from kpybroker import __version__

README = (ROOT / "README.md").read_text()
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text()
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
MOST_BYTES = {"README.md": 9_000, "ARCHITECTURE.md": 10_000}
MOST_TARGETS = 14
ORDER = ("Two commands", "Installing", "What works", "What does not", "How fast", "Where to read on")
"""The headings of README.md: a reader learns what it is, tries it, and then what it can and cannot do."""
RECIPES = {
    "An API": (
        "kpybroker/machines/apis.py",
        "compat-tests/differential/admin_paths.py",
        "compat-tests/protocol/test_differential.py",
    ),
    "A config": ("kpybroker/config/own_configs.py", "kpybroker/config/honoured.py", "kpybroker/config/stored.py"),
    "A metric": ("kpybroker/monitoring/metrics/exposition.py", "release/documents/metrics.py"),
    "A console page": ("kpybroker/monitoring/console/pages.py", "tests/console/test_answers_are_true.py"),
    "A command": ("kpybroker/cli/__init__.py", "tests/cli/test_tables_are_true.py"),
    "A group kind": ("kpybroker/machines/groups/kinds.py", "tests/groups/group_world.py"),
}
"""Each recipe of CONTRIBUTING.md, with files that it has to name."""


@pytest.mark.parametrize("name", MOST_BYTES)
def test_a_document_for_newcomers_is_short(name: str) -> None:
    assert len((ROOT / name).read_bytes()) <= MOST_BYTES[name]


def test_the_readme_keeps_its_order() -> None:
    assert tuple(re.findall(r"^## (.+)$", README, re.MULTILINE)) == ORDER


def test_architecture_has_its_parts_and_a_table_of_places() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
    assert headings == ["The problem", "Overview", "Decisions", "Where is what", "What is not there", "References"]
    assert text.count("```") == 2, "one drawing"
    assert text.count("*Not done*") >= 7
    places = text.partition("## Where is what")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (?!you|-)(.+?) \| (.+) \|$", places, re.MULTILINE)
    assert len(rows) >= 20
    assert all(re.search(r"`(?:kpybroker|storage|wire)/[\w/]+\.py`", files) for _, files in rows)


@pytest.mark.parametrize("name", RECIPES)
def test_there_is_one_worked_recipe_each(name: str) -> None:
    (recipe,) = re.findall(rf"^### {name}\n(.*?)(?=^##)", CONTRIBUTING, re.MULTILINE | re.DOTALL)
    steps = re.findall(r"^(\d+)\. ", recipe, re.MULTILINE)
    assert steps == [str(number) for number in range(1, len(steps) + 1)]
    assert len(steps) >= 4
    assert recipe.lstrip().startswith("*"), "the example that it was worked through with"
    assert all(f"`{path}" in recipe for path in RECIPES[name])
    assert "`make tables`" in recipe


def listed(target: str) -> list[str]:
    made = subprocess.run(["make", "-s", target], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return re.findall(r"^  make ([\w-]+) +\S", made, re.MULTILINE)


def test_help_shows_few_targets_and_more_shows_the_others() -> None:
    first, others = listed("help"), listed("more")
    described = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert len(first) <= MOST_TARGETS
    assert {"run", "setup", "check", "test", "more"} <= set(first)
    assert sorted([*first, *others]) == sorted(described)


def test_check_runs_tests_that_are_there() -> None:
    (quick,) = re.findall(r"^QUICK := ((?:.*\\\n)*.*)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    names = quick.replace("\\\n", " ").split()
    assert len(names) == len(set(names)) > 15
    assert all((ROOT / "tests" / name).exists() for name in names)


def test_the_memory_of_an_idle_node_is_one_number_everywhere() -> None:
    """It is that of the figures in README.md, without its decimals."""
    documents = "\n".join(path.read_text() for path in sorted((ROOT / "docs").glob("*.md")))
    named = re.findall(r"takes about (\d+) MB", documents)
    measured = re.search(r"\| memory when idle \| .+? \| ([\d.]+) MB", README)
    assert measured is not None
    assert len(named) >= 2
    assert set(named) == {str(round(float(measured[1])))}


def test_changes_are_in_versions_the_newest_first() -> None:
    versions = re.findall(r"^## (\d+\.\d+\.\d+(?:\.dev\d+)?)\b", CHANGELOG, re.MULTILINE)
    assert len(versions) == len(re.findall("^## ", CHANGELOG, re.MULTILINE)) >= 4
    assert versions[0] == __version__
    numbers = [[*map(int, re.findall(r"\d+", version)), *([] if "dev" in version else [999])] for version in versions]
    assert numbers == sorted(numbers, reverse=True)


def test_every_option_of_the_tests_is_listed() -> None:
    added = {
        call.args[0].value
        for name in ("conftest.py", "compat-tests/conftest.py")
        for call in ast.walk(tree_of(ROOT / name))
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "addoption"
        if isinstance(call.args[0], ast.Constant)
    }
    rows = "\n".join(
        line for line in (ROOT / "compat-tests/README.md").read_text().splitlines() if line.startswith("|")
    )
    assert added == set(re.findall(r"`(--[\w-]+)[ `]", rows))
