"""The files of this project, as the tests of the project look at them."""

import ast
import functools
import gc
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SHIPPED = ("kpybroker", "pyspark_kpybroker", "wire/kpywire", "storage/kpystorage")
PYTHON = (*SHIPPED, "compat-tests", "benchmarks", "tests", "examples", "release", "conftest.py", "hatch_build.py")
LEFT_OUT = {".git", ".venv", "build", "dist", "data", "__pycache__", ".hypothesis", ".mypy_cache", ".ruff_cache"}
TEXT = {"", ".md", ".toml", ".yaml", ".yml", ".sh", ".java", ".c", ".xml", ".py", ".json", ".txt", ".properties"}


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


@functools.cache
def project_files() -> list[Path]:
    """Every file of ours: those git tracks or would track; without git, all that are not built or fetched."""
    found = _known_to_git()
    if found is None:
        found = [path for path in ROOT.rglob("*") if not LEFT_OUT & set(path.relative_to(ROOT).parts)]
    return sorted(path for path in set(found) if path.is_file())


def _known_to_git() -> list[Path] | None:
    if shutil.which("git") is None:
        return None
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=False)
    if listed.returncode != 0:
        return None
    return [ROOT / name for name in listed.stdout.split("\0") if name]


def text_files() -> list[Path]:
    return [path for path in project_files() if path.suffix in TEXT]


def python_files(*below: str) -> list[Path]:
    """The Python files below these directories; all of the project without any."""
    roots = [ROOT / name for name in below or PYTHON]
    return [
        path for path in project_files() if path.suffix == ".py" and any(path.is_relative_to(root) for root in roots)
    ]


@functools.cache
def tree_of(path: Path) -> ast.Module:
    gc.disable()  # it would walk the millions of nodes that are kept again and again
    try:
        return ast.parse(path.read_text(), str(path))
    finally:
        gc.freeze()
        gc.enable()
