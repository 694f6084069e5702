"""Tiered storage of a broker, put together. Imported only where ``remote.log.storage.system.enable`` is on."""

from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.figures import ThrottleTimes, TierFigures
from kpybroker.hosts.remote_log.led_tier import TierParts
from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.pace import CopyPace, copy_quota, fetch_quota
from kpybroker.hosts.remote_log.partition_deletions import PartitionDeletions
from kpybroker.hosts.remote_log.pools import counted
from kpybroker.hosts.remote_log.reads import RemoteReads
from kpybroker.hosts.remote_log.remote_log import RemoteLog, StoreReaders, StoreUpkeep
from kpybroker.hosts.remote_log.stores import build_remote_storage
from kpybroker.hosts.remote_log.sweeping import Sweeping
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.remote_log.copying import CopySettings
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.broker import ClusterLinks

POOLS: Final = (
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
)
ABANDONED_AFTER_DEADLINES: Final = 2
"""A copy of another broker counts as abandoned after so many times the longest time that one may take."""


def build_remote_log(
    current: CurrentConfig, platform: Platform, image: MetadataImage, cluster: ClusterLinks, replicas: Replicas
) -> RemoteLog:
    """The tiered partitions of this node. Raises StartRefused if the store cannot be used."""
    config, scheduler, now = current.config, platform.scheduler, current.now
    storage = build_remote_storage(config)
    platform.ends.callback(storage.close)
    # Reads of the metadata wait for records, so these connections serve nothing else.
    nodes = Nodes(image, config.inter_broker_listener_name, platform.broker_peers(config, "tiers"))
    platform.ends.callback(nodes.close)
    metadata = RemoteLogMetadataTopic(config.node_id, scheduler, replicas, nodes, cluster.controller.send, now)
    copies, fetches = copy_quota(config), fetch_quota(config)
    pace = CopyPace(copies, lambda: int(scheduler.monotonic_ms()))

    def reconfigured(changed: BrokerConfig) -> None:
        pace.set_limit(int(changed["remote.log.manager.copy.max.bytes.per.second"]))
        fetches.bytes_per_second = int(changed["remote.log.manager.fetch.max.bytes.per.second"])

    def throttle_times() -> ThrottleTimes:
        now_ms = int(scheduler.monotonic_ms())
        return ThrottleTimes(
            *pace.throttle_times_ms(), fetches.mean_throttle_ms(now_ms), fetches.max_throttle_ms(now_ms)
        )

    current.when_changed(reconfigured)
    readers, copiers, deleters = (int(config[name]) for name in POOLS)
    figures = TierFigures(readers, copiers)
    parts = TierParts(
        scheduler,
        replicas,
        metadata,
        storage,
        copier=counted(scheduler.pool("remote-copier", copiers), figures.managers),
        deleter=scheduler.pool("remote-deleter", deleters),
        copy_settings=lambda: _copy_settings(now()),
        copy_limits=pace.limits,
        figures=figures,
        abandoned_after_ms=ABANDONED_AFTER_DEADLINES * _copy_settings(config).deadline_ms,
    )
    reader = counted(scheduler.pool("remote-reader", readers), figures.readers)
    most_waiting = lambda: int(now()["remote.log.reader.max.pending.tasks"])  # noqa: E731
    timeout_ms = lambda: float(now()["remote.list.offsets.request.timeout.ms"])  # noqa: E731
    pulse = MetadataPulse(scheduler)
    sweep_ms = lambda: float(now()["kpybroker.remote.sweep.interval.ms"])  # noqa: E731
    sweeping = Sweeping(scheduler, metadata, storage, parts.deleter, pulse, sweep_ms, parts.abandoned_after_ms)
    remote_log = RemoteLog(
        parts,
        now,
        StoreReaders(
            RemoteReads(scheduler, storage, reader, most_waiting, fetches, figures),
            TimeSearches(scheduler, storage, reader, timeout_ms, figures),
        ),
        AuxiliaryStates(scheduler, metadata.segments_of, storage),
        StoreUpkeep(PartitionDeletions(parts, pulse), sweeping, pulse),
        throttle_times,
    )
    platform.ends.callback(remote_log.stop)
    return remote_log


def _copy_settings(config: BrokerConfig) -> CopySettings:
    return CopySettings(
        config.node_id,
        deadline_ms=int(config["kpybroker.remote.copy.deadline.ms"]),
        max_custom_metadata_bytes=int(config["remote.log.metadata.custom.metadata.max.bytes"]),
    )
