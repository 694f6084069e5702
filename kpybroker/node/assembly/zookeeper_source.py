"""The source of a node's metadata in ZooKeeper mode: ZooKeeper, and the orders of the controller among its brokers.

The order is that of Kafka 3.9 (``KafkaServer.startup``): ZooKeeper, the id of the cluster, the log directories, the
registration; the controller's orders come after it.
"""

import asyncio
import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.zookeeper.broker import identity, layout
from kpybroker.hosts.zookeeper.broker.identity import IdentityRefused
from kpybroker.hosts.zookeeper.broker.known_controller import ZooKeeperController
from kpybroker.hosts.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.hosts.zookeeper.broker.protection import ZooKeeperProtection
from kpybroker.hosts.zookeeper.broker.registration import RegistrationRefused
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts, ZooKeeperSessions
from kpybroker.hosts.zookeeper.broker.tasks import Tasks
from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient, ZooKeeperError
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.node.assembly.metadata_source import Opened, Parts, Roles, refuse_tiered_topics
from kpybroker.node.assembly.migrating_broker import MigratingBroker, build_migrating, forget_metadata_log
from kpybroker.node.assembly.platform import Platform, Simulated
from kpybroker.node.assembly.storage import Identify
from kpybroker.node.assembly.zookeeper import build_joined, identify_with
from kpybroker.node.assembly.zookeeper_broker import (
    Allegiance,
    ZooKeeperBroker,
    build_broker,
    build_way,
    load,
    served_versions,
)
from kpybroker.node.assembly.zookeeper_client import client_of, connected, connection_timeout_ms, make_chroot
from kpybroker.node.assembly.zookeeper_controller import Controlling, build_controller
from kpybroker.node.assembly.zookeeper_protection import build_protection
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpystorage.disk import Disk
from kpystorage.session import NO_BROKER_EPOCH

log = logging.getLogger("kpybroker")

MOST_WAIT_MS: Final = 30_000
"""The longest time of a controlled shutdown."""
NO_CONTROLLER_WAIT_MS: Final = 2_000
"""The time of an election, where no controller is known; the last broker to stop finds none any more."""
_NO_EPOCH: Final = -1


class Built(NamedTuple):
    """The parts of a broker."""

    parts: Parts
    controlling: Controlling
    protection: ZooKeeperProtection
    way: ZooKeeperController
    broker: ZooKeeperBroker
    sessions: ZooKeeperSessions
    migrating: MigratingBroker | None


