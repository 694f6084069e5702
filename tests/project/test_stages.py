"""The table of what each stage of a run took: it stands before the last line, which stays pytest's summary."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from sources import ROOT, python_files, relative

STAGES = (
    *("lint", "test-fast-a-l", "test-fast-m-z", "test-slow-a-l", "test-slow-m-z", "test-project", "test-hostile"),
    *("compat-java", "compat-rest", "compat-groups", "compat-spark"),
)
MARKS = re.compile(r"mark\.(slow|java|spark)\b")
PROGRAM = """\
#!/bin/sh
case "$*" in
*"--target kpybroker"*"not slow and spark"*) echo "7 passed in 0.1s"; exit {status};;
*pytest*) echo "1 passed in 0.1s";;
esac
"""
"""A stand-in for the programs of an environment: its pytest has run one test, or seven with Spark."""


def ran(directory: Path, status: int, **variables: str) -> subprocess.CompletedProcess[str]:
    """``make test`` in a directory that has the Makefile and an environment of stand-ins."""
    directory.mkdir(exist_ok=True)
    shutil.copy(ROOT / "Makefile", directory)
    shutil.copytree(ROOT / ".ci", directory / ".ci")
    programs = directory / "venv" / "bin"
    programs.mkdir(parents=True)
    for name in ("python", "ruff", "mypy", "lint-imports"):
        (programs / name).write_text(PROGRAM.format(status=status))
        (programs / name).chmod(0o755)
    (directory / "pyproject.toml").touch()
    (directory / "venv" / ".tests").touch()
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "KPYBROKER", "LINTED"))
    }
    return subprocess.run(
        ["make", "--silent", "test", "VENV=venv"],
        cwd=directory,
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def table(text: str) -> list[str]:
    """The stages in the table, which stands before the last line."""
    lines = text.splitlines()
    begin = next(number for number, line in enumerate(lines) if re.fullmatch(r"stage +seconds", line))
    rows = [re.fullmatch(r"(.+?) +(\d+)", line) for line in lines[begin + 1 : -1]]
    assert all(rows)
    return [row[1] for row in rows if row]


@pytest.mark.parametrize("status", [0, 1], ids=["passed", "failed"])
def test_a_run_ends_with_what_each_stage_took_and_then_the_summary(status: int, tmp_path: Path) -> None:
    done = ran(tmp_path, status)
    assert (done.returncode == 0) == (status == 0), done.stderr
    assert done.stdout.splitlines()[-1] == "7 passed in 0.1s"
    *stages, last = table(done.stdout)
    assert sorted(stages) == sorted(STAGES)
    assert last == "from begin to end"


def test_stages_before_the_tests_are_in_the_table(tmp_path: Path) -> None:
    stages = tmp_path / "earlier.txt"
    stages.write_text("100 began\n3 kerberos\n")
    assert "kerberos" in table(ran(tmp_path / "run", 0, KPYBROKER_STAGES=str(stages)).stdout)


def test_continuous_integration_measures_every_stage() -> None:
    script = (ROOT / ".ci" / "run").read_text()
    measured = set(re.findall(r"^ *stage ([\w-]+)", script, re.MULTILINE))
    assert {"setup", "lint", "helm", "kfake", "kerberos", "prometheus", "browser", "wheels-elsewhere-short"} <= measured
    assert "make --no-print-directory test" in script


def test_what_is_linted_already_is_not_linted_again(tmp_path: Path) -> None:
    assert sorted(table(ran(tmp_path, 0, LINTED="1").stdout)[:-1]) == sorted(set(STAGES) - {"lint"})


def test_marks_that_choose_a_part_stand_in_modules_of_tests() -> None:
    """The Makefile finds the modules of a part by them."""
    marked = [path for path in python_files("tests", "compat-tests") if MARKS.search(path.read_text())]
    assert len(marked) > 100
    assert not [relative(path) for path in marked if not path.name.startswith("test_")]


def test_each_folder_of_tests_is_in_one_half() -> None:
    """The Makefile divides them by their first letters."""
    folders = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and any(path.glob("test_*.py"))]
    assert len(folders) > 50
    assert not [path.name for path in folders if not re.match("[a-lm-z]", path.name)]
    assert not list((ROOT / "tests").glob("test_*.py"))
