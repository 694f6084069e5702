"""Tiered storage of a broker, put together. Imported only where ``remote.log.storage.system.enable`` is on."""

import logging
from collections.abc import Callable
from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.empty_leaders import EmptyLeaders
from kpybroker.hosts.remote_log.figures import ThrottleTimes, TierFigures
from kpybroker.hosts.remote_log.first_times import FirstTimes
from kpybroker.hosts.remote_log.led_compaction import CompactionParts, CompactionSlot
from kpybroker.hosts.remote_log.led_tier import TierParts
from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.hosts.remote_log.metadata_topic import MetadataNodes, RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.pace import CopyPace, copy_quota, fetch_quota
from kpybroker.hosts.remote_log.partition_deletions import PartitionDeletions
from kpybroker.hosts.remote_log.pools import counted
from kpybroker.hosts.remote_log.reads import RemoteReads
from kpybroker.hosts.remote_log.remote_log import LogBeginnings, RemoteLog, StoreReaders, StoreUpkeep
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreAway, StoreFailed
from kpybroker.hosts.remote_log.segment_ends import SegmentEnds
from kpybroker.hosts.remote_log.stores import build
from kpybroker.hosts.remote_log.sweeping import Sweeping
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.hosts.replicas.compaction import cleaner_config
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.remote_log.copying import CopySettings
from kpybroker.machines.remote_log.quota import RemoteLogQuota
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.broker import ClusterLinks
from kpybroker.runtime.io.scheduler import Submit
from kpystorage.compaction.task import CleanerConfig

log = logging.getLogger("kpybroker.tiered")

POOLS: Final = (
    "remote.log.reader.threads",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
)
ABANDONED_AFTER_DEADLINES: Final = 2
"""A copy of another broker counts as abandoned after this multiple of the longest time that one may take."""


def build_remote_log(
    current: CurrentConfig, platform: Platform, image: MetadataImage, cluster: ClusterLinks, replicas: Replicas
) -> RemoteLog:
    """The tiered partitions of this node. Raises StartRefused if the store cannot be used."""
    config, scheduler, now = current.config, platform.scheduler, current.now
    storage = _storage(config, now, replicas)
    platform.ends.callback(storage.close)
    metadata = _metadata_topic(config, platform, image, cluster, replicas, now)
    copies, fetches = copy_quota(config), fetch_quota(config)
    pace = CopyPace(copies, lambda: int(scheduler.monotonic_ms()))

    def reconfigured(changed: BrokerConfig) -> None:
        pace.set_limit(int(changed["remote.log.manager.copy.max.bytes.per.second"]))
        fetches.set_limit(int(changed["remote.log.manager.fetch.max.bytes.per.second"]))

    def throttle_times() -> ThrottleTimes:
        now_ms = int(scheduler.monotonic_ms())
        return ThrottleTimes(
            *pace.throttle_times_ms(), fetches.mean_throttle_ms(now_ms), fetches.max_throttle_ms(now_ms)
        )

    current.when_changed(reconfigured)
    readers, copiers, deleters = (int(config[name]) for name in POOLS)
    pulse = MetadataPulse(scheduler)
    figures = TierFigures(readers, copiers)
    copier = counted(scheduler.pool("remote-copier", copiers), figures.managers)
    parts = TierParts(
        scheduler,
        replicas,
        metadata,
        storage,
        copier=copier,
        deleter=scheduler.pool("remote-deleter", deleters),
        copy_settings=lambda: _copy_settings(now()),
        copy_limits=pace.limits,
        figures=figures,
        is_current=lambda: pulse.beats or config.is_in_zookeeper_mode,
        abandoned_after_ms=ABANDONED_AFTER_DEADLINES * _copy_settings(config).deadline_ms,
        rng=platform.rng,
        compaction=_compaction_parts(platform, metadata, storage, copier, pace, now),
    )
    sweep_ms = lambda: float(now()["kpybroker.remote.sweep.interval.ms"])  # noqa: E731
    sweeping = Sweeping(scheduler, metadata, storage, parts.deleter, pulse, sweep_ms, parts.abandoned_after_ms)
    reader = counted(scheduler.pool("remote-reader", readers), figures.readers)
    remote_log = RemoteLog(
        parts,
        now,
        _readers(parts, now, reader, fetches),
        _beginnings(parts, now),
        StoreUpkeep(PartitionDeletions(parts, pulse), sweeping, pulse),
        throttle_times,
    )
    platform.ends.callback(remote_log.stop)
    return remote_log


