"""Programs of our own with a client for Node, from npm by the lock file in node/: kafkajs, which brings no tests."""

import json
import shutil
import subprocess
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import TimeoutExpired
from typing import Final

from foreign.outcomes import Outcomes
from foreign.packages import BUILD, call, needed

SOURCES: Final = Path(__file__).parent / "node"
INSTALLED: Final = BUILD / "node"
LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class NodeProgram:
    """A program of the folder ``node``, named like its suite; it prints an outcome of each of its checks."""

    name: str
    broker: Mapping[str, str] = field(default_factory=dict)
    nodes: int = 1
    secured: bool = False

    def prepare(self) -> None:
        needed("node")
        INSTALLED.mkdir(parents=True, exist_ok=True)
        wanted = (SOURCES / "package-lock.json").read_text()
        for source in SOURCES.iterdir():
            shutil.copy(source, INSTALLED)
        stamp = INSTALLED / "installed"
        if not stamp.exists() or stamp.read_text() != wanted:
            call([needed("npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=INSTALLED)
            stamp.write_text(wanted)

    def run(self, bootstrap_servers: str, directory: Path, only: Collection[str] | None = None) -> Outcomes:
        outcomes = Outcomes()
        printed = directory / "outcomes.log"
        with open(directory / "errors.log", "wb") as errors, open(printed, "wb") as output, suppress(TimeoutExpired):
            subprocess.run(
                [needed("node"), f"{self.name}.mjs", bootstrap_servers, *sorted(only or ())],
                cwd=INSTALLED,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=errors,
                timeout=LIMIT_S,
                check=False,
            )
        for line in printed.read_text().splitlines():
            entry = json.loads(line)
            outcomes.add(entry["test"], entry["outcome"], entry["reason"])
        return outcomes


KAFKAJS: Final = NodeProgram("kafkajs")
