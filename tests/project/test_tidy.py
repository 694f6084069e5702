"""The rules of the house that a program can check; CONTRIBUTING.md gives their reasons."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sources import ROOT, SHIPPED, project_files, python_files, relative, text_files, tree_of

FILE_LINES = 600
FUNCTION_LINES = 70
BANNED_WORDS = {"manager", "helper", "helpers", "util", "utils", "impl", "base", "data", "misc", "common"}
NAMED_BY_KAFKA = re.compile(r"wire/kpywire/(messages|\w+_records)/")
MACHINE = re.compile(
    r"/(?:root|home|Users|work|opt/wheels)/\w|(?:registry\.npmjs|repo\d?\.maven|files\.pythonhosted|pypi|crates|"
    r"proxy\.golang)\.(?:org|io|com)\b"
)
LEFTOVERS = re.compile(r"\b(?:TODO|FIXME|XXX|HACK)\b|[Nn]ot implemented|NotImplementedError|breakpoint\(\)")
BLOB_BYTES = 512 * 1024

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.Module) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def words_of(name: str) -> set[str]:
    """``HTTPServerImpl`` and ``http_server_impl`` alike: http, server, impl."""
    return {word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", name)}


def length_of(function: Function) -> int:
    """Lines of code from ``def`` to the end, the docstring left out."""
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        lines -= (first.end_lineno or first.lineno) - first.lineno + 1
    return lines


def test_no_file_is_longer_than_one_sitting() -> None:
    suffixes = {".py", ".java", ".c", ".sh", ".toml"}
    files = [path for path in text_files() if path.suffix in suffixes]
    too_long = {relative(path): n for path in files if (n := len(path.read_text().splitlines())) > FILE_LINES}
    assert not too_long


def test_no_function_is_longer_than_a_screen() -> None:
    too_long = [
        f"{relative(path)}:{function.lineno} {function.name}: {length_of(function)} lines"
        for path in python_files()
        for function in functions(tree_of(path))
        if length_of(function) > FUNCTION_LINES
    ]
    assert not too_long


def test_names_say_what_a_thing_is() -> None:
    vague = []
    for path in python_files():
        if NAMED_BY_KAFKA.match(relative(path)):
            continue
        if words_of(path.stem) & BANNED_WORDS:
            vague.append(relative(path))
        classes = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.ClassDef)]
        vague += [f"{relative(path)}: {node.name}" for node in classes if words_of(node.name) & BANNED_WORDS]
    assert not vague


def test_every_module_says_what_it_is() -> None:
    silent = [relative(path) for path in python_files() if not (ast.get_docstring(tree_of(path)) or "").strip()]
    assert not silent


def test_every_public_function_of_a_shipped_handler_package_says_what_it_does() -> None:
    handlers = [path for path in python_files("kpybroker/handlers") if path.stem != "__init__"]
    silent = [
        f"{relative(path)}: {node.name}"
        for path in handlers
        for node in tree_of(path).body
        if isinstance(node, Function) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert handlers
    assert not silent


def test_nothing_is_left_to_do_in_a_comment() -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in text_files()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if LEFTOVERS.search(line)
    ]
    assert not found


def test_the_project_knows_no_particular_machine() -> None:
    found = [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in text_files()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE.search(line) or str(ROOT) in line
    ]
    assert not found


def test_no_large_file_is_kept_in_the_project() -> None:
    large = {relative(path): size for path in project_files() if (size := path.stat().st_size) > BLOB_BYTES}
    assert not large


def test_no_two_test_modules_share_a_name() -> None:
    """pytest imports them by that name, so the second would be the first."""
    seen: dict[str, str] = {}
    twice = []
    for path in python_files("tests", "compat-tests"):
        if path.stem in ("conftest", "__init__") or (path.parent / "__init__.py").exists():
            continue
        if path.stem in seen:
            twice.append(f"{relative(path)} and {seen[path.stem]}")
        seen[path.stem] = relative(path)
    assert not twice


@pytest.mark.parametrize("package", SHIPPED)
def test_shipped_packages_are_typed(package: str) -> None:
    assert (ROOT / package / "py.typed").exists()
