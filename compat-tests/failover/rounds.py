"""``python -m failover.rounds``: one fault again and again, and whether a client's loop goes on after each.

The loop consumes, transforms and produces in transactions (`failover.transforming`). After the fault it must commit
again; where some call never returns or the loop stands still, that is counted, and it begins again in another process.
"""

import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

import click
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import FAULTS, wait_for_in_sync
from failover.transforming import INPUT, OUTPUT, Watched
from failover.verdict import longest_gap_s
from oracle import BrokerProcess
from support.clusters import PROGRAMS, Cluster

PARTITIONS: Final = 3
CALM_S: Final = 1.0
FEED_EVERY_S: Final = 0.01
LOOK_EVERY_S: Final = 0.05
COMMITS_TO_GO_ON: Final = 3
START_TIMEOUT_S: Final = 300.0
"""Also on a machine that does much else."""


class Round(NamedTuple):
    """The effect of one fault on the loop."""

    trouble: str | None
    """Why the loop did not go on."""
    stall_s: float
    """The longest time without a commit."""


class Feed:
    """Somebody who writes what the loop reads."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0})
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()
        self._producer.purge()

    def _run(self) -> None:
        number = 0
        while not self._stopping.wait(FEED_EVERY_S):
            self._producer.produce(INPUT, b"%d" % number, partition=number % PARTITIONS)
            self._producer.poll(0)
            number += 1


def play(
    cluster: Cluster, fault: str, rounds: int, seed: int, notified: Callable[[int, Round], object] = lambda _n, _r: None
) -> list[Round]:
    """Play ``rounds`` rounds against a cluster that runs."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers, "log_level": 0})
    size, config = len(cluster.nodes), {"min.insync.replicas": "2"}
    made = admin.create_topics([NewTopic(name, PARTITIONS, size, config=config) for name in (INPUT, OUTPUT)])
    for name, future in made.items():
        future.result(60)
        wait_for_in_sync(cluster, name, size)
    rng = random.Random(seed)
    watched = Watched(cluster.bootstrap_servers)
    played: list[Round] = []
    with Feed(cluster.bootstrap_servers):
        try:
            for number in range(rounds):
                if not played or played[-1].trouble is not None:
                    watched.end()
                    watched.start()
                    _wait_for_the_first(watched)
                time.sleep(CALM_S)
                played.append(_round(cluster, fault, rng, watched))
                notified(number, played[-1])
        finally:
            watched.end()
    return played


def _round(cluster: Cluster, fault: str, rng: random.Random, watched: Watched) -> Round:
    began_s = time.monotonic()
    FAULTS[fault](cluster, OUTPUT, rng)
    trouble = wait_for_commits(watched, time.monotonic())
    wait_for_in_sync(cluster, OUTPUT, len(cluster.nodes))
    times_s = [began_s, *(each for each in watched.commits_s if each > began_s), time.monotonic()]
    return Round(trouble, longest_gap_s(times_s))


def wait_for_commits(watched: Watched, since_s: float) -> str | None:
    """Wait until the loop has committed again; or why it will not."""
    while sum(each > since_s for each in watched.commits_s[-COMMITS_TO_GO_ON:]) < COMMITS_TO_GO_ON:
        trouble = watched.trouble
        if trouble is not None:
            return trouble
        time.sleep(LOOK_EVERY_S)
    return None


def _wait_for_the_first(watched: Watched) -> None:
    trouble = wait_for_commits(watched, time.monotonic())
    if trouble is not None:
        raise TimeoutError(f"the loop does not even begin: {trouble}; {watched.errors[-5:]}")


def summary(played: list[Round]) -> str:
    """One line about all rounds."""
    troubles = Counter(each.trouble for each in played if each.trouble is not None)
    stalls_s = sorted(each.stall_s for each in played if each.trouble is None)
    named = ", ".join(f"{trouble} {count}x" for trouble, count in troubles.most_common()) or "none"
    middle_s, longest_s = (stalls_s[len(stalls_s) // 2], stalls_s[-1]) if stalls_s else (0.0, 0.0)
    return (
        f"{len(played)} rounds; in which the loop did not go on: {named}; without a commit in the others: "
        f"median {middle_s:.1f} s, longest {longest_s:.1f} s"
    )


@click.command()
@click.option("--program", type=click.Choice(list(PROGRAMS)), default="kpybroker", show_default=True)
@click.option("--fault", "faults", type=click.Choice(["kill-all", "rolling"]), multiple=True, help="Run only these.")
@click.option(
    "--rounds", type=click.IntRange(1), default=100, show_default=True, help="The number of rounds of each fault."
)
@click.option("--seed", type=int, default=1, show_default=True)
def main(program: str, faults: tuple[str, ...], rounds: int, seed: int) -> None:
    """A consume-transform-produce loop while nodes go and come back; ends with code 1 if it ever does not go on."""
    BrokerProcess.start_timeout_s = START_TIMEOUT_S
    wrong = False
    for fault in faults or ("kill-all", "rolling"):

        def notified(number: int, one: Round, fault: str = fault) -> None:
            trouble = "" if one.trouble is None else f"; {one.trouble}"
            click.echo(f"{program} {fault} round {number + 1}: {one.stall_s:.1f} s without a commit{trouble}")

        with (
            tempfile.TemporaryDirectory(prefix="failover-") as directory,
            Cluster(PROGRAMS[program], Path(directory)) as cluster,
        ):
            played = play(cluster, fault, rounds, seed, notified)
        click.echo(f"{program} {fault}: {summary(played)}")
        wrong = wrong or any(each.trouble is not None for each in played)
    raise SystemExit(1 if wrong else 0)


if __name__ == "__main__":
    main()
