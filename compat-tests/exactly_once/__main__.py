"""Look for anomalies for a given time: ``python -m exactly_once`` (PYTHONPATH=.:compat-tests)."""

import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.progress import Progress

from exactly_once.history import Outcome
from exactly_once.run import ALL_CLIENTS, ALL_MEMBERS, Verdict, run
from exactly_once.trouble import SESSION_MS
from oracle import BrokerProcess
from support.access import Access
from support.admitted import AUTHORIZED, admit, secure
from support.clusters import PROGRAMS, Cluster, Nodes
from support.raw_client import connect
from support.secured import secured_cluster
from support.targets import TARGETS
from support.zookeeper_clusters import ON_ZOOKEEPER, ZooKeeperCluster, zookeeper_cluster

SETTINGS: Final = {
    "transaction.state.log.num.partitions": "4",
    "offsets.topic.num.partitions": "4",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "6000",
}
REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "broker.session.timeout.ms": str(SESSION_MS),
    "broker.heartbeat.interval.ms": "500",
}
"""Kafka's own topics have three replicas, and transactions two in sync, by default."""
MIXED: Final = "mixed"
ROUND_S: Final = 60.0
BUSY_START_S: Final = 120.0
"""For a broker that was killed to answer again, on a machine that does something else too."""


@click.command()
@click.option("--target", type=click.Choice([*TARGETS, MIXED]), default="kpybroker", show_default=True)
@click.option(
    "--brokers",
    type=click.Choice(["1", "3"]),
    default="1",
    show_default=True,
    help="The number of brokers; 3 is a cluster.",
)
@click.option("--seconds", type=click.FloatRange(10), help="The time of trouble, in rounds of a minute.")
@click.option(
    "--transactions",
    type=click.IntRange(1),
    default=100_000,
    show_default=True,
    help="The number of transactions, unless --seconds is given.",
)
@click.option("--seed", type=int, help="The seed of what is done to brokers and programs.")
@click.option("--client", "clients", type=click.Choice(ALL_CLIENTS), multiple=True, help="Run only these.")
@click.option("--members", is_flag=True, help="Workers are members of a group of the consumer protocol (KIP-848).")
@click.option("--secured", is_flag=True, help="Clients use TLS and SCRAM, and an authorizer decides by ACLs.")
@click.option("--zookeeper", is_flag=True, help="Three brokers in ZooKeeper mode, and three servers of ZooKeeper.")
def main(
    target: str,
    brokers: str,
    seconds: float | None,
    transactions: int,
    seed: int | None,
    clients: tuple[str, ...],
    members: bool,
    secured: bool,
    zookeeper: bool,
) -> None:
    """Transactions of several clients while brokers and programs are killed, paused and doubled; then the verdict.

    Ends with code 1 when there is an anomaly; the diaries of its round stay where it says. The target `mixed`, both
    programs in one cluster, is for --zookeeper.
    """
    if target == MIXED and not zookeeper:
        raise click.UsageError(f"--target {MIXED} needs --zookeeper")
    if zookeeper and (secured or target not in ON_ZOOKEEPER):
        raise click.UsageError(f"--zookeeper is for the targets {', '.join(ON_ZOOKEEPER)}, without --secured")
    seed = int(time.time()) if seed is None else seed
    clients = clients or ALL_CLIENTS
    working = ALL_MEMBERS if members else clients
    total: Counter[str] = Counter()
    began_s = time.monotonic()
    with Progress(transient=True) as progress:
        task = progress.add_task("transactions", total=seconds or transactions)
        while (time.monotonic() - began_s < seconds) if seconds else total["transactions"] < transactions:
            length_s = min(ROUND_S, seconds) if seconds else ROUND_S
            directory = Path(tempfile.mkdtemp(prefix="exactly-once-"))
            begun = started(target, directory, brokers=int(brokers), secured=secured, zookeeper=zookeeper)
            with begun as (running, access):
                verdict = run(running, directory, length_s, seed, access=access, writing=clients, working=working)
            total.update(counts(verdict))
            click.echo(f"seed {seed}: " + ", ".join(f"{count} {what}" for what, count in counts(verdict).items()))
            if verdict.anomalies:
                for anomaly in verdict.anomalies[:50]:
                    click.echo(f"{anomaly.kind}: {anomaly.evidence}")
                click.echo(f"{len(verdict.anomalies)} anomalies; the diaries are in {directory}")
                raise SystemExit(1)
            shutil.rmtree(directory)
            seed += 1
            progress.update(task, completed=time.monotonic() - began_s if seconds else total["transactions"])
    click.echo(f"No anomaly. In all: {', '.join(f'{count} {what}' for what, count in total.items())}.")


def one_broker(target: str, directory: Path) -> BrokerProcess:
    """A broker that is not started yet."""
    broker = TARGETS[target](SETTINGS, directory=directory)
    broker.start_timeout_s = max(broker.start_timeout_s, BUSY_START_S)
    return broker


def cluster(target: str, directory: Path, *, secured: bool = False) -> Cluster:
    """Three nodes that are not started yet. ``secured``: with TLS and SASL between nodes, too."""
    if target not in PROGRAMS:
        raise click.UsageError(f"there are no clusters of {target}")
    settings = SETTINGS | REPLICATED
    if secured:
        nodes = secured_cluster(PROGRAMS[target], directory, properties=settings | AUTHORIZED)
    else:
        nodes = Cluster(PROGRAMS[target], directory, properties=settings)
    for node in nodes.nodes.values():
        node.start_timeout_s = max(node.start_timeout_s, BUSY_START_S)
    return nodes


def on_zookeeper(target: str, directory: Path) -> ZooKeeperCluster:
    """Three brokers in ZooKeeper mode that are not started yet."""
    return zookeeper_cluster(target, directory, SETTINGS)


@contextmanager
def started(
    target: str, directory: Path, *, brokers: int = 1, secured: bool = False, zookeeper: bool = False
) -> Iterator[tuple[BrokerProcess | Nodes, Access]]:
    """One broker or a cluster that runs, and how clients reach it."""
    running: BrokerProcess | Nodes
    if zookeeper:
        running = on_zookeeper(target, directory)
        access = running.access
    elif brokers == 1:
        running = one_broker(target, directory)
        access = secure(running, directory) if secured else Access(running.bootstrap_servers)
    else:
        running = cluster(target, directory, secured=secured)
        access = running.access
    with running:
        if secured:
            with connect(running.bootstrap_servers.partition(",")[0]) as administrator:
                admit(administrator)
        yield running, access


def counts(verdict: Verdict) -> dict[str, int]:
    """The counts of a round's events."""
    history = verdict.history
    return {
        "transactions": len(history.transactions),
        **{outcome.value: verdict.counted(outcome) for outcome in Outcome},
        "values read": sum(len(poll.seen) for poll in history.polls),
        "values in the log": len(history.log),
        **verdict.troubles,
    }


if __name__ == "__main__":
    main()
