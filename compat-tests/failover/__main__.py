"""``python -m failover --fault kill-leader`` (PYTHONPATH=.:compat-tests): see `failover`."""

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.progress import Progress, TaskID

from clusters import PROGRAMS, Cluster, KpyNode
from failover.faults import FAULTS, NEED_NETWORK
from failover.producing import WRITERS
from failover.run import run
from namespaces import Network, why_no_namespaces
from secured import secured_cluster

SHOWN: Final = 20


@click.command()
@click.option("--program", type=click.Choice(list(PROGRAMS)), default="kpybroker", show_default=True)
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--fault", "faults", type=click.Choice(list(FAULTS)), multiple=True, help="Run only these.")
@click.option("--client", "clients", type=click.Choice(list(WRITERS)), multiple=True, help="Run only these.")
@click.option(
    "--records", type=click.IntRange(1), default=1_000_000, show_default=True, help="The records of each fault."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--secured", is_flag=True, help="TLS and SASL between nodes, and for clients.")
def main(
    program: str,
    kpybroker: Path | None,
    faults: tuple[str, ...],
    clients: tuple[str, ...],
    records: int,
    seed: int,
    secured: bool,
) -> None:
    """Writers of several clients at a cluster of three while its nodes fail; ends with code 1 if anything is wrong."""
    if kpybroker is not None:
        KpyNode.path = kpybroker
    wrong, cluster_of = False, secured_cluster if secured else Cluster
    for fault in faults or tuple(FAULTS):
        began_s = time.monotonic()
        if fault in NEED_NETWORK and (why_not := why_no_namespaces()) is not None:
            click.echo(f"{fault} is left out: {why_not}")
            continue
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="failover-"))
            progress = stack.enter_context(Progress(transient=True))
            task = progress.add_task(fault, total=records)
            network = stack.enter_context(Network()) if fault in NEED_NETWORK else None
            with cluster_of(PROGRAMS[program], Path(directory), network=network) as cluster:
                show = partial(_show, progress, task)
                outcome = run(
                    cluster, fault, records=records, seed=seed, clients=clients or tuple(WRITERS), progress=show
                )
        verdict = outcome.verdict
        gaps = ", ".join(f"{name} {gap_s * 1000:.0f} ms" for name, gap_s in outcome.gaps_s.items())
        played = f"{program} {fault}{' secured' if secured else ''}"
        click.echo(
            f"{played}: {verdict.acknowledged} acknowledged, {len(verdict.lost)} lost, "
            f"{len(verdict.doubled)} doubled, {len(verdict.reordered)} reordered, {len(outcome.failures)} given up, "
            f"{outcome.faults} faults in {time.monotonic() - began_s:.0f} s; longest without an answer: {gaps}"
        )
        for kind in ("lost", "doubled", "reordered"):
            for place, number in getattr(verdict, kind)[:SHOWN]:
                click.echo(f"  {kind}: {number} of {place[0]} in partition {place[1]}")
        for failure in outcome.failures[:SHOWN]:
            click.echo(f"  {failure}")
        wrong = wrong or not verdict.is_clean or bool(outcome.failures)
    raise SystemExit(1 if wrong else 0)


def _show(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)


if __name__ == "__main__":
    main()
