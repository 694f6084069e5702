"""The parts of a broker in ZooKeeper mode, and how they are made of each other."""

import asyncio
import os
from collections.abc import Callable, Mapping
from functools import partial
from importlib.util import find_spec
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from kpybroker import handlers
from kpybroker.assembly.hosting import build_coordinators
from kpybroker.assembly.platform import Platform
from kpybroker.assembly.replication import Kept, build_partitions
from kpybroker.assembly.security import Security
from kpybroker.assembly.storage import Identify
from kpybroker.assembly.zookeeper_login import zookeeper_login
from kpybroker.broker import Broker, Cluster, Registered
from kpybroker.calls.call import Call
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.controller.broker_config_rules import BrokerConfigRules
from kpybroker.failed_response import failed_response
from kpybroker.io.machine import name_of_this_machine
from kpybroker.network.nodes import Nodes
from kpybroker.network.peer import Connect
from kpybroker.network.peers import connect_over
from kpybroker.quorum.channel import ControllerChannel
from kpybroker.quorum.first_start import NodeIdentity, configured_voters
from kpybroker.quorum.formatter import new_uuid
from kpybroker.quorum.recovery import StartRefused
from kpybroker.raft.voters import Voter
from kpybroker.replicas.replicas import Replicas
from kpybroker.server.listener import Server
from kpybroker.serving.context import Controller
from kpybroker.zookeeper.broker import apis, identity
from kpybroker.zookeeper.broker.config_writes import ALTERED, ConfigWrites
from kpybroker.zookeeper.broker.controller_requests import ControllerRequests, Held
from kpybroker.zookeeper.broker.encrypted_configs import EncryptedConfigs
from kpybroker.zookeeper.broker.followed_configs import FollowedConfigs
from kpybroker.zookeeper.broker.followed_features import FollowedFeatures
from kpybroker.zookeeper.broker.known_controller import KnownController, ZooKeeperController
from kpybroker.zookeeper.broker.layout import Acls, make_path
from kpybroker.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.zookeeper.broker.orders import Orders
from kpybroker.zookeeper.broker.registration import ZooKeeperRegistration
from kpybroker.zookeeper.broker.translation import configs
from kpybroker.zookeeper.client.addresses import BadConnect, Servers, parse
from kpybroker.zookeeper.client.client import Client, NoAnswer, Settings
from kpybroker.zookeeper.client.java_options import most_request_bytes
from kpybroker.zookeeper.tree.brokers import Registration, ZkEndpoint
from kpybroker.zookeeper.tree.passwords import KEY_BITS, KEY_FACTORY, Encoding, is_key_factory
from kpystorage.disk import Disk
from kpywire import error_codes

if TYPE_CHECKING:
    from kpybroker.assembly.migrating_broker import MigratingBroker


def _no_epoch() -> int:
    """The epoch of a broker without a registration."""
    return -1


class Joined(NamedTuple):
    """The way of a broker into its cluster."""

    client: Client
    metadata: ZooKeeperMetadata
    acls: Acls
    registration: ZooKeeperRegistration
    known: KnownController
    controller: ZooKeeperController
    configs: FollowedConfigs
    encrypted: EncryptedConfigs
    features: FollowedFeatures


class ZooKeeperBroker(Broker):
    """A broker in ZooKeeper mode. No feature is finalised there, and clients learn the real controller."""

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.supported_features = {}
        self.orders: Orders | None = None
        """The orders of the controller."""
        self.knows_cluster = False
        """Whether the controller has sent the metadata of the cluster since the start."""

    def is_listed(self, broker_id: int) -> bool:
        """Whether Metadata lists a broker. None is listed before the cluster is known: a client takes an answer without
        brokers for no answer, and one without its topics for their end."""
        return self.knows_cluster and super().is_listed(broker_id)

    def random_alive_broker(self) -> int:
        """The controller: clients send it what only it can do. If it is of a KRaft quorum, any broker will do."""
        if self.orders is None:
            return -1
        return super().random_alive_broker() if self.orders.is_of_kraft else self.orders.controller_id