def _compaction_parts(
    platform: Platform,
    metadata: RemoteLogMetadataTopic,
    storage: RemoteStorage,
    copier: Submit,
    pace: CopyPace,
    now: Callable[[], BrokerConfig],
) -> CompactionParts:
    def cleaner() -> CleanerConfig | None:
        config = now()
        return cleaner_config(config) if config["log.cleaner.enable"] else None

    random_bytes = platform.rng.randbytes
    slot = CompactionSlot()
    return CompactionParts(platform.scheduler, metadata, storage, copier, pace.limits, cleaner, slot, random_bytes)


def _metadata_topic(
    config: BrokerConfig,
    platform: Platform,
    image: MetadataImage,
    cluster: ClusterLinks,
    replicas: Replicas,
    now: Callable[[], BrokerConfig],
) -> RemoteLogMetadataTopic:
    nodes = MetadataNodes(
        *(
            Nodes(image, config.inter_broker_listener_name, platform.broker_peers(config, name))
            for name in ("remote-metadata-polls", "remote-metadata-produces")
        )
    )
    for each in nodes:
        platform.ends.callback(each.close)
    return RemoteLogMetadataTopic(config.node_id, platform.scheduler, replicas, nodes, cluster.controller.send, now)


def _readers(parts: TierParts, now: Callable[[], BrokerConfig], reader: Submit, quota: RemoteLogQuota) -> StoreReaders:
    most_waiting = lambda: int(now()["remote.log.reader.max.pending.tasks"])  # noqa: E731
    timeout_ms = lambda: float(now()["remote.list.offsets.request.timeout.ms"])  # noqa: E731
    return StoreReaders(
        RemoteReads(parts.scheduler, parts.storage, reader, most_waiting, quota, parts.figures),
        TimeSearches(parts.scheduler, parts.storage, reader, timeout_ms, parts.figures),
        FirstTimes(parts.scheduler, parts.storage, reader),
    )


def _beginnings(parts: TierParts, now: Callable[[], BrokerConfig]) -> LogBeginnings:
    scheduler, segments_of, failed = parts.scheduler, parts.metadata.segments_of, parts.replicas.directory_failed
    threads = int(now()["remote.log.manager.follower.thread.pool.size"])
    ends = SegmentEnds(parts.storage, scheduler.pool("remote-followers", threads))
    return LogBeginnings(
        AuxiliaryStates(now().node_id, scheduler, segments_of, ends, now, parts.figures, failed),
        EmptyLeaders(scheduler, segments_of, ends, failed),
    )


def _storage(config: BrokerConfig, now: Callable[[], BrokerConfig], replicas: Replicas) -> RemoteStorage:
    """The store, if it can be used. One that is away may be there later."""
    first = next(iter(replicas.directories), None)
    storage = build(config, now, None if first is None else first.path)
    try:
        storage.check()
    except StoreAway as error:
        log.warning("The store cannot be reached, so nothing is copied for now: %s", error)
    except StoreFailed as error:
        storage.close()
        raise StartRefused(f"tiered storage: {error}") from None
    return storage


def _copy_settings(config: BrokerConfig) -> CopySettings:
    return CopySettings(
        config.node_id,
        deadline_ms=int(config["kpybroker.remote.copy.deadline.ms"]),
        max_custom_metadata_bytes=int(config["remote.log.metadata.custom.metadata.max.bytes"]),
    )
