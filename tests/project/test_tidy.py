"""The rules of the house that a program can check; CONTRIBUTING.md gives their reasons."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import grimp
import pytest
from sources import ROOT, SHIPPED, project_files, python_files, relative, text_files, tree_of

from benchmarks.rows import SUITES
from benchmarks.rows.row import QUICK
from kpybroker.machines.controller.deciders import DECIDERS
from kpybroker.requests import handlers
from kpybroker.requests.handlers import forwarded, quorum
from kpywire.api import API_KEYS

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
DECIDES = ("kpybroker/machines",)
PURE = (*DECIDES, "kpybroker/hosts/replicas", "kpybroker/requests/handlers", "storage/kpystorage")
KNOWN_TO_MACHINES = ("kpybroker.machines", "kpybroker.runtime.calls", "kpybroker.runtime.fairness.trait")
STANDARD_OUTSIDE = {"asyncio", "os", "pathlib", "signal", "socket", "ssl", "subprocess", "threading", "time"}
LOADED_BY_NAME = (
    *("kpybroker.cli.", "kpybroker.requests.guards.", "kpybroker.requests.handlers."),
    *("kpywire.messages.", "kpywire.metadata_records.", "kpywire.group_records.", "kpywire.share_records."),
    *("kpywire.transaction_records.", "kpywire.remote_log_records.", "kpybroker.pytest_plugin"),
    *("kpybroker.spark.audit", "kpybroker.spark.lake"),
    "pyspark_kpybroker",
)
FOR_TESTS = {"kpystorage.sim_disk"}
BESIDE_ASSEMBLY = ("broker", "controller_role", "node")

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
    handlers = [path for path in python_files("kpybroker/requests/handlers") if path.stem != "__init__"]
    silent = [
        f"{relative(path)}: {node.name}"
        for path in handlers
        for node in tree_of(path).body
        if isinstance(node, Function) and not node.name.startswith("_") and not ast.get_docstring(node)
    ]
    assert handlers
    assert not silent


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """The lines of the project with this pattern, this file aside."""
    return [
        f"{relative(path)}:{number}: {line.strip()}"
        for path in text_files()
        if path != Path(__file__).resolve()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if pattern.search(line)
    ]


def test_no_comment_has_something_left_to_do() -> None:
    assert not lines_with(LEFTOVERS)


def test_the_project_knows_no_particular_machine() -> None:
    assert not lines_with(MACHINE)
    assert not lines_with(re.compile(re.escape(str(ROOT))))


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


def test_pure_packages_are_given_their_random_numbers() -> None:
    """They may name ``random.Random`` as a type; making one, or using the module's own, is for the node."""
    found = []
    for path in python_files(*PURE):
        for node in ast.walk(tree_of(path)):
            called = node.func if isinstance(node, ast.Call) else None
            makes_one = isinstance(called, ast.Name) and called.id in ("Random", "SystemRandom")
            named = isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "random"
            if makes_one or (named and isinstance(node, ast.Attribute) and node.attr != "Random"):
                found.append(f"{relative(path)}:{node.lineno}")
            if isinstance(node, ast.ImportFrom) and node.module == "random":
                found += [f"{relative(path)}:{node.lineno}" for name in node.names if name.name != "Random"]
    assert not found


@pytest.mark.parametrize("path", python_files(*DECIDES), ids=relative)
def test_pure_modules_import_no_types_of_impure_ones(path: Path) -> None:
    """Import contracts look at imports at run time; this looks at those for type checkers, too."""
    imported = set()
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.ImportFrom):
            imported.add(node.module or "")
        elif isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
    ours = {module for module in imported if module.startswith("kpybroker.")}
    assert not {module for module in ours if not module.startswith(KNOWN_TO_MACHINES)}
    assert not imported & STANDARD_OUTSIDE


