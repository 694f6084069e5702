"""``python -m failover --fault kill-leader`` (PYTHONPATH=.:compat-tests): see `failover`."""

import tempfile
import time
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Final

import click
from rich.progress import Progress, TaskID

from failover import faults, zookeeper_faults
from failover.faults import FAULTS, NEED_NETWORK
from failover.producing import WRITERS, Sender
from failover.run import Fault, Outcome, run
from failover.zookeeper_faults import ZOOKEEPER_FAULTS
from support.clusters import PROGRAMS, Cluster, KpyNode, Nodes
from support.namespaces import Network, why_no_namespaces
from support.secured import secured_cluster
from support.zookeeper_clusters import ON_ZOOKEEPER, KpyOnZooKeeper, zookeeper_cluster

SHOWN: Final = 20


ALL: Final[dict[str, Fault]] = {**FAULTS, **ZOOKEEPER_FAULTS}
"""The last ones need ``--zookeeper``."""
ON_A_NETWORK: Final = (*NEED_NETWORK, *zookeeper_faults.NEED_NETWORK)


@click.command()
@click.option("--program", type=click.Choice(list(ON_ZOOKEEPER)), default="kpybroker", show_default=True)
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
@click.option("--fault", "names", type=click.Choice(list(ALL)), multiple=True, help="Run only these.")
@click.option("--client", "clients", type=click.Choice(list(WRITERS)), multiple=True, help="Run only these.")
@click.option(
    "--records", type=click.IntRange(1), default=1_000_000, show_default=True, help="The records of each fault."
)
@click.option(
    "--rounds", type=click.IntRange(1), default=20, show_default=True, help="How often each fault comes, at least."
)
@click.option(
    "--pause-s",
    type=float,
    default=faults.PAUSE_S,
    show_default=True,
    help="Of what is paused or cut off: longer than its session.",
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option(
    "--pause-ms", type=float, default=1000 * Sender.turn_s, show_default=True, help="Of each client, after 50 records."
)
@click.option("--secured", is_flag=True, help="TLS and SASL between nodes, and for clients.")
@click.option("--zookeeper", is_flag=True, help="In ZooKeeper mode, with three servers of ZooKeeper.")
def main(
    program: str,
    kpybroker: Path | None,
    names: tuple[str, ...],
    clients: tuple[str, ...],
    records: int,
    rounds: int,
    pause_s: float,
    seed: int,
    pause_ms: float,
    secured: bool,
    zookeeper: bool,
) -> None:
    """Writers of several clients at a cluster of three while its nodes fail; ends with code 1 if anything is wrong.

    The program `mixed`, both in one cluster, is for --zookeeper; `make mixed` has one in KRaft mode.
    """
    if kpybroker is not None:
        KpyNode.path = KpyOnZooKeeper.path = kpybroker
    Sender.turn_s, faults.PAUSE_S = pause_ms / 1000, pause_s
    if zookeeper and secured:
        raise click.UsageError("--secured is not for --zookeeper")
    if program not in PROGRAMS and not zookeeper:
        raise click.UsageError(f"--program {program} needs --zookeeper")
    if not zookeeper and (unknown := [each for each in names if each in ZOOKEEPER_FAULTS]):
        raise click.UsageError(f"--fault {unknown[0]} needs --zookeeper")
    wrong = False

    def started(directory: Path, network: Network | None) -> Nodes:
        if zookeeper:
            return zookeeper_cluster(program, directory, network=network)
        return (secured_cluster if secured else Cluster)(PROGRAMS[program], directory, network=network)

    for fault in names or tuple(ALL if zookeeper else FAULTS):
        began_s = time.monotonic()
        if fault in ON_A_NETWORK and (why_not := why_no_namespaces()) is not None:
            click.echo(f"{fault} is left out: {why_not}")
            continue
        with ExitStack() as stack:
            directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="failover-"))
            progress = stack.enter_context(Progress(transient=True))
            task = progress.add_task(fault, total=records)
            network = stack.enter_context(Network()) if fault in ON_A_NETWORK else None
            with started(Path(directory), network) as cluster:
                show = partial(_show, progress, task)
                chosen = clients or tuple(WRITERS)
                outcome = run(
                    cluster, ALL[fault], records=records, seed=seed, rounds=rounds, clients=chosen, progress=show
                )
        kind = " in ZooKeeper mode" if zookeeper else " secured" if secured else ""
        report(f"{program} {fault}{kind}", outcome, time.monotonic() - began_s)
        wrong = wrong or not outcome.verdict.is_clean or bool(outcome.failures)
    raise SystemExit(1 if wrong else 0)


def report(played: str, outcome: Outcome, took_s: float) -> None:
    """Print what came of one fault."""
    verdict = outcome.verdict
    gaps = ", ".join(f"{name} {gap_s * 1000:.0f} ms" for name, gap_s in outcome.gaps_s.items())
    click.echo(
        f"{played}: {verdict.acknowledged} acknowledged, {len(verdict.lost)} lost, "
        f"{len(verdict.doubled)} doubled, {len(verdict.reordered)} reordered, {len(outcome.failures)} given up, "
        f"{outcome.faults} faults in {took_s:.0f} s; longest without an answer: {gaps}"
    )
    for kind in ("lost", "doubled", "reordered"):
        for place, number in getattr(verdict, kind)[:SHOWN]:
            click.echo(f"  {kind}: {number} of {place[0]} in partition {place[1]}")
    for failure in outcome.failures[:SHOWN]:
        click.echo(f"  {failure}")


def _show(progress: Progress, task: TaskID, done: int) -> None:
    progress.update(task, completed=done)


if __name__ == "__main__":
    main()