class ZooKeeperSource:
    """A broker's part in a cluster. A part is None until it is finished: a start can end at any stage."""

    refusals: tuple[type[Exception], ...] = (
        IdentityRefused,
        RegistrationRefused,
        InvalidZnode,
        ZooKeeperError,
        NoAnswer,
    )
    quorum = None
    """ZooKeeper mode has none."""

    def __init__(
        self, config: BrokerConfig, platform: Platform, simulated: Simulated, reached: Callable[[str], object]
    ) -> None:
        """``reached`` is called with each stage of the start."""
        self.client: ZooKeeperClient | None = None
        self.joined: ClusterParts | None = None
        self.built: Built | None = None
        self._config = config
        self._platform = platform
        self._connect = simulated.connect
        self._reached = reached
        self._metadata: ZooKeeperMetadata | None = None
        self._knows_users = False
        self._tasks = Tasks(platform.loop, platform.failed)

    @property
    def image(self) -> MetadataImage:
        """The metadata as this broker knows them; available once it was started."""
        assert self._metadata is not None
        return self._metadata.image

    def known_image(self) -> MetadataImage | None:
        """The metadata; None before the users are among them."""
        return self.image if self._knows_users else None

    async def connect(self, disk: Disk) -> BrokerConfig:
        """Connect to ZooKeeper, and find out the ids of the cluster and of this broker."""
        config, platform = self._config, self._platform
        self._reached("connecting to ZooKeeper")
        timeout_ms = connection_timeout_ms(config)
        acls = layout.DefaultAcls(is_secure=config["zookeeper.set.acl"])
        await make_chroot(config, platform, self._connect, timeout_ms)
        client = self.client = client_of(config, platform, self._connect)
        await connected(client, timeout_ms)
        await layout.make_top_level(client, acls)
        cluster_id = await layout.cluster_id(client, acls, platform.rng)
        log.info("Cluster ID = %s", cluster_id)
        found = identity.stored_id(disk, config.log_dirs, cluster_id)
        most = config["reserved.broker.max.id"] if config["broker.id.generation.enable"] else None
        broker_id = await identity.own_id(found, config["broker.id"], most, partial(layout.generated_id, client, acls))
        if config["broker.id"] < 0:
            self._config = config.with_broker_id(broker_id)
        self._metadata = ZooKeeperMetadata(cluster_id)
        if config.migrates_from_zookeeper:
            forget_metadata_log(disk, config.metadata_log_dir)
        return self._config

    @property
    def identify(self) -> Identify:
        """Finds out to which broker log directories belong."""
        return identify_with(self.image.cluster_id)

    def follow(self, opened: Opened) -> ZooKeeperMetadata:
        """The metadata. The parts that follow them are ready."""
        assert self.client is not None
        assert self._metadata is not None
        assert opened.kept is not None, "there are no controllers alone"
        self.joined = build_joined(self._config, self._platform, self.client, self._metadata, opened.kept, opened.ports)
        return self._metadata

    def build(self, parts: Parts) -> Roles:
        """The broker."""
        config, platform, joined, begin = parts.current.config, self._platform, self.joined, self._tasks.begin
        assert joined is not None
        controlling = build_controller(parts.current, platform, joined, begin)
        protection = build_protection(config, platform, joined, controlling, begin, self._connect)
        way = build_way(parts, joined, controlling, protection, begin)
        migrating = build_migrating(config, platform, parts, joined, way) if config.migrates_from_zookeeper else None
        allegiance = Allegiance(way, joined.registration, lambda: _NO_EPOCH, lambda: None)
        broker = build_broker(platform, parts, joined, allegiance if migrating is None else migrating.allegiance, begin)
        event_queue = controlling.event_queue
        sessions = ZooKeeperSessions(joined, event_queue, protection, begin, platform.failed)
        self.built = Built(parts, controlling, protection, way, broker, sessions, migrating)
        clients = Dispatcher(broker, load, served_versions(), parts.intercept)
        return Roles(broker, broker, clients, clients)

    async def join(self) -> None:
        """Read what clients need, register, and wait for the metadata of the controller, which come by a listener."""
        joined, built = self.joined, self.built
        assert joined is not None
        assert built is not None
        await joined.configs.read_brokers()
        await built.protection.open()
        self._knows_users = True
        built.parts.security.caught_up()
        self._reached("registering in ZooKeeper")
        await built.sessions.start()
        built.broker.start()
        self._platform.ends.callback(built.broker.stop)
        if built.migrating is not None:
            built.migrating.start()
        built.parts.server.start()
        await built.broker.first_metadata.wait()
        refuse_tiered_topics(self._config, self.image)

    # Leaving

    async def leave(self, *, controlled: bool) -> None:
        """Have the controller that rules move the leaderships of this broker away."""
        joined, built = self.joined, self.built
        if joined is None or built is None or not controlled:
            return
        has_none = joined.known.leader_endpoint is None and not joined.ruler.is_of_kraft
        wait_ms = NO_CONTROLLER_WAIT_MS if has_none else MOST_WAIT_MS
        with suppress(TimeoutError):
            await asyncio.wait_for(self._let_leaderships_go(joined, built), wait_ms / 1000)

    async def _let_leaderships_go(self, joined: ClusterParts, built: Built) -> None:
        if joined.ruler.is_of_kraft and built.migrating is not None:
            released: asyncio.Future[None] = self._platform.loop.create_future()
            joined.registration.leaving()
            built.migrating.lifecycle.stop(lambda: None if released.done() else released.set_result(None))
            await released
            return
        most = self._config["controlled.shutdown.max.retries"]
        backoff_ms = self._config["controlled.shutdown.retry.backoff.ms"]
        await joined.registration.let_leaderships_go(partial(self._ask, built.way), most, backoff_ms)

    async def _ask(self, way: ZooKeeperController, request: Any) -> Any:
        """The controller's answer to a request of this broker."""
        answered: asyncio.Future[Any] = self._platform.loop.create_future()
        way.send(request, lambda response: None if answered.done() else answered.set_result(response))
        return await answered

    async def stop(self, *, leave: bool) -> None:
        """End all work. ``leave`` ends the session, and the registration with it."""
        if self.built is not None:
            self.built.sessions.stop()
        await self._tasks.end()
        if self.built is not None:
            await self.built.protection.close(leave=leave)
        if self.client is not None and leave:
            await self.client.close()

    def finish(self) -> int:
        """Nothing is due. Directories note no epoch."""
        return NO_BROKER_EPOCH
