"""Runs seeds with planted bugs, and says which bugs are found: by which seed, in how much time.

The seed that found a bug before is tried first (`catches.txt`); where that seed knows nothing of it any more, many
others are tried. A seed that fails without the bug, too, has found nothing.
"""

import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import sleep
from typing import NamedTuple

from .kind import PLAIN, TIERING
from .mutations import Mutation
from .planting import VARIABLE
from .processor import REAL_NS

ROOT = Path(__file__).resolve().parents[2]
CATCHES = Path(__file__).with_name("catches.txt")
QUORUM = "kpybroker/machines/raft/"
QUORUM_ALONE = "quorum"
QUORUM_SEEDS = "0-199"
TIERS_ALONE = "tiers"
TIERS_SEEDS = "0-149"
COMPACTION_ALONE = "compaction"
COMPACTION_SEEDS = "0-149"
SUSPICION_ALONE = "suspicion"
SUSPICION_SEEDS = "0-23"
MOST_S = 300
"""The processor time of a search, so that a busy machine finds as much as a quiet one."""
LOOK_S = 0.05
FAILED = re.compile(
    r"^seed (\d+)(?: of (the quorum|tiered storage|compacted tiered storage|suspicion) alone)?: ", re.MULTILINE
)
ALONE = {
    "the quorum": QUORUM_ALONE,
    "tiered storage": TIERS_ALONE,
    "compacted tiered storage": COMPACTION_ALONE,
    "suspicion": SUSPICION_ALONE,
}


class Search(NamedTuple):
    """Seeds of one kind of world, or of the quorum or tiered storage alone."""

    world: str
    """The number of nodes, behind the name of the world and a hyphen if it has one: 3, plain-3."""
    seeds: str

    @property
    def options(self) -> list[str]:
        """The options of the command that runs them."""
        if self.world == QUORUM_ALONE:
            return ["--quorums", self.seeds, "--seeds", ""]
        if self.world == TIERS_ALONE:
            return ["--tiers", self.seeds, "--seeds", ""]
        if self.world == COMPACTION_ALONE:
            return ["--compaction", self.seeds, "--seeds", ""]
        if self.world == SUSPICION_ALONE:
            return ["--suspicion", self.seeds, "--seeds", ""]
        name, _, nodes = self.world.rpartition("-")
        return ["--nodes", nodes, *((f"--{name}", self.seeds, "--seeds", "") if name else ("--seeds", self.seeds))]

    def __str__(self) -> str:
        return f"{self.world} {self.seeds}"


class Verdict(NamedTuple):
    """The fate of a planted bug."""

    mutation: Mutation
    catch: Search | None
    """The seed that found it; None if none did."""
    line: str
    """The line that it printed."""
    took_s: float


