"""The load of a cluster, measured by Kafka's Admin API alone: the model of balances and rolls.

Sizes are those of log directories; the rate of a partition is the growth of its log between two readings. Brokers that
are fenced count as gone. Not here: what to do about it (`kpybroker.machines.balance`).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kpybroker.client import cluster_requests, config_requests, reassignment_requests
from kpybroker.client.client import Client, Spot
from kpybroker.machines.balance.model import UNKNOWN, BalanceModel, BalanceNode, PartitionLoad
from kpybroker.machines.balance.rolling import ControllersState
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.metadata import MetadataResponsePartition

MIN_IN_SYNC = "min.insync.replicas"
CAUGHT_UP_MS = 5_000
"""A controller that is further behind the leader does not count for a majority."""


SentRates = Callable[[], Mapping[str, float]]
"""The bytes a second that consumers read from each topic, asked after the sample."""


class BrokerDisks(NamedTuple):
    """The disks of a broker together, and the sizes of its replicas. Sizes are -1 where they are unknown."""

    total_bytes: int
    usable_bytes: int
    is_cordoned: bool
    sizes: dict[Spot, int]


class MeasuredCluster(NamedTuple):
    """A cluster's load. ``free_bytes`` is what the disks of brokers have left, where they report it."""

    cluster_id: str
    model: BalanceModel
    free_bytes: dict[int, int]


def disks_of(client: Client, broker: int, spots: Iterable[Spot] | None = None) -> BrokerDisks:
    """The disks of a live broker, with the sizes of all its replicas or of some. Raises KafkaError, Unreachable.

    Log directories with the same capacity and the same free space count as one disk. Of a disk whose directories are
    all cordoned (KIP-1066) only the used part counts, unless every disk of the broker is."""
    disks: set[tuple[int, int]] = set()
    opened: set[tuple[int, int]] = set()
    sizes: dict[Spot, int] = {}
    for each in cluster_requests.directories_with_replicas(client, broker, spots):
        if each.error_code:
            continue
        disk = each.total_bytes, each.usable_bytes
        disks.add(disk)
        if not each.is_cordoned:
            opened.add(disk)
        for topic in each.topics:
            for part in topic.partitions:
                if not part.is_future_key:
                    sizes[Spot(topic.name, part.partition_index)] = part.partition_size
    is_known = bool(disks) and all(total > 0 for total, _ in disks)
    if not is_known:
        return BrokerDisks(UNKNOWN, UNKNOWN, not opened, sizes)
    open_disks = opened or disks
    usable = sum(free for _, free in open_disks)
    total = sum(size for size, _ in open_disks) + sum(size - free for size, free in disks - open_disks)
    return BrokerDisks(total, usable, not opened, sizes)


def min_in_sync_of(client: Client, topics: Iterable[str]) -> dict[str, int]:
    """``min.insync.replicas`` of topics. Raises KafkaError."""
    found = config_requests.describe_topics(client, topics, [MIN_IN_SYNC])
    return {name: int(each.value or 1) for name, configs in found for each in configs if each.name == MIN_IN_SYNC}


