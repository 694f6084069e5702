"""franz-go's kfake as a side: a broker in Go, made for tests, that keeps its topics in memory and in files."""

import hashlib
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from benchmarks.raw.compiled import BUILD, CompileError
from benchmarks.sides import Side
from oracle import BrokerProcess, free_port

NAME: Final = "kfake"
SOURCES: Final = Path(__file__).parent
TWO_FILES: Final = "it keeps two files of each partition open, and 20 000 are more than a process usually may"
REFUSED: Final[Mapping[str, str]] = {
    "topics-10000": TWO_FILES,
    "restart-topics-10000": TWO_FILES,
    "partitions-10000": TWO_FILES,
    "spark": "the Admin of Java in Spark fails at the null that it answers for eligible leader replicas",
    "tail-beside-cold": "its segments lie in files of other names, which stay in the page cache",
    "tail-beside-compaction": "it does not write down how far a log is compacted",
}
"""Beginnings of the keys of rows that it cannot serve, and why."""


def program() -> Path:
    """The compiled program; compiles it when its sources changed, which fetches modules. Raises CompileError."""
    names = ("main.go", "go.mod", "go.sum")
    digest = hashlib.sha256(b"".join((SOURCES / name).read_bytes() for name in names)).hexdigest()[:12]
    target = BUILD / f"kfake-{digest}"
    if target.exists():
        return target
    found = shutil.which("go")
    if found is None:
        raise CompileError("no Go (go) on this machine: kfake cannot be built")
    BUILD.mkdir(parents=True, exist_ok=True)
    command = [found, "build", "-trimpath", "-o", str(target), "."]
    built = subprocess.run(command, cwd=SOURCES, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        raise CompileError(f"go build of kfake:\n{built.stderr}")
    return target


class Kfake(BrokerProcess):
    """One broker of kfake."""

    program = NAME

    def __init__(self, directory: Path) -> None:
        super().__init__(directory, free_port())

    def command(self) -> Sequence[str]:
        return [str(program()), str(self.port), str(self.data)]


class KfakeSide(Side):
    """It plays what kfake can serve."""

    def __init__(self, letter: str, directory: Path) -> None:
        super().__init__(letter, NAME, directory, Kfake(directory / "broker"))

    def refuses(self, row: str) -> str | None:
        return next((reason for beginning, reason in REFUSED.items() if row.startswith(beginning)), None)

    def another(self, name: str) -> BrokerProcess:
        directory = self.directory / name
        directory.mkdir(parents=True, exist_ok=True)
        return Kfake(directory)

    def configure_brokers(self, config: Mapping[str, str]) -> None:
        """It has none of these."""
