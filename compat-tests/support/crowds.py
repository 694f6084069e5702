"""Many Java consumers in one group of the consumer protocol (KIP-848), in one JVM.

They join and leave on command, and report when all have an even share of the partitions.
"""

import re
import selectors
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from oracle.jars import compile_java, jvm
from oracle.process import die_with_parent

PROGRAM: Final = "CrowdOfConsumers"
PATIENCE_S: Final = 180
EVEN: Final = re.compile(r"even after (\d+) ms, owned twice (\d+)\n")


class Even(NamedTuple):
    """The time after which all members had an even share, and how often a partition has had two owners so far."""

    after_s: float
    owned_twice: int


class Crowd:
    """The members, as a context manager. Their topic has to be there; ``log`` gets the errors."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, log: Path, group: str = "crowd") -> None:
        self.arguments = [bootstrap_servers, topic, group, str(partitions)]
        self.log = log

    def __enter__(self) -> Self:
        compiled = compile_java(Path(__file__).parents[1] / "java" / f"{PROGRAM}.java")
        command = [*jvm(compiled), PROGRAM, *self.arguments]
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                preexec_fn=die_with_parent,
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()

    def join(self, members: int, *, disturb: Callable[[], None] = lambda: None) -> Even:
        """Let that many more members join, and wait until all share evenly. ``disturb`` is called meanwhile."""
        return self._ask(f"join {members}", disturb)

    def leave(self, members: int, *, disturb: Callable[[], None] = lambda: None) -> Even:
        """Let that many members leave, and wait until the others share evenly."""
        return self._ask(f"leave {members}", disturb)

    def _ask(self, command: str, disturb: Callable[[], None]) -> Even:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        disturb()
        until_s = time.monotonic() + PATIENCE_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            assert selector.select(until_s - time.monotonic()), f"{command}: no answer"
        line = self._process.stdout.readline()
        answer = EVEN.fullmatch(line)
        assert answer is not None, f"{command}: {line or self.log.read_text()[-3_000:]}"
        return Even(int(answer[1]) / 1000, int(answer[2]))