class Run:
    """A process that runs seeds, with a bug or without one."""

    def __init__(self, search: Search, bug: str) -> None:
        self.search = search
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.sim", "run", *search.options],
            cwd=ROOT,
            env={**os.environ, VARIABLE: bug, "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        resource.prlimit(self._process.pid, resource.RLIMIT_CPU, (MOST_S, MOST_S + 1))

    def result(self) -> tuple[Search | None, str] | None:
        """The seed that failed, and what it said; None while it runs."""
        code = self._process.poll()
        if code is None:
            return None
        if code in (-signal.SIGXCPU, -signal.SIGKILL):
            self.end()
            return None, f"no end of it after {MOST_S} s of the processor"
        reported = self._process.communicate()[0]
        if code == 0:
            return None, ""
        failed = FAILED.search(reported)
        if failed is None:
            return None, f"it does not run: {reported.splitlines()[-1:]}"
        line = reported[failed.start() :].splitlines()[0]
        return Search(ALONE.get(failed[2], self.search.world), failed[1]), line

    def end(self) -> None:
        """Leave nothing behind."""
        self._process.kill()
        self._process.communicate()


class Trial:
    """One bug, and the searches for it one after the other."""

    def __init__(
        self, mutation: Mutation, searches: Sequence[Search], sound: set[Search], unsound: set[Search]
    ) -> None:
        """``sound`` are seeds that are known to pass without a bug, ``unsound`` those that do not."""
        self.mutation = mutation
        self._waiting = list(searches)
        self._sound, self._unsound = sound, unsound
        self._began_ns = REAL_NS()
        self._caught: tuple[Search, str] | None = None
        self._note = "" if mutation.has_place(ROOT) else "it has no place in the sources"
        self._run = Run(self._waiting.pop(0), mutation.name)

    def verdict(self) -> Verdict | None:
        """None while it runs."""
        result = self._run.result()
        if result is None:
            return None
        catch, line = result
        if self._caught is not None:  # this run was without the bug
            (self._sound if catch is None and not line else self._unsound).add(self._caught[0])
        elif catch is not None:
            self._caught = catch, line
            if catch not in self._sound | self._unsound:
                self._run = Run(catch, "")
                return None
        else:
            self._note = line or self._note
        if self._caught is not None and self._caught[0] in self._sound:
            return self._verdict(*self._caught)
        if self._caught is not None:
            self._note = f"seed {self._caught[0]} fails without the bug, too"
            self._caught = None
        if not self._waiting:
            return self._verdict(None, self._note)
        self._run = Run(self._waiting.pop(0), self.mutation.name)
        return None

    def _verdict(self, catch: Search | None, line: str) -> Verdict:
        return Verdict(self.mutation, catch, line, (REAL_NS() - self._began_ns) / 1e9)

    def end(self) -> None:
        """Leave nothing behind."""
        self._run.end()


def searches(mutation: Mutation, known: dict[str, Search], seeds: str) -> list[Search]:
    """The worlds where a bug is searched: the world that knows it, the part alone if it is there, many."""
    found = [known[mutation.name]] if mutation.name in known else []
    if mutation.path.startswith(QUORUM):
        found.append(Search(QUORUM_ALONE, QUORUM_SEEDS))
    if mutation.world == TIERING:
        found.append(Search(TIERS_ALONE, TIERS_SEEDS))
    if mutation.world == COMPACTION_ALONE:
        return [*found, Search(COMPACTION_ALONE, COMPACTION_SEEDS)]
    if mutation.world == SUSPICION_ALONE:
        return [*found, Search(SUSPICION_ALONE, SUSPICION_SEEDS)]
    if seeds:
        worlds = (f"{mutation.world}-",) if mutation.world else (f"{PLAIN}-", "")
        found += [Search(f"{world}{mutation.nodes}", seeds) for world in worlds]
    return found


def verdicts(mutations: Sequence[Mutation], seeds: str, at_once: int) -> Iterator[Verdict]:
    """The verdicts on mutations, as they become known. Without ``seeds`` only in the worlds that are known to find
    them."""
    known = read_catches()
    waiting = [(each, searches(each, known, seeds)) for each in mutations]
    running: list[Trial] = []
    sound: set[Search] = set()
    unsound: set[Search] = set()
    try:
        while waiting or running:
            while waiting and len(running) < at_once:
                mutation, places = waiting.pop(0)
                if places:
                    running.append(Trial(mutation, places, sound, unsound))
                else:
                    yield Verdict(mutation, None, "no seed is known to find it", 0.0)
            for trial in list(running):
                verdict = trial.verdict()
                if verdict is not None:
                    running.remove(trial)
                    yield verdict
            sleep(LOOK_S)
    finally:
        for trial in running:
            trial.end()


def read_catches() -> dict[str, Search]:
    """By bug: the seed that found it."""
    found = {}
    for line in CATCHES.read_text().splitlines() if CATCHES.exists() else ():
        if line and not line.startswith("#"):
            world, seed, name = line.split(None, 2)
            found[name] = Search(world, seed)
    return found


def write_catches(catches: dict[str, Search], names: Sequence[str]) -> None:
    """Keep them, in the order of the list of bugs."""
    lines = ["# Planted bugs, and a seed that finds each: the world (its name if it has one, nodes), seed, bug."]
    lines += [f"{catches[name]} {name}" for name in names if name in catches]
    CATCHES.write_text("\n".join(lines) + "\n")
