"""The source of a node's metadata in KRaft mode: its quorum, of which it may be a voter."""

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.lifecycle import Lifecycle
from kpybroker.hosts.quorum.first_start import identify
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.machines.metadata.features import SUPPORTED_LEVELS
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.node.assembly.broker import build_broker, build_lifecycle, registration
from kpybroker.node.assembly.metadata_source import Opened, Parts, Roles, refuse_tiered_topics
from kpybroker.node.assembly.platform import Platform, Simulated
from kpybroker.node.assembly.quorum import QuorumParts, build_quorum
from kpybroker.requests import handlers
from kpybroker.requests.broker import Broker
from kpybroker.requests.controller_role import ControllerRole
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.disk import Disk
from kpystorage.session import NO_BROKER_EPOCH

if TYPE_CHECKING:
    from kpybroker.hosts.zookeeper.migration.migrating import Migrating
    from kpybroker.machines.balance.standing import BalancerStanding
    from kpybroker.node.assembly.balancer import FollowedBalancer

STOP_WAIT_MS: Final = 500
"""The time for which a node that is alone, or that knows of no controller, waits for permission to stop."""
CONTROLLED_SHUTDOWN_WAIT_MS: Final = 30_000
NO_CONTROLLER_WAIT_MS: Final = 2_000
"""The time of an election; the last node to stop finds no controller any more."""
STOP_STEP_MS: Final = 100


class LateBalancer:
    """The balancer of a controller's node. It is made when its mode is first another than ``off``."""

    def __init__(self, config: BrokerConfig, scheduler: Scheduler, quorum: QuorumHost) -> None:
        self._scheduler = scheduler
        self._quorum = quorum
        self._followed: FollowedBalancer | None = None
        self.reconfigure(config)

    @property
    def standing(self) -> "BalancerStanding | None":
        """The standing; None where it does not run."""
        return None if self._followed is None else self._followed.standing

    def reconfigure(self, config: BrokerConfig) -> None:
        """Follow another configuration."""
        if self._followed is not None:
            self._followed.reconfigure(config)
        elif config.is_balancing:
            from kpybroker.node.assembly.balancer import FollowedBalancer  # not of a plain start

            self._followed = FollowedBalancer(config, self._scheduler, self._quorum)

    def close(self) -> None:
        """End it."""
        if self._followed is not None:
            self._followed.close()


