"""A fork of a running node's log directories, with the topics of a mirror made ordinary and writable: for a rehearsal.

It is made beside the node, which goes on and notices nothing: its files are linked and copied
(`kpystorage.forking`). Transactions that are open in what is mirrored are aborted, as by a failover.
"""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Final, NamedTuple

from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.snapshotting import snapshot_batches
from kpybroker.machines.metadata.image import MetadataImage, image_of
from kpybroker.machines.mirror.rehearsal import ForkedMetadata, HeldPartition
from kpybroker.machines.partition.in_sync import PartitionState
from kpybroker.machines.partition.leader import Marker, PartitionLeader
from kpybroker.machines.raft.voters import VoterHistory
from kpystorage import forking, meta_properties, names
from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.forking import ForkedBytes
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.meta_properties import MetaProperties
from kpystorage.snapshot import SnapshotId

SETTINGS: Final = """\
# A rehearsal of the mirror {mirror}: a fork of node {node_id}, as a cluster of its own.
# Only kpybroker may use these directories: their segments are shared with the original.
process.roles=broker,controller
node.id={node_id}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
controller.quorum.voters={node_id}@127.0.0.1:{controller_port}
log.dirs={directories}
default.replication.factor=1
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
kpybroker.http.listener=
"""


class ForkOrder(NamedTuple):
    """The wanted fork."""

    mirror: str
    node_id: int
    cluster_id: str
    broker_epoch: int
    """The epoch of the node's registration. In the name of this one it stopped cleanly, so it stays in sync."""
    directories: Mapping[str, str]
    """The log directories of the node, with the new ones of the fork. The first has the fork's metadata."""


class Fork(NamedTuple):
    """A fork that was made."""

    partitions: int
    bytes: ForkedBytes
    aborted: int
    """The transactions that were aborted, counted in each partition."""
    gone: int
    """The partitions that the metadata name and whose logs were not found."""


def settings(order: ForkOrder, port: int) -> str:
    """The properties of a broker on a fork."""
    return SETTINGS.format(
        mirror=order.mirror,
        node_id=order.node_id,
        port=port,
        controller_port=port + 1,
        directories=",".join(order.directories.values()),
    )


def fork_node(
    disk: Disk,
    metadata: ForkedMetadata,
    image: MetadataImage,
    order: ForkOrder,
    rng: Random,
    now_ms: int,
    report: Callable[[str], None],
) -> Fork:
    """Make a fork in directories that exist and are empty. OSError, ForkBusy, StorageError."""
    for source, target in order.directories.items():
        forking.fork_checkpoints(disk, source, target)
    size, gone = ForkedBytes(0, 0), 0
    found: list[HeldPartition] = []
    for partition in metadata.held():
        forked = _fork_partition(disk, order, partition)
        if forked is None:
            gone += 1
        else:
            size = size.plus(forked)
            found.append(partition)
    mirrored = {(each.topic, each.partition): each for each in found if each.is_mirror}
    aborted = 0
    for source, target in order.directories.items():
        identity = meta_properties.read(disk, source)
        aborted += _end_transactions(LogDirectory(target, disk, rng, report, _any_gaps()), mirrored, order, now_ms)
        directory_id = None if identity is None else identity.directory_id
        meta_properties.write(disk, target, MetaProperties(order.cluster_id, order.node_id, directory_id))
    first = next(iter(order.directories.values()))
    _write_metadata(LogDirectory(first, disk, rng, report, LogConfig()), metadata, image, order, now_ms)
    return Fork(len(found), size, aborted, gone)


def _any_gaps() -> LogConfig:
    """A configuration in which gaps are no losses: the source's cleaner may have left them."""
    return LogConfig()._replace(cleanup_compact=True)


def _fork_partition(disk: Disk, order: ForkOrder, partition: HeldPartition) -> ForkedBytes | None:
    """Fork the log of a partition; None if it is not there, or is that of another topic of the name."""
    name = names.partition_directory(partition.topic, partition.partition)
    for source, target in order.directories.items():
        path, copy = f"{source}/{name}", f"{target}/{name}"
        if disk.status(path) is None or forking.topic_id(disk, path) not in (partition.topic_id, None):
            continue
        try:
            return forking.fork_log(disk, path, copy)
        except FileNotFoundError:  # the topic was deleted meanwhile
            for each in disk.list_directory(copy):
                disk.unlink(f"{copy}/{each}")
            disk.remove_directory(copy)
    return None


def _end_transactions(
    directory: LogDirectory, mirrored: Mapping[tuple[str, int], HeldPartition], order: ForkOrder, now_ms: int
) -> int:
    """Abort the open transactions of mirrored partitions, and leave the directory as a clean stop does."""
    directory.open(now_ms)
    try:
        deque(directory.recover(), maxlen=0)
        ended = 0
        for key, log in directory.logs.items():
            if key in mirrored and key not in directory.damaged:
                ended += _abort_all(log.open(), mirrored[key].leader_epoch, order.node_id, now_ms)
    except BaseException:
        directory.abandon()
        raise
    directory.close(order.broker_epoch)
    return ended


def _abort_all(log: Log, leader_epoch: int, node_id: int, now_ms: int) -> int:
    open_ids = [producer_id for producer_id, _, _ in log.producers.open_transactions()]
    if not open_ids:
        return 0
    state = PartitionState(leader_epoch, 0, (node_id,), (node_id,))
    leader = PartitionLeader(log, node_id, state, log.log_end_offset)
    for producer_id in open_ids:
        producer = log.producers.producers[producer_id]
        marker = Marker(producer_id, producer.epoch, commit=False, coordinator_epoch=max(producer.coordinator_epoch, 0))
        leader.append_marker(marker, now_ms)
    return len(open_ids)


def _write_metadata(
    directory: LogDirectory, metadata: ForkedMetadata, image: MetadataImage, order: ForkOrder, now_ms: int
) -> None:
    """Begin a metadata log behind a snapshot that holds everything. Its epochs begin again."""
    forked, _ = image_of(list(metadata.records()), order.cluster_id, image.next_offset)
    directory.open(now_ms)
    try:
        log = MetadataLog(directory, LogConfig(), now_ms)
        batches = snapshot_batches(forked, VoterHistory(), now_ms, now_ms)
        log.write_snapshot(SnapshotId(image.next_offset, forked.epoch), list(batches))
        log.start_at(image.next_offset, now_ms)
    except BaseException:
        directory.abandon()
        raise
    directory.close(order.broker_epoch)


def placed(sources: Sequence[str], targets: Sequence[str]) -> dict[str, str]:
    """A new directory for each log directory: in the first of ``targets`` on the same file system. OSError; ValueError
    with the log directory that has none."""
    devices = {os.stat(target).st_dev: target for target in reversed(targets)}
    found = {}
    for number, source in enumerate(sources, 1):
        target = devices.get(os.stat(source).st_dev)
        if target is None:
            raise ValueError(source)
        found[source] = f"{target}/logs-{number}"
    return found
