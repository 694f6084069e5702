"""The interface of every foreign suite, and the suites that pytest runs."""

import json
import os
import subprocess
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from foreign.outcomes import Outcomes

HERE = Path(__file__).parent
PYTEST_LIMIT_S = 1800.0


class Suite(Protocol):
    """Tests of somebody else, or with somebody else's client."""

    @property
    def name(self) -> str: ...

    @property
    def broker(self) -> Mapping[str, str]:
        """Configs that the suite expects of the broker."""

    @property
    def nodes(self) -> int:
        """How many brokers the suite expects."""

    @property
    def secured(self) -> bool:
        """Whether it uses the listeners of `secured_broker`, which its environment names."""

    def prepare(self) -> None:
        """Obtain and build everything; raises Unavailable where that cannot be."""

    def run(self, bootstrap_servers: str, directory: Path, only: Collection[str] | None = None) -> Outcomes:
        """Run all tests, or those named, with the directory for files of their own."""


@dataclass(frozen=True, slots=True)
class Pytest:
    """How to run tests by pytest: with which interpreter, from where, with which plugins and environment."""

    python: Path
    root: Path
    tests: Sequence[str]
    plugins: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()

    def run(self, directory: Path, only: Collection[str] | None) -> Outcomes:
        """Its outcomes; what pytest prints goes to ``pytest.log`` in the directory, and files of tests to ``files``."""
        found = directory / "outcomes.jsonl"
        found.unlink(missing_ok=True)
        plugins = [word for name in ("reporting", *self.plugins) for word in ("-p", name)]
        options = ["-q", "-p", "no:cacheprovider", f"--basetemp={directory / 'files'}", *self.options]
        words = [str(self.python), "-m", "pytest", *plugins, *options]
        paths = [str(HERE), str(HERE / "plugins"), os.environ.get("PYTHONPATH", "")]
        environment = {
            **os.environ,
            **self.environment,
            "FOREIGN_OUTCOMES": str(found),
            "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        }
        with open(directory / "pytest.log", "wb") as log:
            subprocess.run(
                [*words, *(sorted(only) if only else self.tests)],
                cwd=self.root,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                timeout=PYTEST_LIMIT_S,
                check=False,
            )
        return read_outcomes(found)


def read_outcomes(path: Path) -> Outcomes:
    """The outcomes that the plugin of reporting.py wrote; a test of several lines has not passed."""
    outcomes = Outcomes()
    if path.exists():
        for line in path.read_text().splitlines():
            entry = json.loads(line)
            outcomes.add(entry["test"], entry["outcome"], entry["reason"])
    return outcomes


@dataclass(frozen=True, slots=True)
class PytestSuite:
    """A suite that is described by a function of the broker's address, called once everything was obtained."""

    name: str
    describe: Callable[[str], Pytest]
    prepare_it: Callable[[], object]
    broker: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    secured: bool = False

    def prepare(self) -> None:
        self.prepare_it()

    def run(self, bootstrap_servers: str, directory: Path, only: Collection[str] | None = None) -> Outcomes:
        return self.describe(bootstrap_servers).run(directory, only)
