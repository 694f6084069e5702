"""``python -m tiered`` (PYTHONPATH=.:compat-tests): see `tiered.kills`."""

import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import click
from rich.progress import Progress, TaskID

from failover.producing import Sender
from oracle.process import as_installed
from support.clusters import Cluster, KpyNode
from support.waiting import NotInTimeError, eventually
from tiered.kills import KillsOutcome, StoreWatch, play
from tiered.nodes import KPYBROKER, PROGRAMS, s3_cluster, store_of, tiered_cluster
from tiered.s3_store import S3Watch, faulty_s3, s3_properties
from tiered.store import DirectoryWatch

SHOWN = 20
SIZE = 3
DIRECTORY, S3 = "directory", "s3"
CHECK_S = 120.0
Healed = Callable[[], object]


@click.command()
@click.option("--program", type=click.Choice(list(PROGRAMS)), default=KPYBROKER, show_default=True)
@click.option("--store", type=click.Choice([DIRECTORY, S3]), default=DIRECTORY, show_default=True)
@click.option("--records", type=click.IntRange(1), default=1_000_000, show_default=True)
@click.option("--kills", type=click.IntRange(1), default=40, show_default=True, help="Nodes are killed so often.")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--pause-ms", type=float, default=1000 * Sender.turn_s, help="Of the writer, after 50 records.")
def main(program: str, store: str, records: int, kills: int, seed: int, pause_ms: float) -> None:
    """Kill nodes of a cluster with tiered storage at every stage of copies, deletions and takeovers; then delete all
    local logs.

    With the store s3, moto's server is behind a proxy that waits, cuts connections, loses answers and refuses; in the
    end `kpybroker tiers check` has to find nothing that is missing, damaged or superfluous.

    Ends with code 1 if an acknowledged record is lost, or one that was tiered is not served. Apache Kafka keeps its
    logs: it cannot begin without them.
    """
    if store == S3 and program != KPYBROKER:
        raise click.UsageError("Apache Kafka has no class for an S3 server here")
    Sender.turn_s = pause_ms / 1000
    began_s = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tiered-kills-") as directory, Progress(transient=True) as progress:
        task = progress.add_task(program, total=records)
        with _cluster(program, store, Path(directory), seed) as (cluster, watch, healed):
            shown = partial(_show, progress, task)
            are_emptied = program == KPYBROKER
            outcome = play(
                cluster,
                watch,
                records=records,
                kills=kills,
                seed=seed,
                are_emptied=are_emptied,
                progress=shown,
                healed=healed,
            )
            if store == S3:
                outcome.wrong.extend(_checked(cluster))
    report(program, outcome, time.monotonic() - began_s)
    raise SystemExit(0 if outcome.written.verdict.is_clean and not outcome.wrong else 1)


@contextmanager
def _cluster(program: str, store: str, directory: Path, seed: int) -> Iterator[tuple[Cluster, StoreWatch, Healed]]:
    """The nodes, what is under way in their store, and the end of its faults."""
    if store == DIRECTORY:
        with tiered_cluster(program, directory, SIZE) as cluster:
            yield cluster, DirectoryWatch(store_of(directory)), bool
        return
    with faulty_s3(seed) as proxy, s3_cluster(directory, SIZE, s3_properties(proxy.url)) as cluster:
        yield cluster, S3Watch(proxy), proxy.heal
        click.echo(f"requests to the store: {', '.join(f'{count} {what}' for what, count in proxy.counted.items())}")


def _checked(cluster: Cluster) -> list[str]:
    """The findings of ``kpybroker tiers check``, once what was abandoned is deleted."""
    node = cluster.nodes[1]
    assert isinstance(node, KpyNode)
    command = [*node.words, "tiers", "check", str(node.file), "-b", cluster.bootstrap_servers, "--read", "--json"]
    checked: dict[str, Any] = {}

    def is_clean() -> bool:
        found = subprocess.run(command, capture_output=True, text=True, env=as_installed(), check=False)
        checked.clear()
        checked.update(json.loads(found.stdout) if found.stdout else {"findings": [found.stderr]})
        return not checked["findings"]

    try:
        eventually(is_clean, "a store with what it should have", CHECK_S, every_s=5.0)
    except NotInTimeError:
        return [str(each) for each in checked["findings"]]
    click.echo(f"the store: {checked['segments']} segments, {checked['objects']} objects, all as they should be")
    return []


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
