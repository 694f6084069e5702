"""The client of a broker for ZooKeeper: its servers, its login, its TLS, and its first session."""

import asyncio
import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.hosts.zookeeper.broker.layout import DefaultAcls, make_path
from kpybroker.hosts.zookeeper.client.client import ZooKeeperClient, ZooKeeperNotConnected, ZooKeeperSettings
from kpybroker.machines.zookeeper.client.addresses import BadConnect, Servers, parse
from kpybroker.machines.zookeeper.client.java_options import most_request_bytes
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.zookeeper_login import zookeeper_login


def client_of(
    config: BrokerConfig,
    platform: Platform,
    simulated: Connect | None,
    *,
    in_chroot: bool = True,
    own: Mapping[str, Any] = MappingProxyType({}),
) -> ZooKeeperClient:
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
    settings = ZooKeeperSettings(servers, timeout_ms, in_flight, new_exchange, most_bytes)
    if login is not None:
        open_stream = login.prepared(open_stream)
    connect = simulated or connect_over(platform.loop, open_stream=open_stream)
    return ZooKeeperClient(platform.scheduler, connect, settings, platform.rng)


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
        await make_path(outside, DefaultAcls(is_secure=config["zookeeper.set.acl"]), chroot)
    finally:
        await outside.close()


def _shows_certificate(config: BrokerConfig) -> bool:
    return bool(config["zookeeper.ssl.client.enable"] and config["zookeeper.ssl.keystore.location"])


def _stream(config: BrokerConfig) -> Any:
    """The stream to ZooKeeper: plain, or with the TLS of ``zookeeper.ssl.*``."""
    from kpybroker.hosts.network.outgoing import plain_stream

    if not config["zookeeper.ssl.client.enable"]:
        return plain_stream
    from kpybroker.hosts.network.tls_stream import tls_stream
    from kpybroker.security.tls.contexts import client_context
    from kpybroker.security.tls.settings import TlsError, read_settings

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


async def connected(client: ZooKeeperClient, timeout_ms: float) -> ZooKeeperClient:
    """The client, once its first session has a connection. Raises StartRefused."""
    client.open()
    try:
        await client.wait_until_connected(timeout_ms)
    except ZooKeeperNotConnected as error:
        await client.close()
        raise StartRefused(str(error)) from None
    except asyncio.CancelledError:
        await client.close()
        raise
    return client
