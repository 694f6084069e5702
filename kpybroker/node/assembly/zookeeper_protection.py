"""The protection of a broker in ZooKeeper mode, made of its parts."""

from collections.abc import Mapping
from typing import Any

from kpybroker.config.authorizer_configs import AUTHORIZER, of_own_zookeeper
from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.peer import Connect
from kpybroker.hosts.zookeeper.broker.client_writes import ClientWrites
from kpybroker.hosts.zookeeper.broker.followed_acls import AclSession, FollowedAcls
from kpybroker.hosts.zookeeper.broker.followed_tokens import FollowedTokens
from kpybroker.hosts.zookeeper.broker.protection import ZooKeeperProtection
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.machines.controller.state import TokenSettings
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.quorum import token_settings
from kpybroker.node.assembly.zookeeper_client import client_of, connected, connection_timeout_ms, make_chroot
from kpybroker.node.assembly.zookeeper_controller import Controlling
from kpybroker.runtime.io.recurring import Recurring


def build_protection(
    config: BrokerConfig,
    platform: Platform,
    joined: ClusterParts,
    controlling: Controlling,
    begin: Begin,
    simulated: Connect | None,
) -> ZooKeeperProtection:
    """The protection of a broker."""
    settings = token_settings(config)
    tokens = None if settings is None else _tokens(platform, joined, settings)
    acls = _acls(config, platform, joined, begin, simulated) if config[AUTHORIZER] else None
    writes = ClientWrites(joined.client, joined.acls, joined.clients.read)
    controller = controlling.event_queue.controller
    protection = ZooKeeperProtection(joined.clients, writes, tokens, acls, lambda: controller.is_active)
    if tokens is not None:
        interval_ms = config["delegation.token.expiry.check.interval.ms"]
        sweeps = Recurring(platform.scheduler, interval_ms, lambda: begin(protection.sweep()))
        platform.ends.callback(sweeps.stop)
    return protection


def _tokens(platform: Platform, joined: ClusterParts, settings: TokenSettings) -> FollowedTokens:
    metadata, scheduler = joined.metadata, platform.scheduler
    return FollowedTokens(
        joined.client, joined.acls, metadata.image, settings, scheduler.now_ms, platform.rng, metadata.apply
    )


def _acls(
    config: BrokerConfig, platform: Platform, joined: ClusterParts, begin: Begin, simulated: Connect | None
) -> AclSession:
    own = _connection_of(of_own_zookeeper(config.originals))
    client = client_of(config, platform, simulated, own=own)
    acls = FollowedAcls(client, joined.acls, platform.scheduler.now_ms, platform.rng, joined.metadata.apply)
    timeout_ms = own.get("zookeeper.connection.timeout.ms", connection_timeout_ms(config))

    async def connect() -> None:
        await make_chroot(config, platform, simulated, timeout_ms, own)
        await connected(client, timeout_ms)

    return AclSession(client, acls, connect, begin, platform.failed)


def _connection_of(own: Mapping[str, Any]) -> dict[str, Any]:
    """The configs of the broker's connection to ZooKeeper that the authorizer has otherwise."""
    names = {"url": "zookeeper.connect"}
    return {names.get(name, f"zookeeper.{name}"): value for name, value in own.items()}
