"""Runs seeds over copies of the project, each with a planted bug, and says which bugs are found."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from time import sleep
from typing import NamedTuple

from .mutations import Mutation
from .processor import REAL_NS

ROOT = Path(__file__).resolve().parents[2]
COPIED = ("kpybroker", "wire", "storage", "tests/sim", "tests/raft", "compat-tests/exactly_once")
QUORUM = "kpybroker/raft/"
QUORUM_SEEDS = "0-299"
MOST_S = 900
LOOK_S = 0.2


class Verdict(NamedTuple):
    """What became of a planted bug: the line of the seed that found it, or nothing."""

    mutation: Mutation
    found: str


class Trial:
    """A copy of the project with a planted bug, and the seeds that run over it."""

    def __init__(self, mutation: Mutation, seeds: str, nodes: int) -> None:
        self.mutation = mutation
        self._directory = Path(tempfile.mkdtemp(prefix="kpysim-"))
        self._ends_ns = REAL_NS() + MOST_S * 10**9
        _plant(mutation, self._directory)
        if mutation.seeds:
            seeds, nodes = (
                (mutation.seeds, mutation.nodes) if nodes != mutation.nodes else (f"{mutation.seeds},{seeds}", nodes)
            )
        options = ["--nodes", str(nodes), "--seeds", seeds]
        if mutation.path.startswith(QUORUM):
            options += ["--quorums", QUORUM_SEEDS]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sim", "run", *options],
            cwd=self._directory,
            env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            text=True,
            stderr=subprocess.STDOUT,
        )

    def verdict(self) -> Verdict | None:
        """None while it runs."""
        code = self._process.poll()
        if code is None and REAL_NS() < self._ends_ns:
            return None
        line = _line(self._process.communicate()[0]) if code is not None else "it does not come to an end"
        self.end()
        return Verdict(self.mutation, line if code != 0 else "")

    def end(self) -> None:
        """Leave nothing behind."""
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._directory, ignore_errors=True)


def verdicts(mutations: list[Mutation], seeds: str, nodes: int, at_once: int) -> Iterator[Verdict]:
    """Of each mutation, as they become known."""
    waiting = list(mutations)
    running: list[Trial] = []
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                mutation = waiting.pop(0)
                if mutation.has_place(ROOT):
                    running.append(Trial(mutation, seeds, nodes))
                else:
                    yield Verdict(mutation, "")
            for trial in list(running):
                verdict = trial.verdict()
                if verdict is not None:
                    running.remove(trial)
                    yield verdict
            sleep(LOOK_S)
    finally:
        for trial in running:
            trial.end()


def _plant(mutation: Mutation, directory: Path) -> None:
    for part in COPIED:
        shutil.copytree(ROOT / part, directory / part, ignore=shutil.ignore_patterns("__pycache__"))
    path = directory / mutation.path
    text = path.read_text()
    path.write_text(text.replace(mutation.old, mutation.new))


def _line(told: str) -> str:
    """The one line that says what was found."""
    lines = [line for line in told.splitlines() if line.startswith("seed ")] or told.splitlines()[-1:]
    return lines[0] if lines else "it fails without a word"
