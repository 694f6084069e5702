"""Runs seeds over copies of the project, each with a planted bug, and says which bugs are found."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from .mutations import Mutation

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("kpybroker", "wire", "storage", "tests/sim", "compat-tests/exactly_once")
MOST_S = 600


class Verdict(NamedTuple):
    """What became of a planted bug: the line of the seed that found it, or nothing."""

    mutation: Mutation
    found: str


def verdicts(mutations: list[Mutation], seeds: str, options: list[str], at_once: int) -> Iterator[Verdict]:
    """Of each mutation, as they become known."""
    waiting = list(mutations)
    running: list[tuple[Mutation, Path, subprocess.Popen[str]]] = []
    while waiting or running:
        while waiting and len(running) < at_once:
            mutation = waiting.pop(0)
            directory = Path(tempfile.mkdtemp(prefix="kpysim-"))
            _plant(mutation, directory)
            command = [sys.executable, "-m", "tests.sim", "run", "--seeds", seeds, *options]
            process = subprocess.Popen(
                command,
                cwd=directory,
                env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            running.append((mutation, directory, process))
        mutation, directory, process = running.pop(0)
        try:
            told = process.communicate(timeout=MOST_S)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            told = "it does not come to an end"
        shutil.rmtree(directory)
        yield Verdict(mutation, _line(told) if process.returncode else "")


def _plant(mutation: Mutation, directory: Path) -> None:
    for part in COPIED:
        shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    path = directory / mutation.path
    text = path.read_text()
    assert text.count(mutation.old) == 1, f"{mutation.name}: its text stands {text.count(mutation.old)} times"
    path.write_text(text.replace(mutation.old, mutation.new))


def _line(told: str) -> str:
    """The one line that says what was found."""
    lines = [line for line in told.splitlines() if line.startswith("seed ")] or told.splitlines()[-1:]
    return lines[0] if lines else "it fails without a word"
