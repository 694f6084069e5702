"""``python -m replacement --kind kraft`` (PYTHONPATH=.:compat-tests): see `replacement`."""

import tempfile
from pathlib import Path
from typing import Final

import click

from failover.producing import Sender
from replacement.kinds import KINDS
from replacement.run import Turn, run
from support.clusters import KpyNode
from support.zookeeper_clusters import KpyOnZooKeeper

SHOWN: Final = 20


@click.command()
@click.option("--kind", "kinds", type=click.Choice(list(KINDS)), multiple=True, help="Only these; all without.")
@click.option("--rounds", type=click.IntRange(1), default=1, show_default=True, help="How often, there and back.")
@click.option("--java", "with_java", is_flag=True, help="A producer in Java, too.")
@click.option(
    "--pause-ms", type=float, default=1000 * Sender.turn_s, show_default=True, help="Of the writer, after 50 records."
)
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
def main(kinds: tuple[str, ...], rounds: int, with_java: bool, pause_ms: float, kpybroker: Path | None) -> None:
    """Replace live clusters of Apache Kafka by kpybroker node by node, and back, under idempotent, transactional and
    group clients; ends with code 1 if they noticed more than retries.

    In KRaft mode clients log in by SCRAM over TLS, and ACLs allow what they do. In ZooKeeper mode they do not.
    """
    if kpybroker is not None:
        KpyNode.path = KpyOnZooKeeper.path = kpybroker
    Sender.turn_s = pause_ms / 1000
    wrong = False
    for kind in kinds or tuple(KINDS):
        with tempfile.TemporaryDirectory(prefix="replacement-") as directory:
            outcome = run(kind, Path(directory), rounds=rounds, with_java=with_java, notified=show)
        verdict = outcome.verdict
        click.echo(
            f"{kind}: {len(outcome.turns)} nodes replaced; {verdict.acknowledged} records acknowledged, "
            f"{len(verdict.lost)} lost, {len(verdict.doubled)} doubled, {len(verdict.reordered)} out of order; "
            f"{outcome.transactions} transactions committed; {outcome.read} records read by the group; "
            f"{len(outcome.failures)} failures, {len(outcome.differences)} differences; "
            f"at most {outcome.gap_s * 1000:.0f} ms without an acknowledgement"
        )
        for line in [*outcome.failures, *outcome.differences][:SHOWN]:
            click.echo(f"  {line}")
        wrong = wrong or not outcome.is_clean
    raise SystemExit(1 if wrong else 0)


def show(turn: Turn) -> None:
    """One line for each node."""
    click.echo(f"  {turn.name} is {turn.program}: stopped in {turn.stop_s:.1f} s, in sync after {turn.in_sync_s:.1f} s")


if __name__ == "__main__":
    main()
