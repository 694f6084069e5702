"""The quorum of a node: its metadata log, its controller if it has one, and the way to the active controller."""

from typing import NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.config.delegation_tokens import token_secret
from kpybroker.config.own_configs import SUSPICION
from kpybroker.hosts.quorum.channel import OPEN, ControllerChannel, Forwarding
from kpybroker.hosts.quorum.host import QuorumConfig, QuorumHost, QuorumIdentity, Timings
from kpybroker.hosts.quorum.membership import QuorumMembership
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.reign import ControllerParts
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy
from kpybroker.machines.controller.state import StaticSettings, TokenSettings
from kpybroker.machines.endpoints import protocol_id
from kpybroker.machines.raft.timing import Timing, longest_fetch_wait_ms
from kpybroker.node.assembly.limits import mutation_windows, topic_bounds
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.storage import StoredNode


class QuorumParts(NamedTuple):
    """A node's part in the quorum."""

    host: QuorumHost
    channel: ControllerChannel
    """The way of the node's own requests to the active controller."""
    membership: QuorumMembership


def build_quorum(config: BrokerConfig, platform: Platform, stored: StoredNode) -> QuorumParts:
    """The quorum with what the metadata log holds. Raises StartRefused, StorageError or OSError."""
    identity = _identity(config, stored)
    host = _host(config, platform, stored, identity)
    channel = build_channel(config, platform, host, "controller", config["broker.session.timeout.ms"])
    membership = QuorumMembership(platform.scheduler, host, identity, channel.send, platform.rng)
    platform.ends.callback(membership.stop)
    return QuorumParts(host, channel, membership)


def _host(config: BrokerConfig, platform: Platform, stored: StoredNode, identity: QuorumIdentity) -> QuorumHost:
    timeout_ms = config["controller.quorum.request.timeout.ms"]
    host = QuorumHost(
        platform.scheduler,
        MetadataLog(stored.metadata_directory, stored.metadata_log_config, platform.scheduler.now_ms()),
        identity,
        _controller_parts(config, platform, stored),
        _quorum_config(config),
        platform.controller_peers(config, "quorum", timeout_ms),
        platform.failed,
    )
    platform.ends.callback(host.close)
    return host


def build_channel(
    config: BrokerConfig,
    platform: Platform,
    quorum: QuorumHost,
    purpose: str,
    most_ms: int,
    forwarding: Forwarding = OPEN,
) -> ControllerChannel:
    """A way to the active controller, with connections of its own, so that nothing waits behind requests on another
    way."""
    timeout_ms = min(most_ms, config.request_timeout_ms, config["controller.socket.timeout.ms"])
    peers = platform.controller_peers(config, purpose, timeout_ms)
    channel = ControllerChannel(platform.scheduler, quorum, peers, timeout_ms, forwarding)
    platform.ends.callback(channel.close)
    return channel


def _identity(config: BrokerConfig, stored: StoredNode) -> QuorumIdentity:
    return QuorumIdentity(
        stored.identity.cluster_id,
        stored.identity.voter,
        stored.identity.static_voters,
        config.quorum_bootstrap_servers,
        config.controller_listener_name,
        config.is_controller,
        joins=config["controller.quorum.auto.join.enable"],
        migrates=config.migrates_from_zookeeper,
        protocols={name: protocol_id(protocol) for name, protocol in config.listener_protocols.items()},
    )


def _controller_parts(config: BrokerConfig, platform: Platform, stored: StoredNode) -> ControllerParts:
    settings = StaticSettings(
        node_id=config.node_id,
        default_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        delete_topics=config.delete_topic_enable,
        broker_session_timeout_ms=config["broker.session.timeout.ms"],
        bootstrap_min_insync_replicas=config["min.insync.replicas"],
        inter_broker_listener_name=config.inter_broker_listener_name,
        migrates_from_zookeeper=config.migrates_from_zookeeper,
        configured_voters=tuple(config.quorum_voters),
        tokens=token_settings(config),
        quota_windows=mutation_windows(config),
        topic_bounds=topic_bounds(config),
    )
    return ControllerParts(
        settings,
        BrokerConfigRules(config),
        platform.rng,
        list(stored.identity.bootstrap_records),
        controller_timings(config),
        platform.ways.probe,
        config[SUSPICION],
    )


def controller_timings(config: BrokerConfig) -> Timings:
    """The times after which the active controller does what it does again and again."""
    rebalance_ms = config["leader.imbalance.check.interval.seconds"] * 1_000
    return Timings(
        max_idle_interval_ms=config["metadata.max.idle.interval.ms"],
        preferred_election_interval_ms=rebalance_ms if config["auto.leader.rebalance.enable"] else 0,
        unclean_election_interval_ms=config["unclean.leader.election.interval.ms"],
        token_sweep_interval_ms=0
        if token_settings(config) is None
        else config["delegation.token.expiry.check.interval.ms"],
    )


def token_settings(config: BrokerConfig) -> TokenSettings | None:
    secret = token_secret(config)
    if secret is None:
        return None
    return TokenSettings(secret, config["delegation.token.max.lifetime.ms"], config["delegation.token.expiry.time.ms"])


def _quorum_config(config: BrokerConfig) -> QuorumConfig:
    return QuorumConfig(
        timing=_timing(config),
        linger_ms=config.asked("controller.quorum.append.linger.ms"),
        snapshots=SnapshotPolicy(
            config["metadata.log.max.record.bytes.between.snapshots"],
            config["metadata.log.max.snapshot.interval.ms"],
            config["metadata.max.retention.bytes"],
            config["metadata.max.retention.ms"],
        ),
    )


def _timing(config: BrokerConfig) -> Timing:
    """The times of Kafka's ``controller.quorum.*`` in the quorum's form."""
    fetch_timeout_ms = config["controller.quorum.fetch.timeout.ms"]
    return Timing(
        election_timeout_ms=config["controller.quorum.election.timeout.ms"],
        fetch_timeout_ms=fetch_timeout_ms,
        retry_backoff_ms=config["controller.quorum.retry.backoff.ms"],
        fetch_max_wait_ms=longest_fetch_wait_ms(fetch_timeout_ms, config["controller.quorum.request.timeout.ms"]),
        election_backoff_max_ms=config["controller.quorum.election.backoff.max.ms"],
        fetch_max_bytes=config["controller.quorum.fetch.max.bytes"],
        fetch_snapshot_max_bytes=config["controller.quorum.fetch.snapshot.max.bytes"],
    )
