"""One broker in ZooKeeper mode: its parts are built here one after the other, started, and stopped in reverse.

The order is that of Kafka 3.9 (``KafkaServer.startup``): ZooKeeper, the id of the cluster, the log directories, the
registration; the controller's orders come after it. Not here: how the parts are made of each other
(`kpybroker.assembly.zookeeper`).
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from kpybroker.assembly import zookeeper
from kpybroker.assembly.console import serve_pages
from kpybroker.assembly.limits import socket_limits
from kpybroker.assembly.platform import Simulated, platform_of
from kpybroker.assembly.ports import BoundPorts, listening_on, second_port
from kpybroker.assembly.quotas import follow_quotas
from kpybroker.assembly.replication import build_kept
from kpybroker.assembly.security import Security, build_security, fetch_keys, read_keys
from kpybroker.assembly.storage import StoredNode, open_storage
from kpybroker.assembly.zookeeper import Joined, ZooKeeperBroker
from kpybroker.assembly.zookeeper_controller import Controlling, build_controller
from kpybroker.assembly.zookeeper_protection import ZooKeeperProtection, build_protection
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.stored import CurrentConfig
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.io.scheduler import LoopScheduler
from kpybroker.lifecycle import BrokerState
from kpybroker.metadata.image import MetadataImage
from kpybroker.metrics.monitoring import Monitoring
from kpybroker.quorum.recovery import StartRefused
from kpybroker.server.listener import Server
from kpybroker.zookeeper.broker import identity, layout
from kpybroker.zookeeper.broker.identity import IdentityRefused
from kpybroker.zookeeper.broker.metadata import ZooKeeperMetadata
from kpybroker.zookeeper.broker.registration import RegistrationRefused
from kpybroker.zookeeper.client.client import Client, NoAnswer, ZooKeeperError
from kpybroker.zookeeper.client.frames import WatchedEvent
from kpybroker.zookeeper.client.operations import GetChildren
from kpybroker.zookeeper.client.session import State
from kpybroker.zookeeper.controlling.office import Office
from kpybroker.zookeeper.tree import paths
from kpybroker.zookeeper.tree.contents import InvalidZnode
from kpystorage.disk import Disk
from kpystorage.session import NO_BROKER_EPOCH
from kpywire import error_codes
from kpywire.messages.controlled_shutdown import ControlledShutdownRequest

if TYPE_CHECKING:
    from kpybroker.assembly.migrating_broker import MigratingBroker

log = logging.getLogger("kpybroker")

FIRST_METADATA_WAIT_MS: Final = 5_000
"""A broker that has not heard of a controller by then has started all the same. One that has heard of brokers, and of
no topics by then, lists the brokers."""
MOST_WAIT_MS: Final = 30_000
"""The longest time of a controlled shutdown."""
NO_CONTROLLER_WAIT_MS: Final = 2_000
"""The time of an election, where no controller is known; the last broker to stop finds none any more."""


class ZooKeeperNode:
    """A broker in one loop. `start`, then serve until `stop`. A part is None until it is finished."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[str], None],
        *,
        scheduler: LoopScheduler | None = None,
        simulated: Simulated = Simulated(),  # noqa: B008 - a tuple of constants
    ) -> None:
        """``failed`` is called with one line if the node cannot go on. ``scheduler`` is another clock than the
        loop's."""
        self.config = config
        self.platform = platform_of(config, loop, scheduler, simulated, failed)
        self.scheduler: LoopScheduler = self.platform.scheduler
        self.ports: dict[str, int] = {}
        self.broker: ZooKeeperBroker | None = None
        self._simulated = simulated
        self._client: Client | None = None
        self._joined: Joined | None = None
        self._controlling: Controlling | None = None
        self._protection: ZooKeeperProtection | None = None
        self._stored: StoredNode | None = None
        self._migrating: MigratingBroker | None = None
        self._monitoring = Monitoring(config)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = self._knows_users = False
        self._looking = asyncio.Lock()

    @property
    def http_port(self) -> int | None:
        """The port where metrics are served; None if they are not."""
        return self._monitoring.port

    def _known_image(self) -> MetadataImage | None:
        """The metadata; None before the users are among them."""
        return self._joined.metadata.image if self._joined is not None and self._knows_users else None

    # Starting

    async def start(self, disk: Disk, opened: Callable[[], object] = lambda: None) -> None:
        """Start the broker. When this returns it is registered and serves. ``opened`` is called as soon as the log
        directories are open. Raises StartRefused, StorageError or OSError with one clear line."""
        try:
            await self._start(disk, opened)
        except (IdentityRefused, RegistrationRefused, InvalidZnode, ZooKeeperError, NoAnswer) as error:
            raise StartRefused(str(error)) from None

    async def _start(self, disk: Disk, opened: Callable[[], object]) -> None:
        platform, monitoring, limits = self.platform, self._monitoring, socket_limits(self.config)
        platform.ways.load_keys(self.config)
        platform.ends.callback(platform.ways.close)
        await platform.ways.fetch_tokens()
        encryption = read_keys(self.config, platform)
        token_checks = await fetch_keys(self.config, platform)
        await monitoring.listen(second_port(self.config, self.scheduler, self._known_image))
        ports = BoundPorts()
        platform.ends.callback(ports.close)
        ports.bind(self.config.listeners, platform.sockets, limits.receive_buffer_bytes)  # before anything is written
        monitoring.stage = "connecting to ZooKeeper"
        metadata = await self._join(disk)
        config = self.config
        if config.migrates_from_zookeeper:
            from kpybroker.assembly.migrating_broker import forget_metadata_log  # not of a plain start

            forget_metadata_log(disk, config.metadata_log_dir)
        stored = self._stored = await open_storage(
            config,
            disk,
            platform.secret_rng,
            platform.scheduler,
            self._recovering,
            zookeeper.identify_with(metadata.image.cluster_id),
        )
        opened()
        assert self._client is not None
        joined = self._joined = zookeeper.build_joined(config, platform, self._client, metadata, ports.numbers)
        current = CurrentConfig(config)
        metadata.subscribe(current.apply)
        current.when_changed(platform.ways.reconfigure)
        security = build_security(config, metadata, encryption, token_checks)
        current.when_changed(security.reconfigure)
        await joined.configs.read_brokers()
        kept = build_kept(config, platform, stored, disk)
        server = Server(platform.loop, platform.scheduler, limits, kept.directories, platform.sockets)
        current.when_changed(lambda changed: server.change_limits(socket_limits(changed)))
        controlling = self._controlling = build_controller(current, platform, joined, self._begin)
        joined.controller.control = controlling.take
        joined.controller.is_in_charge = lambda: controlling.office.controller.is_active
        if config.migrates_from_zookeeper:
            from kpybroker.assembly.migrating_broker import build_migrating  # not of a plain start

            self._migrating = build_migrating(
                config, platform, stored, joined, security, kept, ports.numbers, lambda: self._is_ruled
            )
        broker = self.broker = zookeeper.build_broker(
            current, platform, joined, security, kept, server, self._begin, self._migrating
        )
        clients = Dispatcher(broker, zookeeper.load, zookeeper.served_versions())
        follow_quotas(config, platform.scheduler, clients, server, metadata)
        office, connect = controlling.office, self._simulated.connect
        self._protection = build_protection(config, platform, joined, security, office, self._begin, connect)
        await self._protection.open()
        self._knows_users = True
        security.caught_up()
        monitoring.show_broker(broker, server, (clients,))
        serve_pages(platform, monitoring, broker, server, clients, stored.identity.cluster_id, disk)
        platform.ends.callback(server.close)
        self._listen(ports, security, server, clients)
        monitoring.stage = "registering in ZooKeeper"
        await self._register(joined, broker)
        if self._migrating is not None:
            self._migrating.start()
        server.start()
        await self._hear_of_cluster(joined, broker)
        monitoring.started()

    async def _join(self, disk: Disk) -> ZooKeeperMetadata:
        """Connect to ZooKeeper, and find out the ids of the cluster and of this broker."""
        config, connect = self.config, self._simulated.connect
        timeout_ms = zookeeper.connection_timeout_ms(config)
        acls = layout.Acls(is_secure=config["zookeeper.set.acl"])
        await zookeeper.make_chroot(config, self.platform, connect, timeout_ms)
        client = self._client = zookeeper.client_of(config, self.platform, connect)
        await zookeeper.connected(client, timeout_ms)
        await layout.make_top_level(client, acls)
        cluster_id = await layout.cluster_id(client, acls, self.platform.rng)
        log.info("Cluster ID = %s", cluster_id)
        stored_id = identity.stored_id(disk, config.log_dirs, cluster_id)
        broker_id = config["broker.id"]
        if broker_id < 0:
            if stored_id is None and not config["broker.id.generation.enable"]:
                raise StartRefused("broker.id is not set, and broker.id.generation.enable is false; set broker.id")
            broker_id = stored_id
            if broker_id is None:
                broker_id = await layout.generated_id(client, acls, config["reserved.broker.max.id"])
            self.config = config.with_broker_id(broker_id)
        elif stored_id not in (None, broker_id):
            raise StartRefused(
                f"Configured broker.id {broker_id} doesn't match stored broker.id {stored_id} in meta.properties. If "
                "you moved your data, make sure your configured broker.id matches. If you intend to create a new "
                "broker, you should remove all data in your data directories (log.dirs)."
            )
        return ZooKeeperMetadata(cluster_id)

    def _listen(self, ports: BoundPorts, security: Security, server: Server, clients: Dispatcher) -> None:
        for listener in self.config.listeners:
            with listening_on(listener):
                dispatch, open_channel = security.guarded(listener, clients), security.channel_of(listener)
                self.ports[listener.name] = server.listen(
                    listener.name, ports[listener], dispatch, open_channel, listener.protocol
                )

    async def _register(self, joined: Joined, broker: ZooKeeperBroker) -> None:
        """Register for the first time, and follow the session from now on."""
        client = joined.client
        await joined.registration.check_addresses()
        client.on_event = self._happened
        client.on_state = self._state_changed
        joined.features.look()
        await joined.registration.register()
        joined.known.look()
        self._office.look()
        await joined.configs.look()
        assert self._protection is not None
        await self._protection.look()
        broker.start()
        self.platform.ends.callback(broker.stop)

    async def _hear_of_cluster(self, joined: Joined, broker: ZooKeeperBroker) -> None:
        """Wait until the controller has sent metadata: a new controller sends the brokers first, and then the topics.
        Before that, clients see no brokers and ask again, also after this wait. One that saw brokers without a
        controller or without topics might wait for long, or give its topics up."""
        orders, heard = broker.orders, asyncio.Event()
        assert orders is not None
        has_topics, knows_brokers = True, False
        with suppress(NoAnswer):  # the next session begins meanwhile
            has_topics = bool((await joined.client.ask_until_answered(GetChildren(paths.TOPICS))).names)

        def know() -> None:
            broker.knows_cluster = True
            heard.set()

        def hear() -> None:
            nonlocal knows_brokers
            if not joined.metadata.image.brokers:
                return
            if orders.has_named_topics or not has_topics:
                know()
            elif not knows_brokers:
                knows_brokers = True
                self.scheduler.call_later(FIRST_METADATA_WAIT_MS, know)  # the topics may have been deleted meanwhile

        orders.when_done(hear)
        timer = self.scheduler.call_later(FIRST_METADATA_WAIT_MS, heard.set)
        hear()
        await heard.wait()
        timer.cancel()

    def _recovering(self, directory: str, done: int, total: int) -> None:
        self._monitoring.stage = f"recovering {directory}: {done} of {total} logs are done"

    # The session

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a task, and keep it until it is done."""

        def ended(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            if not task.cancelled() and task.exception() is not None:
                self.platform.failed(f"the work on ZooKeeper failed: {task.exception()!r}")

        task = self.platform.loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(ended)

    def _happened(self, event: WatchedEvent) -> None:
        joined = self._joined
        assert joined is not None
        if event.path == paths.CONTROLLER:
            joined.known.look()
        elif event.path == paths.FEATURES:
            joined.features.look()
        elif event.path == paths.CONFIG_CHANGES:
            self._begin(self._look(joined.configs.look))
        elif self._protection is not None and self._protection.follows(event.path):
            self._begin(self._look(self._protection.look))
        self._office.happened(event.path)

    @property
    def _is_ruled(self) -> bool:
        """Whether a KRaft controller, to which this cluster migrates, gives the orders."""
        broker = self.broker
        return broker is not None and broker.orders is not None and broker.orders.is_of_kraft

    @property
    def _office(self) -> Office:
        assert self._controlling is not None
        return self._controlling.office

    async def _look(self, look: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Handle new notices."""
        async with self._looking:
            try:
                await look()
            except NoAnswer:
                return  # the next session looks again
            except ZooKeeperError as error:
                log.error("Changes in ZooKeeper cannot be followed: %s", error)

    def _state_changed(self, state: State) -> None:
        joined = self._joined
        assert joined is not None
        if self._is_stopping:
            return
        if state is State.EXPIRED:
            joined.registration.lost()
            joined.known.forget()
            self._office.session_ended()
            joined.client.open()
            self._begin(self._begin_session(joined))
        elif state is State.REFUSED:
            self.platform.failed(f"ZooKeeper refuses the login: {joined.client.why}")

    async def _begin_session(self, joined: Joined) -> None:
        """Register again in a new session, and read what may have changed without an event."""
        try:
            await joined.registration.register()
            joined.features.look()
            joined.known.look()
            self._office.look()
            async with self._looking:
                await joined.configs.read_brokers()
                await joined.configs.read_topics(list(joined.metadata.image.topics))
                await joined.configs.look()
                if self._protection is not None:
                    await self._protection.begin()
        except NoAnswer:
            return  # this session has ended too, and the next one begins
        except (RegistrationRefused, ZooKeeperError) as error:
            self.platform.failed(str(error))

    # Stopping

    async def stop(self, *, controlled: bool = True) -> None:
        """Stop cleanly: give up leaderships, answer no more requests, flush, and leave ZooKeeper."""
        broker, joined = self.broker, self._joined
        if broker is not None and joined is not None:
            broker.replicas.checkpoint_high_watermarks()
            if controlled and self.config["controlled.shutdown.enable"]:
                has_none = joined.known.leader_endpoint is None and not self._is_ruled
                wait_ms = NO_CONTROLLER_WAIT_MS if has_none else MOST_WAIT_MS
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._let_leaderships_go(joined), wait_ms / 1000)
        await self._let_go(leave=True)
        if broker is not None:
            broker.replicas.finish_dropping()
            broker.replicas.checkpoint_high_watermarks()
        if self._stored is not None:
            self._stored.close(NO_BROKER_EPOCH)

    async def _let_leaderships_go(self, joined: Joined) -> None:
        """Ask the controller to move the leaderships of this broker away (ControlledShutdown)."""
        if self._is_ruled and self._migrating is not None:
            released: asyncio.Future[None] = self.platform.loop.create_future()
            joined.registration.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
            self._migrating.lifecycle.stop(lambda: None if released.done() else released.set_result(None))
            await released
            return
        registration, config = joined.registration, self.config
        if registration.broker_epoch < 0:
            return
        registration.state = BrokerState.PENDING_CONTROLLED_SHUTDOWN
        for attempt in range(config["controlled.shutdown.max.retries"]):
            if attempt:
                await asyncio.sleep(config["controlled.shutdown.retry.backoff.ms"] / 1000)
            request = ControlledShutdownRequest(broker_id=config.node_id, broker_epoch=registration.broker_epoch)
            response = await self._answer(joined, request)
            if response.error_code == error_codes.NONE and not response.remaining_partitions:
                log.info("Controlled shutdown request returned successfully after %d attempts", attempt + 1)
                return
            log.info(
                "The controlled shutdown is tried again: error %s, %d partitions are still led here",
                error_codes.name(response.error_code),
                len(response.remaining_partitions),
            )
        log.warning("Proceeding to do an unclean shutdown as all the controlled shutdown attempts failed")

    async def _answer(self, joined: Joined, request: Any) -> Any:
        """The controller's answer to a request of this broker."""
        answered: asyncio.Future[Any] = self.platform.loop.create_future()
        joined.controller.send(request, lambda response: None if answered.done() else answered.set_result(response))
        return await answered

    async def abandon(self) -> None:
        """Drop everything as it is, as if the process had died; only what the system would free is freed."""
        await self._let_go(leave=False)
        if self._stored is not None:
            self._stored.abandon()

    async def _let_go(self, *, leave: bool) -> None:
        """Serve no more requests and stop all work. ``leave`` ends the session, and the registration with it."""
        self._is_stopping = True
        self.platform.ends.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._protection is not None:
            await self._protection.close(leave=leave)
        if self._client is not None and leave:
            await self._client.close()
        await self._monitoring.stop()
        await self.scheduler.close()
