"""The command line of the soak: how long, how often to look, which kpybroker."""

import tempfile
import time
from collections.abc import Sequence
from http.client import HTTPException
from pathlib import Path
from typing import Final

import click

from benchmarks import CHECKOUT
from benchmarks.figures import shown
from benchmarks.raw.asking import Address
from benchmarks.sides import HOST, Kpybroker, version
from benchmarks.soak import outcome
from benchmarks.soak.sampling import Sampler
from benchmarks.soak.trend import Sample, growths
from benchmarks.soak.workload import CLIENTS, Client, Troubles, create_steady

DIRECTORY = click.Path(path_type=Path, file_okay=False)
COMMAND = click.Path(path_type=Path, dir_okay=False, exists=True)
OUTPUT: Final = CHECKOUT / "build" / "bench" / "soak"
SAMPLES: Final = 720
"""About this number in a run, but not more than one a second."""
STOP_TIMEOUT_S: Final = 90
SETTINGS: Final = {
    "log.retention.check.interval.ms": "5000",
    "log.segment.delete.delay.ms": "5000",
    "group.initial.rebalance.delay.ms": "500",
    "offsets.topic.num.partitions": "5",
}
"""So that an hour sees as much of retention and rebalancing as a day does."""


class SoakedBroker(Kpybroker):
    """With short intervals for what usually happens seldom."""

    def command(self) -> Sequence[str]:
        overrides = [f"--override={key}={value}" for key, value in SETTINGS.items()]
        return [*super().command(), *overrides, "--log-level", "WARNING"]


@click.command()
@click.option("--seconds", type=click.FloatRange(20), default=3600.0, show_default=True)
@click.option("--kpybroker", type=COMMAND, help="The kpybroker command of another environment than this one.")
@click.option("--output", type=DIRECTORY, default=OUTPUT, show_default=True, help="Where the results go.")
@click.option("--data", type=DIRECTORY, help="An existing directory for the broker's data.")
def main(seconds: float, kpybroker: Path | None, output: Path, data: Path | None) -> None:
    """Load one broker with everything at once and look whether anything grows.

    Ends with code 1 when memory, descriptors or pauses have a slope, or when a client saw something wrong.
    """
    output.mkdir(parents=True, exist_ok=True)
    if kpybroker is not None:
        Kpybroker.path = kpybroker.absolute()
    troubles = Troubles()
    with tempfile.TemporaryDirectory(prefix="kpysoak-", dir=data) as directory:
        broker = SoakedBroker(Path(directory) / "broker")
        with broker:
            samples = soak(broker, seconds, troubles)
        (output / "broker.log").write_text(broker.output.read_text())
    publish(samples, troubles, output)
    lines = outcome.verdict(samples, troubles.lines)
    click.echo("\n".join(lines) or "Nothing grows, and every record was where it belongs.")
    raise SystemExit(1 if lines else 0)


def soak(broker: Kpybroker, seconds: float, troubles: Troubles) -> list[Sample]:
    """Runs all clients for so long and samples the broker."""
    address = Address(HOST, broker.port)
    create_steady(address)
    clients = [made(address, troubles) for made in CLIENTS]
    for client in clients:
        client.start()
    samples: list[Sample] = []
    try:
        sampler = Sampler(broker)
        every_s = max(1.0, seconds / SAMPLES)
        end_s = time.monotonic() + seconds
        while (left_s := end_s - time.monotonic()) > 0:
            time.sleep(min(every_s, left_s))
            samples.append(sampler.sample())
    except (OSError, HTTPException) as error:
        troubles.add(f"the broker does not answer any more: {error}")
    stop(clients, troubles)
    return samples


def stop(clients: Sequence[Client], troubles: Troubles) -> None:
    """All of them at once; one that does not end is trouble."""
    for client in clients:
        client.stopping.set()
    deadline = time.monotonic() + STOP_TIMEOUT_S
    for client in clients:
        client.join(max(0.0, deadline - time.monotonic()))
        if client.is_alive():
            troubles.add(f"{client.name} does not end")


def publish(samples: Sequence[Sample], troubles: Troubles, output: Path) -> None:
    """Prints the table and writes table, samples and page."""
    if not samples:
        return
    try:
        grown = growths(samples)
    except ValueError:
        grown = []
    table = outcome.markdown(samples, grown, troubles.counted, version("kpybroker"))
    (output / "results.md").write_text(table)
    (output / "results.json").write_text(outcome.as_json(samples, troubles.counted, list(troubles.lines)))
    (output / "results.html").write_text(outcome.page(samples, table))
    click.echo(table)
    click.echo(
        f"Written: {output / 'results.md'}, results.json, results.html, broker.log. {shown(len(samples))} samples."
    )