def measure(
    client: Client, sample_s: float = 0.0, sent: SentRates | None = None, *, may_replace_gone: bool = False
) -> MeasuredCluster:
    """Measure a cluster. The growth of logs in ``sample_s`` is what producers write. Partitions that lack a replica are
    held, except those whose broker is gone if ``may_replace_gone``. Raises KafkaError, Unreachable."""
    described = cluster_requests.describe(client)
    alive = {node.node_id for node in client.nodes()}
    alive -= {each.broker_id for each in described.brokers if each.is_fenced}
    disks = {broker: disks_of(client, broker) for broker in sorted(alive)}
    written = _growth(client, disks, sample_s) if sample_s > 0 else {}
    sent_by_topic = {} if sent is None else sent()
    nodes = []
    for each in described.brokers:
        its = disks.get(each.broker_id, BrokerDisks(UNKNOWN, UNKNOWN, is_cordoned=False, sizes={}))
        used = its.total_bytes - its.usable_bytes if its.total_bytes > 0 else UNKNOWN
        is_alive = each.broker_id in alive
        nodes.append(BalanceNode(each.broker_id, each.rack, is_alive, its.is_cordoned, its.total_bytes, used))
    model = BalanceModel(nodes)
    topics = [each for each in client.topics() if not each.error_code]
    held = {each.spot for each in reassignment_requests.moving(client)}
    needed = min_in_sync_of(client, [each.name or "" for each in topics])
    for topic in sorted(topics, key=lambda each: each.name or ""):
        name = topic.name or ""
        spots = {each.partition_index: Spot(name, each.partition_index) for each in topic.partitions}
        read = _shared_out(sent_by_topic.get(name, 0.0), list(spots.values()), written)
        index = model.add_topic(name, needed.get(name, 1))
        for part in sorted(topic.partitions, key=lambda each: each.partition_index):
            spot = spots[part.partition_index]
            into = written.get(spot, 0.0)
            sizes = [disks[node].sizes.get(spot, 0) for node in part.replica_nodes if node in disks]
            model.add_partition(
                index,
                part.partition_index,
                part.replica_nodes,
                in_sync=part.isr_nodes,
                leader=part.leader_id,
                load=PartitionLoad(
                    max(sizes, default=0),
                    into,
                    read.get(spot, 0.0) + into * (len(part.replica_nodes) - 1),
                    spot in held or _lags(part, alive, may_replace_gone=may_replace_gone),
                ),
            )
    free = {broker: each.usable_bytes for broker, each in disks.items() if each.total_bytes > 0}
    return MeasuredCluster(described.cluster_id, model, free)


def _shared_out(rate: float, spots: list[Spot], written: Mapping[Spot, float]) -> dict[Spot, float]:
    """The part of each partition in a topic's rate: as much as producers write into it, or the same for all."""
    total = sum(written.get(spot, 0.0) for spot in spots)
    if not rate or not spots:
        return {}
    return {spot: rate * (written.get(spot, 0.0) / total if total else 1 / len(spots)) for spot in spots}


def _lags(partition: MetadataResponsePartition, alive: set[int], *, may_replace_gone: bool) -> bool:
    """Whether replicas that should be in sync are not, or none is: such a partition is left alone."""
    in_sync = set(partition.isr_nodes)
    lagging = set(partition.replica_nodes) - in_sync
    return not in_sync & alive or bool(lagging & alive if may_replace_gone else lagging)


def _growth(client: Client, before: Mapping[int, BrokerDisks], sample_s: float) -> dict[Spot, float]:
    """The growth of logs in bytes a second, of the replica that grew most. A log that shrank has deleted segments, and
    counts as unknown."""
    began = time.monotonic()
    time.sleep(sample_s)
    found: dict[Spot, float] = {}
    for broker, disks in before.items():
        sizes = disks_of(client, broker).sizes
        elapsed_s = time.monotonic() - began
        for spot, size in sizes.items():
            rate = (size - disks.sizes.get(spot, size)) / elapsed_s
            if rate > found.get(spot, 0.0):
                found[spot] = rate
    return found


def quorum_of(client: Client) -> ControllersState:
    """The controllers' quorum; empty where the cluster has none, in ZooKeeper mode. Raises KafkaError."""
    try:
        found = cluster_requests.quorum(client)
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
        return ControllersState()
    now_ms = max((each.last_caught_up_timestamp for each in found.current_voters), default=-1)
    return ControllersState(
        frozenset(each.replica_id for each in found.current_voters),
        frozenset(
            each.replica_id
            for each in found.current_voters
            if each.replica_id == found.leader_id or now_ms - each.last_caught_up_timestamp <= CAUGHT_UP_MS
        ),
        found.leader_id,
    )
