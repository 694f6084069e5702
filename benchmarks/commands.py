"""The time that commands for people take, from the start of the process to its end, against a broker with some topics.

    python -m benchmarks.commands [--kpybroker build/bench-venv/bin/kpybroker] [--runs 20]

The broker is started by the same program. It has 20 topics, with three partitions each, and 10 groups with committed
offsets and without members, so that the doctor has no reason to watch them. Commands take turns.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import click

from benchmarks.machine import machine_text
from benchmarks.sides import Kpybroker
from kpybroker.client import topic_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.group_requests import commit

TOPICS: Final = 20
PARTITIONS: Final = 3
GROUPS: Final = 10
COMMANDS: Final[Sequence[Sequence[str]]] = (("topics", "list"), ("groups", "list"), ("doctor",))


def fill(server: str) -> None:
    """Create the topics and the groups."""
    with Client(server) as client:
        names = [f"topic-{number}" for number in range(TOPICS)]
        for name in names:
            topic_requests.create(client, name, PARTITIONS, 1, {})
        for number in range(GROUPS):
            commit(client, f"group-{number}", {Spot(names[number], index): 0 for index in range(PARTITIONS)})


class TakenTime(NamedTuple):
    """The time that one run takes, and the processor's part of it."""

    wall_ms: float
    cpu_ms: float


def taken(command: Sequence[str]) -> TakenTime:
    """Run a command, and take its time."""
    began_s, used_s = time.perf_counter(), _used_s()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    return TakenTime((time.perf_counter() - began_s) * 1000, (_used_s() - used_s) * 1000)


def _used_s() -> float:
    """The processor time of the children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@click.command()
@click.option(
    "--kpybroker",
    "program",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    default=Path(sys.executable).with_name("kpybroker"),
    help="The installed command; by default that of this environment, in pure Python.",
)
@click.option("--runs", type=click.IntRange(1), default=20, show_default=True)
def main(program: Path, runs: int) -> None:
    """Print the shortest and the median time of each command."""
    Kpybroker.path = program
    with tempfile.TemporaryDirectory(prefix="kpycommands-") as directory, Kpybroker(Path(directory)) as broker:
        fill(broker.bootstrap_servers)
        commands = {words: [str(program), *words, "-b", broker.bootstrap_servers] for words in COMMANDS}
        times: dict[Sequence[str], list[TakenTime]] = {words: [] for words in commands}
        for command in commands.values():
            taken(command)
        for _ in range(runs):
            for words, command in commands.items():
                times[words].append(taken(command))
    click.echo(machine_text())
    for words, found in times.items():
        wall_ms, cpu_ms = ([getattr(each, name) for each in found] for name in TakenTime._fields)
        shown = f"shortest {min(wall_ms):.0f} ms, median {statistics.median(wall_ms):.0f} ms of {runs} runs"
        click.echo(f"{' '.join(words):<12} {shown}; processor {min(cpu_ms):.0f} ms")


if __name__ == "__main__":
    main()
