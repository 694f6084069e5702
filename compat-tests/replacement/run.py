"""One run: a cluster of Apache Kafka under load, whose nodes are replaced one by one, and back; then the verdict."""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from failover.faults import wait_until_replicated
from failover.producing import JavaWriter, Writer
from failover.run import PARTITIONS, TOPIC, read_all
from failover.verdict import Verdict, judge, longest_gap_s
from oracle import BrokerProcess
from replacement import kept
from replacement.kinds import KINDS, PATIENCE_S, is_secured, let_in, replace
from support.clusters import Nodes
from support.upgrade_load import Load, committed_numbers, create_topics
from support.waiting import eventually

REPLICAS: Final = 3
CALM_S: Final = 1.0


class Turn(NamedTuple):
    """The replacement of one node."""

    name: str
    """The node, by its directory."""
    program: str
    """The program that runs there now."""
    stop_s: float
    in_sync_s: float
    """From the start of the heir until all replicas are in sync."""


class Outcome(NamedTuple):
    """The result of a run."""

    verdict: Verdict
    transactions: int
    read: int
    gap_s: float
    """The longest time without an acknowledgement."""
    failures: list[str]
    """Everything that clients saw beyond their own retries."""
    differences: list[str]
    """The state that was not as before."""
    turns: list[Turn]

    @property
    def is_clean(self) -> bool:
        return self.verdict.is_clean and not self.failures and not self.differences


def run(
    kind: str,
    directory: Path,
    *,
    rounds: int = 1,
    with_java: bool = False,
    notified: Callable[[Turn], object] = lambda _turn: None,
) -> Outcome:
    """Replace all nodes by kpybroker and then by Apache Kafka again, ``rounds`` times."""
    cluster = KINDS[kind](directory)
    for node in cluster.processes:
        node.start_timeout_s = node.stop_timeout_s = PATIENCE_S
    with cluster:
        let_in(cluster)
        kept.lay_down(cluster.access)
        create_topics(cluster)
        load = Load(cluster.access)
        more = [JavaWriter("java", cluster.access, TOPIC, PARTITIONS)] if with_java else []
        turns: list[Turn] = []
        before = seen(cluster)
        differences: list[str] = []
        load.start()
        for writer in more:
            writer.start()
        try:
            eventually(lambda: load.is_under_way and all(each.count for each in more), "all clients", PATIENCE_S)
            wait_until_replicated(cluster, REPLICAS)
            for _ in range(2 * rounds):
                for node in replaceable(cluster):
                    turns.append(turn(cluster, node))
                    notified(turns[-1])
                    differences += compared(before, seen(cluster), turns[-1])
            time.sleep(CALM_S)
        finally:
            load.stop()
            for writer in more:
                writer.stop()
        return judged(cluster, load, more, differences, turns)


def replaceable(cluster: Nodes) -> list[BrokerProcess]:
    """The nodes of Kafka's protocol; servers of ZooKeeper stay."""
    return [node for node in cluster.processes if node.program != "ZooKeeper"]


def turn(cluster: Nodes, node: BrokerProcess) -> Turn:
    """Stop a node, and start the other program in its place."""
    stop_s = node.stop()
    began_s = time.monotonic()
    heir = replace(cluster, node)
    heir.start()
    wait_until_replicated(cluster, REPLICAS)
    return Turn(node.directory.name, heir.program, stop_s, time.monotonic() - began_s)


def seen(cluster: Nodes) -> Mapping[str, Any]:
    return kept.seen(cluster.access, with_security=is_secured(cluster))


def compared(before: Mapping[str, Any], after: Mapping[str, Any], last: Turn) -> list[str]:
    """A line for each part of the state that is not as before."""
    return [
        f"{name} after {last.name} became {last.program}: {after[name]}, before: {before[name]}"
        for name in before
        if before[name] != after[name]
    ]


def judged(cluster: Nodes, load: Load, more: list[JavaWriter], differences: list[str], turns: list[Turn]) -> Outcome:
    """The verdict when all clients have stopped."""
    writers: list[Writer] = [load.writer, *more]
    acknowledged = {place: numbers for writer in writers for place, numbers in writer.acknowledged.items()}
    failures = [*load.failures, *(failure for writer in more for failure in writer.failures)]
    failures += [f"the group missed or repeated records: {gap}" for gap in load.reader.gaps()]
    for partition in range(2):
        found = committed_numbers(cluster.access, partition)
        if found != load.transactions.committed:
            wrong = sorted(set(found) ^ set(load.transactions.committed))[:20]
            failures.append(f"transactions in partition {partition} differ at {wrong or 'their order'}")
    return Outcome(
        judge(acknowledged, read_all(cluster.access)),
        len(load.transactions.committed),
        sum(map(len, load.reader.read.values())),
        max(longest_gap_s(writer.times_s) for writer in writers),
        failures,
        differences,
        turns,
    )
