"""The rules of names that a program can check: the table of "Names" in CONTRIBUTING.md, and classes of one name."""

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT, SHIPPED, python_files, relative, tree_of

CONTRIBUTING = ROOT / "CONTRIBUTING.md"
KAFKAS = re.compile(r"wire/kpywire/(messages|\w+_records)/")
SHARED_CLASS_NAMES = 10
"""The most names that several classes of the product have. It may only fall."""
CONVERTS_RECORDS = "kpybroker/testing/async_broker.py"
"""It makes the records of the testing API from those of the wire. Both have Kafka's name."""
TEST_NAME_CHARACTERS = 105


@functools.cache
def replacements() -> dict[str, str]:
    """Each word of the table in CONTRIBUTING.md that stands in no name, with the words to use."""
    section = CONTRIBUTING.read_text().partition("\n## Names\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \|$", section, re.MULTILINE)[1:]
    return {word: plain for words, plain in rows if words[0] != "-" for word in words.split(", ")}


def words_of(name: str) -> set[str]:
    """``NobodyListens`` and ``nobody_listens`` alike: nobody, listens."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)}


def names_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The names that a file gives, with their lines: of classes, functions, arguments, variables and fields."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.lineno, node.asname


def riddles(place: str, tree: ast.Module) -> list[str]:
    """One line for each name with a word of the table."""
    return [
        f"{place}:{line}: {name}: {word!r}: write {replacements()[word]}"
        for line, name in dict.fromkeys(names_of(tree))
        for word in sorted(words_of(name) & replacements().keys())
    ]


@functools.cache
def classes() -> dict[str, dict[str, Path]]:
    """The modules that define a class of a name, by the name. Kafka's own schemas do not count."""
    found: dict[str, dict[str, Path]] = defaultdict(dict)
    for path in (path for path in python_files(*SHIPPED) if not KAFKAS.match(relative(path))):
        for node in tree_of(path).body:
            if isinstance(node, ast.ClassDef):
                found[node.name][module_of(path)] = path
    return {name: modules for name, modules in found.items() if len(modules) > 1}


def module_of(path: Path) -> str:
    root = next(ROOT / each for each in SHIPPED if path.is_relative_to(ROOT / each))
    return ".".join(path.relative_to(root.parent).with_suffix("").parts).removesuffix(".__init__")


def meetings(path: Path) -> list[str]:
    """The names of which a file has two classes, defined or imported, under whatever other name."""
    origins: dict[str, set[str]] = defaultdict(set)
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                if node.module in classes().get(alias.name, ()):
                    origins[alias.name].add(str(node.module))
    for name, modules in classes().items():
        origins[name] |= {module for module, place in modules.items() if place == path}
    return [f"{relative(path)}: {name} of {' and '.join(sorted(m))}" for name, m in origins.items() if len(m) > 1]


def test_names_have_plain_words() -> None:
    found = [line for path in python_files() for line in riddles(relative(path), tree_of(path))]
    stems = [relative(path) for path in python_files() if words_of(path.stem) & replacements().keys()]
    assert not found, "\n".join(found)
    assert not stems


def test_names_of_tests_are_short() -> None:
    found = [
        f"{relative(path)}:{line}: {name}: {len(name)} characters"
        for path in python_files("tests", "compat-tests")
        for line, name in names_of(tree_of(path))
        if name.startswith("test_") and len(name) > TEST_NAME_CHARACTERS
    ]
    assert not found, "\n".join(found)


def test_few_class_names_are_shared() -> None:
    assert len(classes()) <= SHARED_CLASS_NAMES, "\n".join(
        f"{name}: {', '.join(modules)}" for name, modules in sorted(classes().items())
    )


def test_classes_of_one_name_do_not_meet() -> None:
    found = [line for path in python_files(*SHIPPED) for line in meetings(path)]
    assert [line for line in found if not line.startswith(f"{CONVERTS_RECORDS}: Record ")] == []


@pytest.mark.parametrize(
    ("code", "word"),
    [
        ("def who_leads(): ...", "who"),
        ("class NobodyListens: ...", "nobody"),
        ("for said in lines: ...", "said"),
        ("def ask(*, told): ...", "told"),
        ("whole = untold = pending = spend(1)", None),
    ],
)
def test_a_riddle_in_a_name_is_found_with_its_line(code: str, word: str | None) -> None:
    found = riddles("a.py", ast.parse(code))
    assert [line.partition(": write ")[0].rpartition(": ")[2] for line in found] == ([repr(word)] if word else [])
