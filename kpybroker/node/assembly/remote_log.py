"""Tiered storage of a broker, put together. Imported only where ``remote.log.storage.system.enable`` is on."""

from collections.abc import Callable
from typing import Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.led_tier import TierParts
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.reads import RemoteReads
from kpybroker.hosts.remote_log.remote_log import RemoteLog
from kpybroker.hosts.remote_log.stores import build_remote_storage
from kpybroker.hosts.remote_log.time_search import TimeSearches
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.remote_log.copying import CopySettings
from kpybroker.node.assembly.platform import Platform
from kpybroker.requests.broker import ClusterLinks

ABANDONED_AFTER_DEADLINES: Final = 2
"""A copy of another broker counts as abandoned after so many times the longest time that one may take."""


def build_remote_log(
    current: CurrentConfig, platform: Platform, cluster: ClusterLinks, replicas: Replicas
) -> RemoteLog:
    """The tiered partitions of this node. Raises StartRefused if the store cannot be used."""
    config, scheduler, now = current.config, platform.scheduler, current.now
    storage = build_remote_storage(config)
    platform.ends.callback(storage.close)
    # Reads of the metadata wait for the leader, so these connections serve nothing else.
    nodes = Nodes(platform_image(cluster), config.inter_broker_listener_name, platform.broker_peers(config, "tiers"))
    platform.ends.callback(nodes.close)
    metadata = RemoteLogMetadataTopic(
        config.node_id, scheduler, replicas, nodes, cluster.controller.send, now
    )
    reader = scheduler.pool("remote-reader", int(config["remote.log.reader.threads"]))
    parts = TierParts(
        scheduler,
        replicas,
        metadata,
        storage,
        copier=scheduler.pool("remote-copier", int(config["remote.log.manager.copier.thread.pool.size"])),
        deleter=scheduler.pool("remote-deleter", int(config["remote.log.manager.expiration.thread.pool.size"])),
        copy_settings=lambda: _copy_settings(now()),
        wait_for_quota=bool,
        abandoned_after_ms=ABANDONED_AFTER_DEADLINES * _copy_settings(config).deadline_ms,
    )
    reads = RemoteReads(scheduler, storage, reader, lambda: int(now()["remote.log.reader.max.pending.tasks"]), _failed)
    searches = TimeSearches(
        scheduler, storage, reader, lambda: float(now()["remote.list.offsets.request.timeout.ms"]), _failed
    )
    auxiliary = AuxiliaryStates(scheduler, metadata.segments_of, storage)
    remote_log = RemoteLog(parts, now, reads, searches, auxiliary)
    platform.ends.callback(remote_log.stop)
    return remote_log


def _copy_settings(config: BrokerConfig) -> CopySettings:
    return CopySettings(
        config.node_id,
        deadline_ms=int(config["kpybroker.remote.copy.deadline.ms"]),
        max_custom_metadata_bytes=int(config["remote.log.metadata.custom.metadata.max.bytes"]),
    )