class KRaftSource:
    """A node's part in the quorum. A part is None until it is finished: a start can end at any stage."""

    refusals: tuple[type[Exception], ...] = ()
    identify = staticmethod(identify)

    def __init__(
        self, config: BrokerConfig, platform: Platform, simulated: Simulated, reached: Callable[[str], object]
    ) -> None:
        """``reached`` is called with each stage of the start."""
        self.migrating: Migrating | None = None
        self._config = config
        self._platform = platform
        self._simulated = simulated
        self._reached = reached
        self._opened: Opened | None = None
        self._quorum: QuorumParts | None = None
        self._parts: Parts | None = None
        self._lifecycle: Lifecycle | None = None
        self._broker: Broker | None = None

    @property
    def quorum(self) -> QuorumHost | None:
        """This node's quorum; None before it was read from the disk."""
        return None if self._quorum is None else self._quorum.host

    @property
    def image(self) -> MetadataImage:
        """The committed metadata as this node knows them; available once it was started."""
        assert self._quorum is not None
        return self._quorum.host.image

    def known_image(self) -> MetadataImage | None:
        """The committed metadata; None before there are any."""
        return None if self._quorum is None or self.image.next_offset == 0 else self.image

    async def connect(self, _disk: Disk) -> BrokerConfig:
        """Nothing is found out before the metadata log is read."""
        return self._config

    def follow(self, opened: Opened) -> QuorumHost:
        """The quorum with what the metadata log holds. Raises StartRefused, StorageError or OSError."""
        self._opened = opened
        self._quorum = build_quorum(self._config, self._platform, opened.stored)
        return self._quorum.host

    def build(self, parts: Parts) -> Roles:
        """The controller's role, and the broker if this node has one."""
        config, platform, quorum, (current, security, server, opened, intercept) = (
            self._config, self._platform, self._quorum, parts
        )  # fmt: skip
        assert quorum is not None
        self._parts = parts
        role = ControllerRole(config, platform.scheduler, quorum.host, SUPPORTED_LEVELS, security.authorizer)
        controllers = Dispatcher(role, handlers.load_for_controller, handlers.controller_versions())
        current.when_changed(role.reconfigure)
        balancer = None
        if config.is_controller:
            balancer = LateBalancer(config, platform.scheduler, quorum.host)
            current.when_changed(balancer.reconfigure)
            platform.ends.callback(balancer.close)
        if opened.kept is None:
            quorum.host.subscribe(role.apply)
            return Roles(None, role, controllers, controllers, balancer)
        request = registration(config, opened.stored, opened.ports, platform.rng)
        lifecycle = self._lifecycle = build_lifecycle(config, platform, request, quorum, opened.kept.directories)
        broker = self._broker = build_broker(current, platform, quorum, security, lifecycle, opened.kept, server)
        clients = Dispatcher(
            broker, handlers.load, handlers.served_versions(), intercept, counters=controllers.counters
        )
        return Roles(broker, broker, clients, controllers, balancer)

    async def join(self) -> None:
        """Catch up with what was committed, and register the broker. Listeners open as soon as others need them."""
        config, platform, quorum, parts = self._config, self._platform, self._quorum, self._parts
        assert quorum is not None
        assert parts is not None
        security, server = parts.security, parts.server
        if self._lifecycle is not None:
            self._lifecycle.limit()
            platform.ends.callback(self._lifecycle.close)
        self._reached("catching up with the metadata")
        server.start(security.starts_early(config))  # without them the other voters could form no quorum
        caught_up: asyncio.Future[None] = platform.loop.create_future()
        self._begin_migration(quorum)
        quorum.membership.start()
        quorum.host.start(lambda: _release(caught_up))
        await caught_up
        if self._broker is not None:
            refuse_tiered_topics(config, self.image)
        security.caught_up()
        is_plain = security.authorizer is None and all(each.protocol == "PLAINTEXT" for each in config.listeners)
        if self._broker is not None and not is_plain:
            from kpybroker.node.assembly.compared_authorizers import compare_authorizers  # not of a plain start

            compare_authorizers(config, platform, quorum.host, security.authorizer)
        server.start(config.controller_listener_names)
        if self._broker is not None and self._lifecycle is not None:
            self._reached("waiting for the controller to let this broker serve")
            ready: asyncio.Future[None] = platform.loop.create_future()
            self._lifecycle.start(lambda: _release(ready))
            await ready
            self._broker.start()
            platform.ends.callback(self._broker.stop)
        server.start()

    def _begin_migration(self, quorum: QuorumParts) -> None:
        """Begin the migration from ZooKeeper, if this controller is configured for it. Raises StartRefused."""
        if self._config.migrates_from_zookeeper:
            from kpybroker.node.assembly.migration import build_migration  # not of a plain start

            assert self._opened is not None
            stored = self._opened.stored
            self.migrating = build_migration(self._config, self._platform, self._simulated, quorum, stored)
            self.migrating.start()

    # Leaving

    async def leave(self, *, controlled: bool) -> None:
        """Do a controlled shutdown: others lead before this node is gone. Do not wait if no controller is left."""
        broker, lifecycle, parts = self._broker, self._lifecycle, self._parts
        if broker is None or lifecycle is None or parts is None:
            return
        is_alone = len(broker.image.brokers) <= 1
        if is_alone:
            parts.server.stop_accepting()
        if not controlled:
            return
        released: asyncio.Future[None] = self._platform.loop.create_future()
        lifecycle.stop(lambda: _release(released))
        wait_ms = STOP_WAIT_MS if is_alone else CONTROLLED_SHUTDOWN_WAIT_MS
        alone_ms = 0
        while wait_ms > 0 and alone_ms < NO_CONTROLLER_WAIT_MS and not released.done():
            await asyncio.wait((released,), timeout=STOP_STEP_MS / 1000)
            wait_ms -= STOP_STEP_MS
            alone_ms = 0 if self._knows_controller else alone_ms + STOP_STEP_MS

    @property
    def _knows_controller(self) -> bool:
        if self._quorum is None:
            return False
        quorum, channel, _ = self._quorum
        another = quorum.controller_id not in (-1, self._config.node_id)
        return quorum.is_active or (another and not channel.is_lost)

    async def stop(self, *, leave: bool) -> None:
        """End the migration. The parts have ended with the platform."""
        del leave
        if self.migrating is not None:
            await self.migrating.stop()

    def finish(self) -> int:
        """Write a snapshot that is due. Returns the epoch of the broker; -1 without one."""
        if self._quorum is not None:
            self._quorum.host.write_due_snapshot()
        return NO_BROKER_EPOCH if self._lifecycle is None else self._lifecycle.epoch()


def _release(released: asyncio.Future[None]) -> None:
    if not released.done():
        released.set_result(None)
