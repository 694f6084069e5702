"""Kills while segments are copied and deleted, and while leaders take over; and then the loss of all local logs: what
was tiered must be served.

A cluster of three shares one store. Writers remember what was acknowledged. A second topic is expired meanwhile.
"""

import random
import shutil
import time
from collections.abc import Callable
from threading import Event, Thread
from typing import Final, NamedTuple, Protocol

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from failover.faults import AWAY_S, kill, kill_all, kill_leader, wait_for_in_sync
from failover.run import PARTITIONS, TOPIC, Outcome, run
from support.clusters import Cluster, Nodes
from support.special_timestamps import LATEST, LATEST_TIERED
from support.waiting import NotInTimeError, eventually
from tiered.reading import SeenBatch, batches, leader, offset, to_leader

EXPIRING: Final = "expiring"
SEGMENTS: Final = {"remote.storage.enable": "true", "segment.ms": "1000", "local.retention.bytes": "1"}
EXPIRED_EARLY: Final = {**SEGMENTS, "segment.ms": "500", "retention.ms": "5000", "local.retention.ms": "1"}
STAGE_S: Final = 15.0
SETTLE_S: Final = 180.0
LOOK_EVERY_S: Final = 0.005


class Expiring:
    """A topic whose segments are copied and soon deleted, and a writer of it."""

    def __init__(self, cluster: Nodes) -> None:
        admin = AdminClient(cluster.access.librdkafka)
        topic = NewTopic(EXPIRING, 1, len(cluster.nodes), config={"min.insync.replicas": "2", **EXPIRED_EARLY})
        admin.create_topics([topic])[EXPIRING].result(60)
        self._producer = Producer({**cluster.access.librdkafka, "enable.idempotence": True})
        self._stopping = Event()
        self._thread = Thread(target=self._write, name=EXPIRING)

    def __enter__(self) -> "Expiring":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join()

    def _write(self) -> None:
        while not self._stopping.wait(0.05):
            self._producer.produce(EXPIRING, bytes(500), partition=0)
            self._producer.poll(0)
        self._producer.flush(60)


class StoreWatch(Protocol):
    """The segments that are being written or deleted in a store, seen from outside."""

    def torn(self, topic: str) -> set[int]:
        """The partitions of which a segment is being written, and is there in part."""

    def deletions(self, topic: str) -> int:
        """How many objects of a topic were deleted so far."""


def kill_in_copy(cluster: Nodes, topic: str, _rng: random.Random, watch: StoreWatch) -> None:
    """SIGKILL of the leader of a partition while a segment of it is in the store only in part."""
    kill(cluster, leader(cluster, topic, partition_of(lambda: watch.torn(topic))))


def kill_in_deletion(cluster: Nodes, _topic: str, _rng: random.Random, watch: StoreWatch) -> None:
    """SIGKILL of the leader of the partition that is expired, when the first objects of a segment are gone."""
    before = watch.deletions(EXPIRING)
    kill(cluster, leader(cluster, EXPIRING, partition_of(lambda: {0} if watch.deletions(EXPIRING) > before else set())))


def kill_in_takeover(cluster: Nodes, topic: str, rng: random.Random, _watch: StoreWatch) -> None:
    """SIGKILL of the leader of a partition, and of the next one soon after it leads."""
    partition = rng.randrange(PARTITIONS)
    first = leader(cluster, topic, partition)
    cluster.nodes[first].kill()
    second = leader(cluster, topic, partition)
    time.sleep(rng.random())
    cluster.nodes[second].kill()
    time.sleep(max(AWAY_S, cluster.forgotten_after_s))
    for node_id in (second, first):
        cluster.nodes[node_id].launch()
    for node_id in (second, first):
        cluster.nodes[node_id].wait_until_it_answers()


def partition_of(look: Callable[[], set[int]]) -> int:
    """The partition where a stage has begun; the first one if none begins soon."""
    try:
        return min(eventually(look, "a stage", STAGE_S, LOOK_EVERY_S))
    except NotInTimeError:
        return 0


STAGES: Final = {
    "copy": kill_in_copy,
    "deletion": kill_in_deletion,
    "takeover": kill_in_takeover,
    "leader": lambda cluster, topic, rng, _watch: kill_leader(cluster, topic, rng),
    "all": lambda cluster, topic, rng, _watch: kill_all(cluster, topic, rng),
}


