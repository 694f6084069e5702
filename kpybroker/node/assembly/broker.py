"""The broker of a node, made last of finished parts; and its registration, for which the ports must be bound."""

import socket
from collections.abc import Mapping
from random import Random

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import SUSPICION
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.lifecycle import Lifecycle, Times
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.machines.endpoints import protocol_id
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.broker import FeatureRange, reporting_incarnation
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.features import SUPPORTED
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.hosting import build_coordinators
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.quorum import QuorumParts, build_channel
from kpybroker.node.assembly.replication import KeptLogs, build_partitions
from kpybroker.node.assembly.security import NodeSecurity
from kpybroker.node.assembly.storage import StoredNode
from kpybroker.requests.broker import Broker, ClusterLinks
from kpybroker.requests.server.listener import Server
from kpybroker.runtime.io.machine import name_of_this_machine
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener


def build_broker(
    current: CurrentConfig,
    platform: Platform,
    quorum: QuorumParts,
    security: NodeSecurity,
    lifecycle: Lifecycle,
    kept: KeptLogs,
    server: Server,
) -> Broker:
    """A broker that follows the metadata and its configuration from now on. Its requests come through ``server``."""
    config, image = current.config, quorum.host.image
    cluster = _cluster(config, platform, quorum.host, lifecycle, security)
    partitions = build_partitions(current, platform, kept, image, cluster, quorum.channel)
    coordinators = build_coordinators(current, platform, image, cluster, partitions.replicas, server)
    broker = Broker(config, platform.scheduler, platform.rng, image, cluster, partitions, coordinators)
    current.when_changed(broker.reconfigure)
    quorum.host.subscribe(broker.apply)
    if config[SUSPICION]:
        _report_silent_peers(current, platform, quorum.host, lifecycle, broker)
    return broker


def _report_silent_peers(
    current: CurrentConfig, platform: Platform, quorum: QuorumHost, lifecycle: Lifecycle, broker: Broker
) -> None:
    """Report silent peers as soon as there are any other brokers."""
    begun = False

    def follow(image: MetadataImage, _delta: MetadataDelta) -> None:
        nonlocal begun
        if not begun and any(broker_id != broker.node_id for broker_id in image.brokers):
            begun = True
            from kpybroker.hosts.replicas.silent_peers import SilentPeers  # not of a plain start

            peers = SilentPeers(
                platform.scheduler,
                broker.fetchers,
                broker.replicas.follower_fetches,
                lambda: current.config["replica.fetch.wait.max.ms"],
                lifecycle,
            )
            platform.ends.callback(peers.close)

    quorum.subscribe(follow)


def _cluster(
    config: BrokerConfig, platform: Platform, quorum: QuorumHost, lifecycle: Lifecycle, security: NodeSecurity
) -> ClusterLinks:
    # What clients ask may take its time; heartbeats and in-sync sets must not wait behind it.
    treatment = security.forwarding(config, quorum.image)
    forwarding = build_channel(config, platform, quorum, "forwarding", config.request_timeout_ms, treatment)
    nodes = Nodes(quorum.image, config.inter_broker_listener_name, platform.broker_peers(config, "brokers"))
    platform.ends.callback(nodes.close)
    return ClusterLinks(forwarding, nodes, lifecycle, security.authorizer)


def build_lifecycle(
    config: BrokerConfig,
    platform: Platform,
    request: BrokerRegistrationRequest,
    quorum: QuorumParts,
    directories: Directories,
) -> Lifecycle:
    """The registration of this broker, which `Lifecycle.start` begins."""
    return Lifecycle(
        platform.scheduler,
        quorum.channel.send,
        request,
        lambda: quorum.host.image.next_offset - 1,
        directories,
        platform.failed,
        Times(
            config["broker.heartbeat.interval.ms"],
            config["initial.broker.registration.timeout.ms"],
            config["log.dir.failure.timeout.ms"],
        ),
        knows_cordons=lambda: (quorum.host.image.metadata_version or 0) >= metadata_version.CORDONED_LOG_DIRS,
    )


def registration(
    config: BrokerConfig,
    stored: StoredNode,
    ports: Mapping[str, int],
    rng: Random,
    migrating: Mapping[str, FeatureRange] | None = None,
) -> BrokerRegistrationRequest:
    """The registration of one start. ``ports`` are those of the listeners, by their names. ``migrating`` are the
    features of a broker that migrates from ZooKeeper."""
    return BrokerRegistrationRequest(
        broker_id=config.node_id,
        cluster_id=stored.identity.cluster_id,
        incarnation_id=_incarnation(config, rng, migrates=migrating is not None),
        listeners=[
            Listener(
                name=listener.name,
                host=listener.host or name_of_this_machine(),
                port=listener.port or ports[listener.name],
                security_protocol=protocol_id(listener.protocol),
            )
            for listener in config.advertised_listeners
        ],
        features=[
            Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
            for name, levels in (SUPPORTED if migrating is None else migrating).items()
        ],
        rack=_rack(config) if migrating is None else config.rack,
        is_migrating_zk_broker=migrating is not None,
        log_dirs=[each.id for each in stored.directories],
        previous_broker_epoch=stored.previous_broker_epoch,
    )


def _incarnation(config: BrokerConfig, rng: Random, *, migrates: bool) -> bytes:
    """The id of this start, by which controllers know whether this broker reports silent peers."""
    random_id = rng.randbytes(16)
    return reporting_incarnation(random_id) if config[SUSPICION] and not migrates else random_id


def _rack(config: BrokerConfig) -> str | None:
    """The rack of this node. If none is configured it is the host's name, so that replicas are spread over machines."""
    return config.rack if config.rack is not None or config.standalone else socket.gethostname()
