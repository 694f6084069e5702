"""The partitions of a broker: its directories, its replicas, and everything that works on them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.config.topic import effective
from kpybroker.hosts.replicas.assignments import Assignments
from kpybroker.hosts.replicas.cleaners import Cleaners, Processes, Threads
from kpybroker.hosts.replicas.compaction import Compaction
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.fetchers import Fetchers, Leaders
from kpybroker.hosts.replicas.in_sync import InSyncKeeper
from kpybroker.hosts.replicas.leader_throttle import LeaderThrottle
from kpybroker.hosts.replicas.moves import Moves
from kpybroker.hosts.replicas.neighbours import Neighbours
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.hosts.replicas.tiering import LateTiering, NoTiering, Tiering
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.partition.in_sync import Rules
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.storage import StoredNode
from kpybroker.requests.broker import ClusterLinks, Partitions, cordoned_paths
from kpybroker.requests.serving.context import ActiveController
from kpystorage.disk import Disk
from kpystorage.real_disk import RealDisk

if TYPE_CHECKING:
    from kpybroker.hosts.remote_log.remote_log import RemoteLog


class KeptLogs(NamedTuple):
    """The directories of a broker's logs, and the cleaners of the compacted ones."""

    directories: Directories
    cleaners: Cleaners


def build_kept(config: BrokerConfig, platform: Platform, stored: StoredNode, disk: Disk) -> KeptLogs:
    """The log directories, those that cannot be used included, and their cleaners."""
    directories = Directories(stored.directories, platform.scheduler, platform.failed, stored.unusable)
    directories.cordon(cordoned_paths(config))
    return KeptLogs(directories, _cleaners(platform, disk))


def build_partitions(
    current: CurrentConfig,
    platform: Platform,
    kept: KeptLogs,
    image: MetadataImage,
    cluster: ClusterLinks,
    channel: ActiveController,
) -> Partitions:
    """The partitions in these directories. ``channel`` is the way by which their changes are reported."""
    config, scheduler, (directories, cleaners) = current.config, platform.scheduler, kept
    node_id, epoch = config.node_id, cluster.lifecycle.epoch
    assignments = Assignments(scheduler, channel.send, node_id, epoch)
    moves = Moves(node_id, directories, scheduler, assignments, current.now)
    leaders = Leaders(cluster.nodes.address, platform.ways.fetchers)
    late = LateTiering(lambda: tiering)
    fetchers = Fetchers(node_id, scheduler, leaders, directories, current.now, epoch, moves.source_was_cut, late)
    replicas = Replicas(
        node_id,
        directories,
        scheduler,
        lambda overrides: effective(overrides, current.config),
        Rules(float(config.replica_lag_time_max_ms)),
        Neighbours(assignments, moves, fetchers),
        late,
    )
    remote_log = _remote_log(current, platform, image, cluster, replicas)
    tiering: Tiering = NoTiering() if remote_log is None else remote_log
    directories.when_failed(lambda _directory: cluster.lifecycle.report())
    in_sync = InSyncKeeper(scheduler, channel.send, replicas, node_id, epoch)
    for end in (moves.stop, fetchers.stop, in_sync.stop):
        platform.ends.callback(end)
    return Partitions(
        replicas=replicas,
        moves=moves,
        fetchers=fetchers,
        in_sync=in_sync,
        leader_throttle=LeaderThrottle(node_id, _rate(current)),
        compaction=Compaction(scheduler, replicas, moves, current.now, cleaners),
        upkeep=Upkeep(scheduler, replicas, current.now, tiering),
        remote_log=remote_log,
    )


def _remote_log(
    current: CurrentConfig, platform: Platform, image: MetadataImage, cluster: ClusterLinks, replicas: Replicas
) -> "RemoteLog | None":
    """Tiered storage; None where it is not enabled."""
    if not current.config["remote.log.storage.system.enable"]:
        return None
    from kpybroker.node.assembly.remote_log import build_remote_log  # not of a plain start

    return build_remote_log(current, platform, image, cluster, replicas)


def _cleaners(platform: Platform, disk: Disk) -> Cleaners:
    """The cleaners of compacted logs: processes, or threads for a disk that lies in memory."""
    if isinstance(disk, RealDisk):
        return Processes(platform.scheduler, disk.descriptors.modes)
    return Threads(platform.scheduler, disk)


def _rate(current: CurrentConfig) -> Callable[[], int]:
    return lambda: current.config.bytes_per_second("leader.replication.throttled.rate")