class KillsOutcome(NamedTuple):
    """The result of a run."""

    written: Outcome
    stages: dict[str, int]
    """How often nodes were killed in each stage."""
    tiered: int
    """How many records were in the store, and served from it when the disks were empty."""
    wrong: list[str]
    """A line for each thing that was not as it must be."""


def play(
    cluster: Cluster,
    watch: StoreWatch,
    *,
    records: int,
    kills: int,
    seed: int,
    are_emptied: bool,
    progress: Callable[[int], object] = lambda _records: None,
    healed: Callable[[], object] = bool,
) -> KillsOutcome:
    """Write, kill and compare. ``are_emptied`` is whether all local logs are deleted in the end; before, ``healed`` is
    called, which ends the faults of the store."""
    stages = dict.fromkeys(STAGES, 0)

    def fault(nodes: Nodes, topic: str, rng: random.Random) -> None:
        stage = rng.choice(sorted(STAGES))
        stages[stage] += 1
        STAGES[stage](nodes, topic, rng, watch)
        wait_for_in_sync(nodes, EXPIRING, len(nodes.nodes))

    with Expiring(cluster):
        written = run(
            cluster,
            fault,
            records=records,
            seed=seed,
            rounds=kills,
            clients=("confluent-kafka",),
            configs=SEGMENTS,
            progress=progress,
        )
    healed()
    wrong = [*written.failures, *unfinished(cluster)]
    before = {partition: tiered_batches(cluster, partition) for partition in range(PARTITIONS)}
    if are_emptied:
        empty(cluster)
        for partition, expected in before.items():
            wrong += served_again(cluster, partition, expected)
    count = sum(each[-1].last_offset + 1 for each in before.values() if each)
    return KillsOutcome(written, stages, count, wrong)


def unfinished(cluster: Cluster) -> list[str]:
    """The topics that are not tiered up to their last segments in time."""
    wrong = []
    for partition in range(PARTITIONS):
        ends: list[tuple[int, int]] = []

        def is_copied(partition: int = partition, ends: list[tuple[int, int]] = ends) -> bool:
            with to_leader(cluster, TOPIC, partition) as raw:
                ends.append((offset(raw, TOPIC, LATEST_TIERED, partition), offset(raw, TOPIC, LATEST, partition)))
            return ends[-1][0] >= active_start(cluster, partition) - 1

        try:
            eventually(is_copied, "all closed segments in the store", SETTLE_S, every_s=0.5)
        except NotInTimeError:
            wrong.append(
                f"{TOPIC}-{partition}: tiered up to {ends[-1][0]}, active from {active_start(cluster, partition)}"
            )
    return wrong


def active_start(cluster: Cluster, partition: int) -> int:
    """The start of the leader's active segment."""
    node = cluster.nodes[leader(cluster, TOPIC, partition)]
    return max(int(each.stem) for each in (node.data / f"{TOPIC}-{partition}").glob("*.log"))


def tiered_batches(cluster: Cluster, partition: int) -> list[SeenBatch]:
    """The batches of a partition that the store has."""
    with to_leader(cluster, TOPIC, partition) as raw:
        end = offset(raw, TOPIC, LATEST_TIERED, partition)
        return [each for each in batches(raw, TOPIC, partition) if each.last_offset <= end]


def empty(cluster: Cluster) -> None:
    """Delete all logs of the topics from all disks; the metadata of the cluster and of the store stay."""
    cluster.stop()
    for node in cluster.nodes.values():
        for topic in (TOPIC, EXPIRING):
            for directory in node.data.glob(f"{topic}-*"):
                shutil.rmtree(directory)
    cluster.start()
    wait_for_in_sync(cluster, TOPIC, len(cluster.nodes))


def served_again(cluster: Cluster, partition: int, expected: list[SeenBatch]) -> list[str]:
    """The batches of the store that are missing."""
    found: list[SeenBatch] = []

    def are_there() -> bool:
        with to_leader(cluster, TOPIC, partition) as raw:
            found[:] = batches(raw, TOPIC, partition)
        return found[: len(expected)] == expected

    try:
        eventually(are_there, "the batches of the store", SETTLE_S, every_s=1.0, despite=(AssertionError, OSError))
    except NotInTimeError:
        missing = sorted(set(expected) - set(found))
        return [f"{TOPIC}-{partition}: {len(missing)} of {len(expected)} batches are not served, first {missing[:1]}"]
    return []
