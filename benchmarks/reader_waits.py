"""The time of a reader of librdkafka, at Apache Kafka and at kpybroker, and the share of it in which it waits.

    python -m benchmarks.reader_waits [--records 1000000] [--rounds 5] [--kpybroker FILE]

Topics of 100 B records with the same batches are read from their start in alternating rounds. Of each thread of the
client it prints the share of the time in which it ran, had no core, and waited for something to do. Beside them stand
the rate at which the same loop takes records that are all in the client's queue already, so that no broker is part of
it, the time by which the last answer was there, and the time in which an answer was under way. Shares are medians.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import click

from benchmarks import CHECKOUT
from benchmarks.clients import running
from benchmarks.clients.observed_consume import FETCHER
from benchmarks.machine import machine_text
from benchmarks.rows.shape import Shape
from benchmarks.sides import Kpybroker, Side

SHAPE: Final = Shape(record_bytes=100)
SIDES: Final = ("apache-kafka", "kpybroker")
TIMEOUT_S: Final = 120
LEAST_ANSWER_BYTES: Final = 1000
"""Smaller ones brought no record."""
ANSWER: Final = re.compile(
    r"\|(\d+\.\d+)\|RECV\|.*Received FetchResponse \(v\d+, (\d+) bytes, CorrId \d+, rtt ([\d.]+)ms\)"
)
RATE: Final = "records/s, millions"
QUEUED_RATE: Final = "records/s of the loop alone, millions"
BROKER_CPU: Final = "broker: CPU, s for 1 M records"

Figures = dict[str, float]


def observed(side: Side, topic: str, count: int, *options: str) -> tuple[dict[str, Any], str]:
    """The client's results of one round, and librdkafka's log. Raises running.ClientError."""
    command = [sys.executable, "-m", "benchmarks.clients.observed_consume", side.bootstrap_servers, topic]
    command += [str(SHAPE.partitions), str(count), *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, cwd=CHECKOUT)
    if ended.returncode:
        raise running.ClientError(ended.stderr[-2000:])
    return json.loads(ended.stdout), ended.stderr


def figures(seen: Mapping[str, Any], log: str, count: int) -> Figures:
    """The figures of one round."""
    whole_s: float = seen["seconds"]
    found = {RATE: count / whole_s / 1e6}
    for name, thread in (("loop", "loop"), ("librdkafka's thread", FETCHER)):
        running_s, ready_s, sleeps = seen["threads"][thread]
        found[f"{name}: CPU, s for 1 M records"] = running_s / count * 1e6
        found[f"{name}: ran, %"] = 100 * running_s / whole_s
        found[f"{name}: had no core, %"] = 100 * ready_s / whole_s
        found[f"{name}: waited, %"] = 100 * (1 - (running_s + ready_s) / whole_s)
        found[f"{name}: waits, for 1 M records"] = sleeps / count * 1e6
    answers = [(float(at), int(size), float(rtt)) for at, size, rtt in ANSWER.findall(log)]
    answers = [answer for answer in answers if answer[1] >= LEAST_ANSWER_BYTES]
    found["answers with records"] = len(answers)
    found["MB received"] = sum(size for _, size, _ in answers) / 1e6
    found["an answer was under way, %"] = sum(rtt_ms for _, _, rtt_ms in answers) / 10 / whole_s
    found["the last answer had come after, %"] = 100 * (answers[-1][0] - seen["began_at_s"]) / whole_s
    found["client's memory, MB"] = seen["peak_mb"]
    return found


def play(side: Side, topic: str, count: int) -> Figures:
    """One round from the broker, and one from the client's queue."""
    cpu_s = side.cpu_seconds()
    seen, log = observed(side, topic, count)
    cpu_s = side.cpu_seconds() - cpu_s
    alone, _ = observed(side, topic, count, "queued")
    return {
        **figures(seen, log, count),
        BROKER_CPU: cpu_s / count * 1e6,
        QUEUED_RATE: count / alone["seconds"] / 1e6,
        "the loop alone: CPU, s for 1 M records": alone["threads"]["loop"][0] / count * 1e6,
    }


@click.command()
@click.option("--records", default=1_000_000, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=5, show_default=True)
@click.option("--uncounted", default=5, show_default=True, help="Rounds before those, for the JVM.")
@click.option("--kpybroker", type=click.Path(exists=True, path_type=Path), help="The command of another environment.")
def main(records: int, rounds: int, uncounted: int, kpybroker: Path | None) -> None:
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    with tempfile.TemporaryDirectory(prefix="kpyreader-") as directory, ExitStack() as stack:
        found: dict[Side, list[Figures]] = {}
        topics: dict[Side, str] = {}
        for letter, program in zip("AB", SIDES, strict=True):
            side = stack.enter_context(Side(letter, program, Path(directory) / program))
            topics[side], found[side] = side.create_topic("reader", SHAPE.partitions), []
            running.confluent_fill(side.bootstrap_servers, topics[side], records, SHAPE)
        for number in range(-uncounted, rounds):
            for side, rounds_of_side in found.items():
                if number >= 0:
                    rounds_of_side.append(play(side, topics[side], records))
                else:
                    observed(side, topics[side], records)
    show(list(found.values()))


def show(found: list[list[Figures]]) -> None:
    """Print the medians of both sides, and the ratios of the rates."""
    click.echo(machine_text())
    click.echo(f"{'medians of ' + str(len(found[0])) + ' rounds':44} {SIDES[0]:>12} {SIDES[1]:>12}")
    for name in found[0][0]:
        shown = [median(figures_of_round[name] for figures_of_round in rounds) for rounds in found]
        click.echo(f"{name:44} {shown[0]:12.3g} {shown[1]:12.3g}")
    for name in (RATE, QUEUED_RATE):
        ratios = [ours[name] / kafkas[name] for kafkas, ours in zip(*found, strict=True)]
        click.echo(f"ratio of {name}: {median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


if __name__ == "__main__":
    main()
