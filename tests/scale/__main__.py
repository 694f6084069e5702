"""``python -m tests.scale``: plays the stories of a large cluster and prints what each cost, as a table or as JSON."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from kpybroker.runtime.io.collector import GarbageCollector

from . import stories
from .cluster import Cluster

ROOT = Path(__file__).resolve().parents[2]


@click.command()
@click.option("--nodes", default=30, show_default=True, help="Brokers, in three racks.")
@click.option("--partitions", default=10_000, show_default=True, help="Partitions, with three replicas each.")
@click.option("--per-topic", default=10, show_default=True, help="Partitions of each topic.")
@click.option("--restarts", default=3, show_default=True, help="Brokers that are restarted one by one.")
@click.option("--failover/--no-failover", default=True, help="Also play a failover, with three controllers.")
@click.option(
    "--stories/--no-stories", "tells", default=True, help="Play the stories; else the controller's machine alone."
)
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="Also write all figures as JSON.")
def main(
    nodes: int, partitions: int, per_topic: int, restarts: int, failover: bool, tells: bool, write: Path | None
) -> None:
    """Play the stories of a large cluster, with real controllers and thin brokers on virtual time."""
    figures = played(nodes, partitions, per_topic, restarts, failover=failover) if tells else {}
    if tells:
        Console(width=170).print(shown(figures), shown_causes(figures))
        click.echo(json.dumps(figures["a controller starts cold"], indent=1))
    figures["the machine alone"] = alone(nodes, partitions)
    click.echo(json.dumps(figures["the machine alone"], indent=1))
    if write is not None:
        write.write_text(json.dumps(figures, indent=1) + "\n")


def played(nodes: int, partitions: int, per_topic: int, restarts: int, *, failover: bool) -> dict[str, Any]:
    """The figures of all stories, by their names."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="kpyscale-") as folder:
        cluster = Cluster(Path(folder) / "one", nodes)
        GarbageCollector(cluster.scheduler).start()  # as in a node
        cluster.until(lambda: cluster.controllers.active)
        for name, play in stories.of_one_controller(cluster, partitions, per_topic, restarts):
            with stories.measured(cluster) as figures:
                play(figures)
            found[name] = figures
        cluster.controllers.end()
        cold = [sys.executable, "-m", "tests.scale.cold", str(Path(folder) / "one")]
        ended = subprocess.run(cold, cwd=ROOT, check=True, capture_output=True, text=True)
        found["a controller starts cold"] = json.loads(ended.stdout)
        if failover:
            found["a controller fails over"] = failed_over(Path(folder) / "three", nodes, partitions, per_topic)
    return found


def alone(nodes: int, partitions: int) -> dict[str, Any]:
    """The figures of the controller's machine without a cluster."""
    with tempfile.NamedTemporaryFile(prefix="kpyscale-") as file:
        command = [sys.executable, "-m", "tests.scale.machine", file.name]
        subprocess.run([*command, str(nodes), str(partitions)], cwd=ROOT, check=True)
        ended = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def failed_over(folder: Path, nodes: int, partitions: int, per_topic: int) -> stories.Figures:
    """The figures of a failover in a cluster of its own."""
    cluster = Cluster(folder, nodes, voters=3)
    cluster.until(lambda: cluster.controllers.active)
    cluster.start_brokers()
    cluster.create_topics(partitions, per_topic)
    cluster.until_all_know()
    with stories.measured(cluster) as figures:
        stories.failed_over(cluster, figures)
    cluster.controllers.end()
    return figures


def shown(figures: dict[str, Any]) -> Table:
    """The stories, a line each."""
    table = Table(
        "story", *("virtual s", "CPU ms", "records", "requests", "MB in", "MB out", "reader ms", "longest step")
    )
    for name, row in figures.items():
        if "cpu_ms" in row:
            cells = [
                f"{row['virtual_ms'] / 1000:.2f}",
                f"{row['cpu_ms']:.0f}",
                str(row["records"]),
                str(row["requests"]),
                f"{row['bytes_in'] / 1e6:.1f}",
                f"{row['bytes_out'] / 1e6:.1f}",
                f"{row['reader_cpu_ms']:.0f}",
                f"{row['longest_step_ms']:.1f} ms {row['longest_step_is']}",
            ]
            table.add_row(name, *cells)
    return table


def shown_causes(figures: dict[str, Any]) -> Table:
    """The CPU time of each story by its causes, and what it measures alone."""
    table = Table("story", "CPU ms by cause", "and")
    for name, row in figures.items():
        if "causes_ms" in row:
            causes = ", ".join(f"{cause} {spent:.0f}" for cause, spent in list(row["causes_ms"].items())[:5])
            others = ("until_fenced_ms", "until_all_know_ms", "until_active_ms", "leaderless", "fenced")
            table.add_row(name, causes, ", ".join(f"{key} {row[key]}" for key in others if key in row))
    return table


if __name__ == "__main__":
    main(prog_name="python -m tests.scale")
