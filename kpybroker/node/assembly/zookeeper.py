"""The parts by which a broker in ZooKeeper mode takes part in its cluster: what it follows, and its registration."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.quorum.channel import ControllerChannel
from kpybroker.hosts.quorum.first_start import NodeIdentity, configured_voters
from kpybroker.hosts.quorum.formatter import new_uuid
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.zookeeper.broker import identity
from kpybroker.hosts.zookeeper.broker.encrypted_configs import EncryptedConfigs
from kpybroker.hosts.zookeeper.broker.followed_clients import FollowedClients
from kpybroker.hosts.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.hosts.zookeeper.broker.followed_features import FollowedFeatures
from kpybroker.hosts.zookeeper.broker.known_controller import KnownController
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.broker.registration import ZooKeeperRegistration
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient
from kpybroker.machines.raft.voters import Voter
from kpybroker.machines.zookeeper.broker.controller_requests import Ruler
from kpybroker.machines.zookeeper.broker.translation import configs
from kpybroker.machines.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.machines.zookeeper.tree.passwords import KEY_BITS, KEY_FACTORY, Encoding, is_key_factory
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.replication import KeptLogs
from kpybroker.node.assembly.storage import Identify
from kpybroker.runtime.io.machine import name_of_this_machine
from kpystorage.disk import Disk


def build_joined(
    config: BrokerConfig,
    platform: Platform,
    client: ZooKeeperClient,
    metadata: ZooKeeperMetadata,
    kept: KeptLogs,
    ports: Mapping[str, int],
) -> ClusterParts:
    """The parts by which a broker takes part in its cluster. ``ports`` are those of the listeners, by their names."""
    scheduler, image = platform.scheduler, metadata.image
    acls = DefaultAcls(is_secure=config["zookeeper.set.acl"])
    content = _registration(config, ports, scheduler.now_ms())
    patience_ms = 2.0 * config["zookeeper.session.timeout.ms"]
    registration = ZooKeeperRegistration(
        scheduler, client, content, acls.of(content.path), patience_ms, lambda: kept.directories.failed_paths
    )
    known = KnownController(client, image, config.inter_broker_listener_name)
    timeout_ms = config["controller.socket.timeout.ms"]
    channel = ControllerChannel(scheduler, known, platform.broker_peers(config, "controller"), timeout_ms)
    platform.ends.callback(channel.close)

    def changed(resource_type: int, name: str, values: Mapping[str, str]) -> None:
        metadata.apply(configs(image, resource_type, name, values))

    clients = FollowedClients(client, image, metadata.apply)
    encrypted = EncryptedConfigs(encoding_of(config), platform.secret_rng)
    return ClusterParts(
        client=client,
        metadata=metadata,
        acls=acls,
        registration=registration,
        known=known,
        channel=channel,
        clients=clients,
        configs=FollowedConfigs(client, config.node_id, scheduler.now_ms, changed, clients.read, encrypted.decoded),
        encrypted=encrypted,
        features=FollowedFeatures(client, metadata.set_features_epoch, platform.failed),
        ruler=Ruler(),
    )


def encoding_of(config: BrokerConfig) -> Encoding | None:
    """The encryption of passwords in ZooKeeper; None if none is configured. Raises StartRefused."""
    secret = config["password.encoder.secret"]
    if secret is None:
        return None
    if find_spec("cryptography") is None:
        raise StartRefused("password.encoder.secret needs the library cryptography: pip install 'kpybroker[security]'")
    key_factory = config["password.encoder.keyfactory.algorithm"] or KEY_FACTORY
    bits, iterations = config["password.encoder.key.length"], config["password.encoder.iterations"]
    if bits not in KEY_BITS:
        raise StartRefused(f"password.encoder.key.length={bits}: AES has keys of 128, 192 and 256 bits")
    if not is_key_factory(key_factory):
        raise StartRefused(f"password.encoder.keyfactory.algorithm={key_factory}: use {KEY_FACTORY}")
    return Encoding(secret, key_factory, bits, iterations)


def _registration(config: BrokerConfig, ports: Mapping[str, int], now_ms: int) -> Registration:
    endpoints = tuple(
        ZkEndpoint(each.name, each.host or name_of_this_machine(), each.port or ports[each.name])
        for each in config.advertised_listeners
    )
    return Registration(config.node_id, endpoints, dict(config.listener_protocols), config.rack, timestamp_ms=now_ms)


def identify_with(cluster_id: str) -> Identify:
    """The function that finds out to which broker log directories belong, and gives new ones to it. The ids of the
    directories of a broker that migrates to KRaft last."""

    def identify(
        config: BrokerConfig, disk: Disk, directories: Any, _metadata: str, rng: Any, *_rest: Any
    ) -> NodeIdentity:
        lines = identity.write_missing(disk, directories, cluster_id, config.node_id)
        if config.migrates_from_zookeeper:
            ids = identity.lasting_directory_ids(disk, directories, lambda: new_uuid(rng))
        else:
            ids = identity.directory_ids(directories, rng)
        voter = Voter(config.node_id, next(iter(ids.values())), ())
        return NodeIdentity(cluster_id, ids, voter, configured_voters(config), (), lines)

    return identify
