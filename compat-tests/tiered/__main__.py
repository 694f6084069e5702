"""``python -m tiered`` (PYTHONPATH=.:compat-tests): see `tiered.kills`."""

import tempfile
import time
from functools import partial
from pathlib import Path

import click
from rich.progress import Progress, TaskID

from failover.producing import Sender
from tiered.kills import KillsOutcome, play
from tiered.nodes import KPYBROKER, PROGRAMS, tiered_cluster

SHOWN = 20
SIZE = 3


@click.command()
@click.option("--program", type=click.Choice(list(PROGRAMS)), default=KPYBROKER, show_default=True)
@click.option("--records", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--kills", type=click.IntRange(1), default=40, show_default=True, help="Nodes are killed so often.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--pause-ms", type=float, default=1000 * Sender.turn_s, help="Of the writer, after 50 records.")
def main(program: str, records: int, kills: int, seed: int, pause_ms: float) -> None:
    """Kill nodes of a cluster with tiered storage at every stage of copies and deletions; then delete all local logs.

    Ends with code 1 if an acknowledged record is lost, or one that was tiered is not served. Apache Kafka keeps its
    logs: it cannot begin without them.
    """
    Sender.turn_s = pause_ms / 1000
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tiered-kills-") as directory, Progress(transient=True) as progress:
        task = progress.add_task(program, total=records)
        with tiered_cluster(program, Path(directory), SIZE) as cluster:
            shown = partial(_show, progress, task)
            are_emptied = program == KPYBROKER
            outcome = play(cluster, records=records, kills=kills, seed=seed, are_emptied=are_emptied, progress=shown)
    report(program, outcome, time.monotonic() - began_s)
    raise SystemExit(0 if outcome.written.verdict.is_clean and not outcome.wrong else 1)


def report(program: str, outcome: KillsOutcome, took_s: float) -> None:
    """Print what came of it."""
    verdict = outcome.written.verdict
    stages = ", ".join(f"{count} in stage {stage}" for stage, count in outcome.stages.items())
    click.echo(
        f"{program}: {verdict.acknowledged} acknowledged, {len(verdict.lost)} lost, {len(verdict.doubled)} doubled, "
        f"{len(verdict.reordered)} out of order; kills: {stages}; {outcome.tiered} records tiered; {took_s:.0f} s"
    )
    for line in outcome.wrong[:SHOWN]:
        click.echo(f"  {line}")


def _show(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)


if __name__ == "__main__":
    main()