def client_of(
    config: BrokerConfig,
    platform: Platform,
    simulated: Connect | None,
    *,
    in_chroot: bool = True,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> Client:
    """A client that has no session yet. ``own`` are configs that it has otherwise. Raises StartRefused."""
    try:
        servers = parse(own.get("zookeeper.connect", config["zookeeper.connect"]))
    except BadConnect as error:
        raise StartRefused(str(error)) from None
    if not in_chroot:
        servers = Servers(servers.addresses, "")
    login = zookeeper_login()
    if config["zookeeper.set.acl"] and login is None and not _shows_certificate(config):
        raise StartRefused(
            "zookeeper.set.acl is true, but neither the login of -Djava.security.auth.login.config in KAFKA_OPTS nor "
            "a certificate (zookeeper.ssl.keystore.location) says who owns the znodes"
        )
    numbers = ("zookeeper.session.timeout.ms", "zookeeper.max.in.flight.requests")
    timeout_ms, in_flight = (own.get(name, config[name]) for name in numbers)
    open_stream = _stream(config)
    try:
        most_bytes = most_request_bytes(os.environ.get("KAFKA_OPTS", ""))
    except ValueError as error:
        raise StartRefused(str(error)) from None
    new_exchange = None if login is None else login.new_exchange
    settings = Settings(servers, timeout_ms, in_flight, new_exchange, most_bytes)
    if login is not None:
        open_stream = login.prepared(open_stream)
    connect = simulated or connect_over(platform.loop, open_stream=open_stream)
    return Client(platform.scheduler, connect, settings, platform.rng)


def connection_timeout_ms(config: BrokerConfig) -> int:
    """The time for the first connection."""
    return int(config["zookeeper.connection.timeout.ms"] or config["zookeeper.session.timeout.ms"])


async def make_chroot(
    config: BrokerConfig,
    platform: Platform,
    simulated: Connect | None,
    timeout_ms: float,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> None:
    """Create the chroot, in a session without one, if it is configured and missing. Raises StartRefused."""
    chroot = client_of(config, platform, simulated, own=own).session.chroot
    if not chroot:
        return
    outside = client_of(config, platform, simulated, in_chroot=False, own=own)
    await connected(outside, timeout_ms)
    try:
        await make_path(outside, Acls(is_secure=config["zookeeper.set.acl"]), chroot)
    finally:
        await outside.close()


def _shows_certificate(config: BrokerConfig) -> bool:
    return bool(config["zookeeper.ssl.client.enable"] and config["zookeeper.ssl.keystore.location"])


def _stream(config: BrokerConfig) -> Any:
    """The stream to ZooKeeper: plain, or with the TLS of ``zookeeper.ssl.*``."""
    from kpybroker.server.outgoing import plain_stream

    if not config["zookeeper.ssl.client.enable"]:
        return plain_stream
    from kpybroker.network.tls_stream import tls_stream
    from kpybroker.tls.contexts import client_context
    from kpybroker.tls.settings import TlsError, read_settings

    try:
        context = client_context(read_settings(lambda name: _of_zookeeper(config, name)))
    except TlsError as error:
        raise StartRefused(f"connections to ZooKeeper: {error}") from None
    return tls_stream(lambda: context)


def _of_zookeeper(config: BrokerConfig, name: str) -> Any:
    """The value of an ``ssl.*`` config for ZooKeeper. Without a type, the end of the file's name decides, as in
    ZooKeeper's client."""
    key = f"zookeeper.{name}"
    value = config[key] if config.knows(key) else None
    if value is None and name.endswith("store.type"):
        location = str(config[key.removesuffix("type") + "location"] or "").lower()
        return {"pem": "PEM", "p12": "PKCS12"}.get(location.rpartition(".")[2])
    return value.lower() if name == "ssl.endpoint.identification.algorithm" and value is not None else value


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


def build_joined(
    config: BrokerConfig, platform: Platform, client: Client, metadata: ZooKeeperMetadata, ports: Mapping[str, int]
) -> Joined:
    """The parts by which a broker takes part in its cluster. ``ports`` are those of the listeners, by their names."""
    scheduler, listener = platform.scheduler, config.inter_broker_listener_name
    acls = Acls(is_secure=config["zookeeper.set.acl"])
    content = _registration(config, ports, scheduler.now_ms())
    patience_ms = 2.0 * config["zookeeper.session.timeout.ms"]
    registration = ZooKeeperRegistration(scheduler, client, content, acls.of(content.path), patience_ms)
    known = KnownController(client, metadata.image, listener)
    timeout_ms = config["controller.socket.timeout.ms"]
    channel = ControllerChannel(scheduler, known, platform.broker_peers(config, "controller"), timeout_ms)
    platform.ends.callback(channel.close)

    def changed(resource_type: int, name: str, values: Mapping[str, str]) -> None:
        metadata.apply(configs(metadata.image, resource_type, name, values))

    followed = FollowedConfigs(client, config.node_id, scheduler.now_ms, changed)
    encrypted = EncryptedConfigs(encoding_of(config), platform.secret_rng)
    followed.decode = encrypted.decoded
    controller = ZooKeeperController(known, channel)
    features = FollowedFeatures(client, metadata.set_features_epoch, platform.failed)
    return Joined(client, metadata, acls, registration, known, controller, followed, encrypted, features)


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


def build_broker(  # noqa: PLR0913
    current: CurrentConfig,
    platform: Platform,
    joined: Joined,
    security: Security,
    kept: Kept,
    server: Server,
    begin: Callable[[Any], object],
    migrating: "MigratingBroker | None" = None,
) -> ZooKeeperBroker:
    """A broker that follows the orders of its controller. ``begin`` begins a task. ``migrating`` has its parts in the
    KRaft quorum to which the cluster migrates."""
    config, metadata = current.config, joined.metadata
    nodes = Nodes(metadata.image, config.inter_broker_listener_name, platform.broker_peers(config, "brokers"))
    platform.ends.callback(nodes.close)
    controller: Controller = joined.controller if migrating is None else migrating.controller
    registered: Registered = joined.registration if migrating is None else migrating.registration
    cluster = Cluster(controller, nodes, registered, security.authorizer)
    partitions = build_partitions(current, platform, kept, cluster, controller)
    coordinators = build_coordinators(current, platform, metadata.image, cluster, partitions.replicas, server)
    broker = ZooKeeperBroker(
        config, platform.scheduler, platform.rng, metadata.image, cluster, partitions, coordinators
    )
    replicas = partitions.replicas
    replicas.begin_without_metadata(metadata.image)
    joined.registration.watch_directories(lambda: kept.directories.failed_paths)
    requests = ControllerRequests(
        config.node_id,
        metadata.image,
        partial(_held, replicas),
        joined.registration.epoch,
        _no_epoch if migrating is None else migrating.lifecycle.epoch,
        partial(_every_replica, replicas),
    )
    broker.orders = Orders(requests, metadata, joined.configs.read_topics, partial(_delete_log, replicas), begin)
    joined.controller.write = _writer_of_configs(current, joined, begin)
    current.when_changed(broker.reconfigure)
    metadata.subscribe(broker.note)
    metadata.order(broker.follow)
    if migrating is not None:
        broker.orders.when_sender_changes(migrating.controller.look)
    return broker


def _writer_of_configs(
    current: CurrentConfig, joined: Joined, begin: Callable[[Any], object]
) -> Callable[[Any, Call, Callable[[Any], object]], bool]:
    writes = ConfigWrites(
        joined.client,
        joined.acls,
        joined.configs,
        joined.metadata.image,
        current.config.node_id,
        lambda: BrokerConfigRules(current.config),
        joined.encrypted.encoded,
    )

    async def alter(request: Any, call: Call, reply: Callable[[Any], object]) -> None:
        try:
            reply(await writes.alter(request, call.api_version))
        except NoAnswer as lost:
            code = error_codes.UNKNOWN_SERVER_ERROR  # as Kafka answers when its session expires meanwhile
            reply(failed_response(request, call.api_version, code, str(lost)))

    def write(request: Any, call: Call, reply: Callable[[Any], object]) -> bool:
        if call.api_key not in ALTERED:
            return False
        begin(alter(request, call, reply))
        return True

    return write


def _held(replicas: Replicas, topic: str, index: int) -> Held | None:
    held = replicas.topics.get(topic)
    replica = None if held is None else held.replicas.get(index)
    if held is None or replica is None:
        return None
    return Held(held.id, replica.partition.leader_epoch, replica.offline)


def _every_replica(replicas: Replicas) -> list[tuple[str, int]]:
    return [(name, index) for name, held in replicas.topics.items() for index in held.replicas]


def _delete_log(replicas: Replicas, topic: str, index: int) -> None:
    directories = replicas.directories
    found = directories.find(topic, index)
    if found is not None:
        directories.delete(found, 0)


def load(api_key: int) -> Any:
    """The handler module of an API. What only the controller does is refused like what is forwarded in KRaft mode."""
    if api_key in apis.ONLY_ON_THE_CONTROLLER:
        from kpybroker.handlers import forwarded

        return forwarded
    return handlers.load(api_key)


def served_versions() -> dict[int, tuple[int, int]]:
    """The versions of each API key on a listener in ZooKeeper mode."""
    return apis.versions(handlers.served_versions())


async def connected(client: Client, timeout_ms: float) -> Client:
    """The client, once its first session has a connection. Raises StartRefused."""
    from kpybroker.zookeeper.client.client import NotConnected

    client.open()
    try:
        await client.wait_until_connected(timeout_ms)
    except NotConnected as error:
        await client.close()
        raise StartRefused(str(error)) from None
    except asyncio.CancelledError:
        await client.close()
        raise
    return client
