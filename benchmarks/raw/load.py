"""Runs ``load.c``, compiled once with the C compiler of the machine, and reads what it measured.

A generator in Python would take about as much CPU per request as the broker, on the same cores, and so measure itself.
"""

import json
import subprocess
import tempfile
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.raw import compiled
from benchmarks.raw.asking import Address
from benchmarks.raw.frames import Fetch, Produce

SOURCE: Final = Path(__file__).with_name("load.c")


class LoadError(RuntimeError):
    """The load generator could not be built, or a broker answered it with an error or not at all."""


class Load(NamedTuple):
    """The result of one round of load; ``histogram_us`` holds pairs of a latency and the number of answers with it."""

    answers: int
    seconds: float
    received_bytes: int
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    histogram_us: list[list[float]]


def together(rounds: Sequence[Load]) -> Load:
    """The results of rounds, one after the other, as if they had been one. There must be one."""
    buckets: Counter[float] = Counter()
    for each in rounds:
        for latency_us, count in each.histogram_us:
            buckets[latency_us] += int(count)
    histogram = sorted(buckets.items())
    answers = buckets.total()
    reached = list(accumulate(count for _, count in histogram))

    def percentile(part: float) -> float:
        return histogram[bisect_right(reached, part * answers)][0] if answers else 0.0

    return Load(
        answers,
        sum(each.seconds for each in rounds),
        sum(each.received_bytes for each in rounds),
        percentile(0.5),
        percentile(0.99),
        percentile(0.999),
        max(each.max_us for each in rounds),
        [[latency_us, count] for latency_us, count in histogram],
    )


def program() -> Path:
    """The compiled generator. Raises LoadError."""
    try:
        return compiled.program(SOURCE)
    except compiled.CompileError as error:
        raise LoadError(str(error)) from None


def requests(
    address: Address,
    produces: Sequence[Produce],
    *,
    connections: int,
    seconds: float,
    ready: Callable[[], None] = lambda: None,
) -> Load:
    """Each connection sends one of ``produces`` again and again, each time the last one is answered without an error.

    ``ready`` is called after all connections have been answered once and before the clock starts. Raises LoadError.
    """
    offsets = _join(produces[0].error_offsets)
    return _run("requests", address, [p.frame for p in produces], seconds, [str(connections), offsets], ready)


def end_to_end(
    address: Address, produce: Produce, fetch: Fetch, first_offset: int, *, seconds: float, period_us: int = 0
) -> Load:
    """One record at a time, from sending it to its arrival at a Fetch that waits for it. Raises LoadError."""
    smallest_answer = len(produce.frame) // 2
    numbers = (first_offset, fetch.offset_position, smallest_answer, period_us)
    rest = [*map(str, numbers), _join(produce.error_offsets)]
    return _run("end-to-end", address, [produce.frame, fetch.frame], seconds, rest, lambda: None)


def drain(
    address: Address, fetch: Fetch, offsets: Sequence[int], *, seconds: float, ready: Callable[[], None] = lambda: None
) -> Load:
    """Reads at each of ``offsets`` in turn, one Fetch at a time. Raises LoadError."""
    return _run("drain", address, [fetch.frame], seconds, [str(fetch.offset_position), _join(offsets)], ready)


def _join(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _run(
    mode: str, address: Address, frames: Sequence[bytes], seconds: float, rest: Sequence[str], ready: Callable[[], None]
) -> Load:
    with tempfile.NamedTemporaryFile(prefix="load-", suffix=".frames") as file:
        file.write(b"".join(frames))
        file.flush()
        command = [str(program()), mode, address.host, str(address.port), str(int(seconds * 1000)), file.name, *rest]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            assert process.stderr is not None
            if process.stdout.readline() == "ready\n":
                ready()
                process.stdin.write("\n")
                process.stdin.flush()
            printed, problem = process.stdout.read(), process.stderr.read()
    if process.returncode != 0:
        raise LoadError(f"load {mode}: {problem.strip()}")
    return Load(**json.loads(printed))
