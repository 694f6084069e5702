"""docs/packages.md: every package of the product in its layer, with the first sentence of its docstring.

The layers and what is pure come from the import contracts in pyproject.toml. A test compares the file with it.
"""

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent.parent
ALSO: Final = ("pyspark_kpybroker", "storage/kpystorage", "wire/kpywire")
"""Import packages beside kpybroker, from above to below."""
LAYERS: Final = "kpybroker is built in layers"
SHORT: Final = 25
"""A first sentence of fewer characters is shown with the second one."""
PURE: Final = "What decides is pure"
_HEAD: Final = """\
# The packages

Written by `make tables` from the docstrings of the packages and from the import contracts in `pyproject.toml`.

Each row imports only from rows below it, and parts that share a row do not know one another. `make lint` checks it.

| layer | |
|---:|---|
"""
_PACKAGES: Final = """
## What each is for

**pure**: no clock, event loop, socket, file, thread or process. **in part**: some of its modules are pure.

| package | pure | what it is |
|---|---|---|
"""


def document() -> str:
    """The content of docs/packages.md."""
    layers = [row.split(" | ") for row in _contract(LAYERS)["layers"]]
    rows = [
        f"| {number} | {', '.join(f'`{name}`' for name in row)} |\n" for number, row in enumerate(reversed(layers), 1)
    ]
    places = [ROOT / "kpybroker" / name for row in layers for name in sorted(row)]
    lines = [_row(path) for place in (*places, *(ROOT / name for name in ALSO)) for path in _listed(place)]
    return "".join([_HEAD, *reversed(rows), _PACKAGES, *lines])


def _contract(name: str) -> dict[str, Any]:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    (found,) = [each for each in contracts if each["name"].startswith(name)]
    assert isinstance(found, dict)
    return found


def _listed(place: Path) -> Iterator[Path]:
    """A module, or a package with the packages in it."""
    if not place.is_dir():
        yield place.with_suffix(".py")
        return
    yield from (path.parent for path in sorted(place.rglob("__init__.py"), key=lambda path: path.parent.parts))


def _row(path: Path) -> str:
    name = f"{path.relative_to(ROOT)}{'/' if path.is_dir() else ''}"
    return f"| `{name}` | {_purity(path)} | {_first_sentence(path)} |\n"


def _purity(path: Path) -> str:
    """Whether the contract of what decides has this package, or some of its modules."""
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
    pure = _contract(PURE)["source_modules"]
    if any(module == each or module.startswith(f"{each}.") for each in pure):
        return "pure"
    return "in part" if any(each.startswith(f"{module}.") for each in pure) else ""


def _first_sentence(path: Path) -> str:
    source = path / "__init__.py" if path.is_dir() else path
    text = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
    first, *others = re.split(r"(?<=\.)\s(?=[A-Z])", re.sub(r"\s+", " ", text.partition("\n\n")[0]))
    sentence = " ".join([first, *others[:1]]) if len(first) < SHORT else first
    return sentence.replace("``", "`").replace("|", "\\|")
