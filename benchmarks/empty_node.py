"""A node whose disk is empty, in a cluster with tiered topics: the time until it serves them from the store.

    PYTHONPATH=.:compat-tests python -m benchmarks.empty_node [--partitions 10000] [--kpybroker COMMAND]

Three nodes share a directory as their store. All partitions have one replica, on node 1; the metadata of the cluster
and of the store are on all three. Node 1 is killed and its disk is emptied. Printed are the seconds from its start
until it leads all partitions with their offsets, the CPU time that its process took for it, and the seconds until a
client has read the first record of each from the store.
"""

import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Final

import click

from benchmarks import processes
from kpywire import error_codes
from kpywire.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from support.clusters import Cluster, KpyNode, kpybroker_node
from support.raw_client import RawClient
from support.raw_requests import creation, topic_named
from support.special_timestamps import EARLIEST_LOCAL, LATEST
from support.waiting import eventually
from tiered.filling import batch
from tiered.nodes import OFTEN

EMPTIED: Final = 1
TOPIC_PARTITIONS: Final = 1_000
BATCHES: Final = 2
"""All but the last are in the store alone."""
RECORDS: Final = 2
UNCLEAN: Final = 1
PATIENCE_S: Final = 300.0
LOOK_S: Final = 0.5
INTERVAL_MS: Final = 3_000
"""The interval of periodic work on all partitions, which is 30 s and more by default."""
TIERED: Final = {
    "remote.storage.enable": "true",
    "segment.ms": "1000",
    "retention.ms": "-1",
    "local.retention.bytes": "1",
    "unclean.leader.election.enable": "true",
    "file.delete.delay.ms": "100",
}
Partitions = Mapping[str, range]


def fill(cluster: Cluster, partitions: Partitions) -> None:
    """Make the topics, and write to all partitions."""
    with RawClient(cluster.nodes[EMPTIED].port, timeout_s=PATIENCE_S) as raw:
        for topic, indexes in partitions.items():
            placed = [(index, [EMPTIED]) for index in indexes]
            made = topic_named(topic, -1, -1, placed, TIERED)
            (answer,) = raw.call(creation(made, timeout_ms=60_000), 7).topics
            assert answer.error_code == error_codes.NONE, answer
        for topic, indexes in partitions.items():
            for number in range(BATCHES):
                missing = set(indexes)
                eventually(partial(_are_written, raw, topic, missing, batch(number, RECORDS)), f"leaders of {topic}")


def _are_written(raw: RawClient, topic: str, missing: set[int], records: bytes) -> bool:
    """Write to the partitions that are missing, and take those out that have it."""
    written = [PartitionProduceData(index=index, records=records) for index in sorted(missing)]
    request = ProduceRequest(
        acks=1, timeout_ms=30_000, topic_data=[TopicProduceData(name=topic, partition_data=written)]
    )
    for each in raw.call(request, 9).responses[0].partition_responses:
        if each.error_code == error_codes.NONE:
            missing.discard(each.index)
    return not missing


def elect(cluster: Cluster, partitions: Partitions) -> None:
    """Let the node lead what it alone can lead (``kafka-leader-election --election-type unclean``)."""
    wanted = [TopicPartitions(topic=topic, partitions=list(indexes)) for topic, indexes in partitions.items()]
    request = ElectLeadersRequest(election_type=UNCLEAN, topic_partitions=wanted, timeout_ms=60_000)
    with RawClient(cluster.nodes[EMPTIED + 1].port, timeout_s=PATIENCE_S) as raw:
        raw.call(request, 2)


def offsets(raw: RawClient, partitions: Partitions, timestamp: int) -> Iterator[tuple[str, int, int]]:
    """The (topic, partition, offset) of all partitions that the node leads."""
    for topic, indexes in partitions.items():
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=timestamp) for index in indexes]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
        for each in raw.call(request, 9).topics[0].partitions:
            if each.error_code == error_codes.NONE:
                yield topic, each.partition_index, each.offset


def wait_for_offset(
    cluster: Cluster, partitions: Partitions, timestamp: int, offset: int, between: Callable[[], object] = bool
) -> None:
    """Wait until all partitions answer with this offset."""
    count = sum(len(each) for each in partitions.values())
    found: Counter[int] = Counter()

    def are_all() -> bool:
        with RawClient(cluster.nodes[EMPTIED].port, timeout_s=PATIENCE_S) as raw:
            found.clear()
            found.update(each[2] for each in offsets(raw, partitions, timestamp))
        if found[offset] < count:
            between()
        return found[offset] == count

    words = lambda: f"offset {offset} of {count} partitions; it is now: {dict(found)}"  # noqa: E731
    eventually(are_all, words, PATIENCE_S, every_s=LOOK_S, despite=(OSError,))


def read_first(cluster: Cluster, partitions: Partitions) -> None:
    """Read the first record of each partition."""
    with RawClient(cluster.nodes[EMPTIED].port, timeout_s=PATIENCE_S) as raw:
        for topic, indexes in partitions.items():
            missing = set(indexes)
            while missing:
                wanted = [
                    FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1_000)
                    for index in sorted(missing)
                ]
                request = FetchRequest(
                    max_wait_ms=500,
                    min_bytes=1,
                    max_bytes=50 << 20,
                    topics=[FetchTopic(topic=topic, partitions=wanted)],
                )
                for each in raw.call(request, 12).responses[0].partitions:
                    if each.records:
                        missing.discard(each.partition_index)


@click.command()
@click.option("--partitions", type=click.IntRange(1), default=10_000, show_default=True)
@click.option("--kpybroker", type=click.Path(path_type=Path), help="The command to start, if not this environment's.")
def main(partitions: int, kpybroker: Path | None) -> None:
    """Empty the disk of a node with tiered partitions, and measure how soon it serves them again."""
    if kpybroker is not None:
        KpyNode.path = kpybroker
    topics = {
        f"tiered-{first // TOPIC_PARTITIONS}": range(min(TOPIC_PARTITIONS, partitions - first))
        for first in range(0, partitions, TOPIC_PARTITIONS)
    }
    with tempfile.TemporaryDirectory(prefix="empty-node-") as name:
        store = Path(name) / "store"
        store.mkdir()
        settings = {
            "remote.log.storage.system.enable": "true",
            "kpybroker.remote.store": store.as_uri(),
            "remote.log.metadata.manager.listener.name": "PLAINTEXT",
            **dict.fromkeys(OFTEN, str(INTERVAL_MS)),
        }
        with Cluster(kpybroker_node, Path(name), 3, settings) as cluster:
            began_s = time.perf_counter()
            fill(cluster, topics)
            wait_for_offset(cluster, topics, EARLIEST_LOCAL, (BATCHES - 1) * RECORDS)
            click.echo(f"{partitions} partitions were written and copied in {time.perf_counter() - began_s:.1f} s")
            node = cluster.nodes[EMPTIED]
            node.kill()
            cluster.wipe(EMPTIED)
            began_s = time.perf_counter()
            node.start()
            click.echo(f"an empty node answers after {time.perf_counter() - began_s:.1f} s")
            wait_for_offset(cluster, topics, LATEST, (BATCHES - 1) * RECORDS, partial(elect, cluster, topics))
            led_s = time.perf_counter() - began_s
            cpu_s = processes.cpu_seconds(node.pid)
            click.echo(f"it leads {partitions} tiered partitions after {led_s:.1f} s ({cpu_s:.1f} s of CPU time)")
            read_first(cluster, topics)
            click.echo(f"it has sent the first record of each after {time.perf_counter() - began_s:.1f} s")


if __name__ == "__main__":
    main()
