"""``python -m benchmarks.broker_in_a_test``: how long a test waits for its broker.

Cold is the first broker of a new process, with the import of everything apart; warm is each one after that. From the
call to the answer of the first request. Prints figures; judges nothing.
"""

import json
import statistics
import subprocess
import sys
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table

AIM_MS = 25.0
PLACES = {"in memory, in a thread": "Broker()", "in a child process": "Broker(process=True)"}
_MEASURE = """
import asyncio, json, socket, sys, time
begun = time.perf_counter()
from kpybroker.testing import Broker
imported = time.perf_counter()
figures = []
for _ in range(int(sys.argv[1])):
    called = time.perf_counter()
    broker = {how}.start()
    started = time.perf_counter()
    with socket.create_connection((broker.host, broker.port)) as client:
        client.sendall(bytes.fromhex("0000000a00120000000000010000"))
        assert client.recv(65536)
    answered = time.perf_counter()
    broker.stop()
    figures.append((started - called, answered - called, time.perf_counter() - answered))
print(json.dumps([imported - begun, figures]))
"""


def measure(how: str, brokers: int) -> tuple[float, Sequence[Sequence[float]]]:
    """In a new process: (seconds of import, and of each broker until started, until answered, to stop)."""
    command = [sys.executable, "-c", _MEASURE.replace("{how}", how), str(brokers)]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    import_s, figures = json.loads(said)
    return import_s, figures


@click.command()
@click.option("--rounds", default=5, show_default=True, help="New processes per place.")
@click.option("--brokers", default=20, show_default=True, help="Brokers one after the other in each.")
def main(rounds: int, brokers: int) -> None:
    """Print medians in milliseconds."""
    table = Table("", "import", "cold: answered", "warm: started", "warm: answered", "warm: stopped")
    for place, how in PLACES.items():
        taken = [measure(how, brokers) for _ in range(rounds)]
        warm = [figures for _, all_of_them in taken for figures in all_of_them[1:]]
        columns = [
            [import_s for import_s, _ in taken],
            [all_of_them[0][1] for _, all_of_them in taken],
            *([figures[column] for figures in warm] for column in range(3)),
        ]
        table.add_row(place, *(f"{statistics.median(column) * 1000:.1f} ms" for column in columns))
    Console().print(table)
    print(f"The aim is {AIM_MS:.0f} ms in memory, cold and warm.")


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.broker_in_a_test")