def test_pure_modules_read_no_clock_of_datetime() -> None:
    """Dates are computed in pure modules, so the module may be imported; the present time comes as an argument."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in python_files(*DECIDES)
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
        if node.value.id in ("date", "datetime") and node.attr in ("now", "today", "utcnow")
    ]
    assert not found


@pytest.mark.parametrize("path", python_files("kpybroker/requests/server", "kpybroker/runtime/fairness"), ids=relative)
def test_connections_and_fairness_know_requests_by_their_trait_and_no_api_key(path: Path) -> None:
    names = {node.id for node in ast.walk(tree_of(path)) if isinstance(node, ast.Name)}
    names |= {node.attr for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute)}
    keys = {entry.module for entry in API_KEYS.values()}
    assert not {name for name in names if name.lower() in keys or "api_key" in name.lower()}


def test_every_shipped_module_is_used() -> None:
    """By another one, by name at run time, as a program, or as a stand-in that tests put in place of a real part."""
    graph = grimp.build_graph(*(Path(package).name for package in SHIPPED), cache_dir=None)
    programs = {path.stem for path in python_files(*SHIPPED) if '__name__ == "__main__"' in path.read_text()}
    decide = {f"kpybroker.machines.controller.{place.partition('.')[0]}" for place in DECIDERS.values()}
    unused = {
        module
        for module in graph.modules - FOR_TESTS - decide
        if not graph.find_modules_that_directly_import(module)
        and not graph.find_children(module)
        and not module.startswith(LOADED_BY_NAME)
        and module.rpartition(".")[2] not in programs
    }
    assert not unused


def test_every_handler_module_is_served() -> None:
    """Each module is the home of a served API, or is used by one."""
    graph = grimp.build_graph("kpybroker", cache_dir=None)
    modules = {module.rpartition(".")[2] for module in graph.find_children("kpybroker.requests.handlers")}
    used = {name for name in modules if graph.find_modules_that_directly_import(f"kpybroker.requests.handlers.{name}")}
    homes = {handlers.home_of(name) for name in handlers.SERVED}
    assert homes <= modules
    assert modules - homes - set(handlers.OF_ZOOKEEPER_CONTROLLERS) <= used


@pytest.mark.parametrize("name", handlers.SERVED)
def test_a_handler_says_at_its_top_which_versions_it_serves(name: str) -> None:
    entry = next(each for each in API_KEYS.values() if each.module == name)
    text = {**forwarded.FORWARDED, **quorum.QUORUM}.get(name) or ast.get_docstring(
        tree_of(ROOT / "kpybroker" / "requests" / "handlers" / f"{name}.py")
    )
    assert text
    first, last = {**handlers.controller_versions(), **handlers.served_versions()}[entry.key]
    versions = f"version {first}" if first == last else f"versions {first}-{last}"
    assert text.startswith(f"{entry.name} ({entry.key}), {versions}")


SET_BY_TESTS = {
    "HANDSHAKE_PATIENCE_MS",
    "MOST_AT_ONCE",
    "MOST_PARTITIONS",
    "MOST_REMEMBERED",
    "REPLIES_AT_ONCE",
    "WORK_AT_ONCE",
}
"""Constants of compiled modules that tests set to other values."""


def rows_of_compiled_modules() -> dict[str, str]:
    """The modules that a wheel may compile, each with the row of the benchmarks that shows why."""
    named = (node for node in tree_of(ROOT / "hatch_build.py").body if isinstance(node, ast.Assign))
    (modules,) = (ast.literal_eval(node.value) for node in named if ast.unparse(node.targets[0]) == "MODULES")
    return dict(modules)


def compiled_modules() -> dict[str, Path]:
    """The modules that a wheel may compile, with their files."""
    modules = rows_of_compiled_modules()
    roots = {Path(package).name: Path(package).parent for package in SHIPPED}
    return {
        module: (ROOT / roots[module.partition(".")[0]] / module.replace(".", "/")).with_suffix(".py")
        for module in modules
    }


def test_a_compiled_module_is_there_and_names_a_row_of_the_benchmarks() -> None:
    known = {row.key for suite in SUITES.values() for row in suite(QUICK)}
    assert not [f"{module}: {row}" for module, row in rows_of_compiled_modules().items() if row not in known]
    assert not [module for module, path in compiled_modules().items() if not path.exists()]


def test_a_class_that_inherits_from_a_compiled_one_is_compiled() -> None:
    """mypyc makes no instance of another class. A protocol has none."""
    compiled = compiled_modules()
    found = []
    for path in (path for package in SHIPPED for path in (ROOT / package).rglob("*.py")):
        if path in compiled.values():
            continue
        tree = tree_of(path)
        imported = {
            alias.asname or alias.name: node.module
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
        }
        for part in (part for part in ast.walk(tree) if isinstance(part, ast.ClassDef)):
            bases = {ast.unparse(base).partition("[")[0] for base in part.bases}
            if "Protocol" not in bases and any(imported.get(base) in compiled for base in bases):
                found.append(f"{relative(path)}:{part.lineno}: {part.name}")
    assert not found


def test_compiled_slices_have_bounds_without_effects() -> None:
    """mypyc evaluates the bounds of a slice twice, so a call among them happens twice: ``rest[send(rest) :]``."""
    harmless = {"len", "min", "max"}
    found = []
    for path in compiled_modules().values():
        for part in ast.walk(tree_of(path)):
            bounds = (part.lower, part.upper, part.step) if isinstance(part, ast.Slice) else ()
            calls = [call for bound in bounds if bound for call in ast.walk(bound) if isinstance(call, ast.Call)]
            found += [f"{relative(path)}:{call.lineno}" for call in calls if ast.unparse(call.func) not in harmless]
    assert not found


def test_constants_of_compiled_modules_are_final() -> None:
    """mypyc looks up any other name of a module in a dictionary each time."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in compiled_modules().values()
        for node in tree_of(path).body
        if isinstance(node, ast.Assign) and not ast.unparse(node.value).startswith("TypeVar(")
        for target in node.targets
        if ast.unparse(target).isupper() and ast.unparse(target) not in SET_BY_TESTS
    ]
    assert not found


def test_loops_of_compiled_modules_count_without_objects() -> None:
    """mypy takes ``_`` for a name of any type, so mypyc makes an object for each number that is assigned to it."""
    found = [
        f"{relative(path)}:{node.lineno}"
        for path in compiled_modules().values()
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.For) and ast.unparse(node.target) == "_" and ast.unparse(node.iter).startswith("range(")
    ]
    assert not found


@pytest.mark.parametrize(
    "path", python_files("kpybroker/node/assembly", *(f"kpybroker/{each}.py" for each in BESIDE_ASSEMBLY)), ids=relative
)
def test_a_part_is_finished_when_its_builder_returns_it(path: Path) -> None:
    """A builder gives a part everything that it needs when it makes it; nothing is set on a part later."""
    places = [node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute | ast.Name)]
    assert not [
        f"{place.lineno}: {ast.unparse(place)}"
        for place in places
        if (isinstance(place, ast.Attribute) and isinstance(place.ctx, ast.Store) and not _is_self(place.value))
        or (isinstance(place, ast.Name) and place.id == "setattr")
    ]


def _is_self(value: ast.expr) -> bool:
    return isinstance(value, ast.Name) and value.id == "self"
