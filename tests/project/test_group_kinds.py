"""Kinds of groups stand side by side: their table names each once, and nothing outside asks for the class of a
membership."""

import ast
import re
from collections.abc import Iterator

import grimp
import pytest
from sources import ROOT, SHIPPED, python_files, relative, tree_of

GROUPS = "kpybroker/machines/groups"
PACKAGE = "kpybroker.machines.groups"
TABLE = f"{PACKAGE}.kinds"
OF_EVERY_KIND = {"Membership", "EpochMembers"}


def memberships() -> dict[str, str]:
    """The names of all classes of memberships, with the packages that they are in."""
    classes = [(path, node) for path in python_files(GROUPS) for node in tree_of(path).body]
    found = dict.fromkeys(OF_EVERY_KIND, "")
    for path, node in classes * 2:
        if isinstance(node, ast.ClassDef) and {ast.unparse(each) for each in node.bases} & found.keys():
            found.setdefault(node.name, path.parent.name)
    return found


NAMES = re.compile(rf"\b({'|'.join(memberships())})\b")
KINDS = sorted({package for package in memberships().values() if package})


def asked_by_class(tree: ast.Module) -> Iterator[str]:
    """The classes that a module asks for by isinstance, by type, or as a pattern."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("isinstance", "issubclass"):
            yield from names_in(node.args[1])
        elif isinstance(node, ast.MatchClass):
            yield ast.unparse(node.cls)
        elif isinstance(node, ast.Compare) and ast.unparse(node.left).startswith("type("):
            for each in node.comparators:
                yield from names_in(each)
        elif isinstance(node, ast.Dict):
            for key in node.keys:
                yield from names_in(key)


def names_in(node: ast.AST | None) -> Iterator[str]:
    return (each.id for each in ast.walk(node) if isinstance(each, ast.Name)) if node is not None else iter(())


def test_all_kinds_of_kafka_are_found() -> None:
    assert {"classic", "consumer", "share", "streams"} <= {*KINDS}


def test_only_groups_ask_for_the_class_of_a_membership() -> None:
    known = memberships()
    outside = [path for path in python_files(*SHIPPED) if not relative(path).startswith(f"{GROUPS}/")]
    naming = [path for path in outside if NAMES.search(path.read_text())]
    assert naming
    asked = [(relative(path), name) for path in naming for name in asked_by_class(tree_of(path))]
    assert not [each for each in asked if each[1] in known]


@pytest.mark.parametrize(
    "source",
    [
        "isinstance(group.membership, ShareGroup)",
        "isinstance(group.membership, (ClassicGroup, StreamsGroup))",
        "type(group.membership) is ConsumerGroup",
        "{ShareGroup: show}",
    ],
)
def test_each_form_of_asking_for_a_class_is_found(source: str) -> None:
    assert set(asked_by_class(ast.parse(source))) & memberships().keys()


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("kpybroker", cache_dir=None)


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_one_row_of_the_table(graph: grimp.ImportGraph, kind: str) -> None:
    row = f"{PACKAGE}.{kind}.kind"
    importers = graph.find_modules_that_directly_import(row)
    assert TABLE in importers
    assert {each for each in importers - {TABLE} if not each.startswith(f"{PACKAGE}.mixed.")} == set()
    assert (ROOT / GROUPS / "kinds.py").read_text().count(f"    {kind}.KIND,\n") == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_imports_no_other_kind(graph: grimp.ImportGraph, kind: str) -> None:
    others = tuple(f"{PACKAGE}.{each}" for each in (*KINDS, "mixed", "kinds", "coordinator") if each != kind)
    modules = {f"{PACKAGE}.{kind}", *graph.find_descendants(f"{PACKAGE}.{kind}")}
    imported = {each for module in modules for each in graph.find_modules_directly_imported_by(module)}
    assert not {each for each in imported if (each + ".").startswith(tuple(f"{other}." for other in others))}
