"""``python -m benchmarks.broker_in_a_test``: how long a test waits for its broker.

Cold is the first broker of a new process, with the import of everything apart; warm is each one after that. From the
call to the answer of the first request, in time and in processor time of the test's own process: on a busy machine only
the second says something. Prints medians; judges nothing.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import NamedTuple

import click
from rich.console import Console
from rich.table import Table

AIM_MS = 25.0
PLACES = {"in memory, in a thread": "Broker()", "in a child process": "Broker(process=True)"}
_MEASURE = """
import asyncio, json, socket, sys
from time import perf_counter, process_time
begun = perf_counter(), process_time()
from kpybroker.testing import Broker
taken = [(perf_counter() - begun[0], process_time() - begun[1])]
for _ in range(int(sys.argv[1])):
    begun = perf_counter(), process_time()
    broker = {how}.start()
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(bytes.fromhex("0000000a00120000000000010000"))
        assert client.recv(65536)
    taken.append((perf_counter() - begun[0], process_time() - begun[1]))
    broker.stop()
print(json.dumps(taken))
"""


class Taken(NamedTuple):
    """Seconds, and seconds of the processor."""

    passed_s: float
    cpu_s: float


def measure(how: str, brokers: int, bytecode: str) -> list[Taken]:
    """In a new process: the import, then each broker until it has answered."""
    command = [sys.executable, "-c", _MEASURE.replace("{how}", how), str(brokers)]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": bytecode}
    finished = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    return [Taken(*pair) for pair in json.loads(finished.stdout)]


def median(taken: Sequence[Taken]) -> str:
    """The median as it is printed."""
    passed_ms = statistics.median(each.passed_s for each in taken) * 1000
    cpu_ms = statistics.median(each.cpu_s for each in taken) * 1000
    return f"{passed_ms:.1f} ms ({cpu_ms:.1f} CPU)"


@click.command()
@click.option("--rounds", default=5, show_default=True, help="New processes per place.")
@click.option("--brokers", default=20, show_default=True, help="Brokers one after the other in each.")
def main(rounds: int, brokers: int) -> None:
    """Print medians."""
    table = Table("", "import", "cold: answered", "warm: answered")
    for place, how in PLACES.items():
        with tempfile.TemporaryDirectory() as bytecode:
            measure(how, 1, bytecode)  # compiles everything, as installing a package does
            processes = [measure(how, brokers, bytecode) for _ in range(rounds)]
        columns = [
            [taken[0] for taken in processes],
            [taken[1] for taken in processes],
            [each for taken in processes for each in taken[2:]],
        ]
        table.add_row(place, *map(median, columns))
    Console().print(table)
    click.echo(f"The aim is {AIM_MS:.0f} ms in memory, cold and warm.")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.broker_in_a_test")
