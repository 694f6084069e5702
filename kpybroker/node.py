"""One node: its parts are built here one after the other, started, and stopped in reverse.

`run` is the whole life of a broker process: read the directories, recover, lead the metadata log, register, serve,
and on SIGTERM or SIGINT stop cleanly. `Node` is the same inside somebody else's loop, with no signals, limits, or
garbage collector touched. Not here: how the parts are made of each other (`kpybroker.assembly`).
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from kpybroker import handlers
from kpybroker.assembly.broker import build_broker, build_lifecycle, registration
from kpybroker.assembly.console import serve_pages
from kpybroker.assembly.limits import socket_limits
from kpybroker.assembly.platform import Simulated, platform_of
from kpybroker.assembly.ports import BoundPorts, listening_on, second_port
from kpybroker.assembly.quorum import QuorumParts, build_quorum
from kpybroker.assembly.quotas import follow_quotas
from kpybroker.assembly.replication import build_kept
from kpybroker.assembly.security import Security, build_security, fetch_keys, read_keys
from kpybroker.assembly.storage import StoredNode, open_storage
from kpybroker.broker import Broker
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import GROUP_READABLE, JSON_LOG, LOG_FORMAT
from kpybroker.config.stored import CurrentConfig
from kpybroker.controller_role import ControllerRole
from kpybroker.dispatching.dispatcher import Dispatcher
from kpybroker.dispatching.served import Intercept
from kpybroker.io.allocator import keep_freed_memory
from kpybroker.io.collector import Collector
from kpybroker.io.event_loop import new_event_loop
from kpybroker.io.limits import descriptors_for_logs, raise_open_files
from kpybroker.io.scheduler import LoopScheduler
from kpybroker.io.signals import HANGUP, let_go_of_output, say, stopping_signals
from kpybroker.lifecycle import Lifecycle
from kpybroker.metadata.features import SUPPORTED_LEVELS
from kpybroker.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.metrics.monitoring import Monitoring
from kpybroker.quorum.host import QuorumHost
from kpybroker.quorum.recovery import StartRefused
from kpybroker.server.listener import Server
from kpystorage.disk import Disk
from kpystorage.disk_errors import in_words
from kpystorage.errors import StorageError
from kpystorage.modes import GROUP, PRIVATE
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpystorage.session import NO_BROKER_EPOCH
from kpywire.errors import Malformed

if TYPE_CHECKING:
    from kpybroker.assembly.encryption import Encryption
    from kpybroker.zookeeper.migrating.migrating import Migrating
    from kpybroker.zookeeper_node import ZooKeeperNode

    Started = Callable[["Node | ZooKeeperNode"], None]

log = logging.getLogger("kpybroker")

STOP_WAIT_MS = 500
"""The time for which a node that is alone, or that knows of no controller, waits for permission to stop."""
CONTROLLED_SHUTDOWN_WAIT_MS = 30_000
NO_CONTROLLER_WAIT_MS = 2_000
"""The time of an election; the last node to stop finds no controller any more."""
STOP_STEP_MS = 100
PROGRESS_EVERY_MS = 1_000


class Node:
    """A broker and controller in one loop. `start`, then serve until `stop`.

    A part is None until it is finished: a start can end at any stage.
    """

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[str], None],
        *,
        scheduler: LoopScheduler | None = None,
        intercept: Intercept | None = None,
        simulated: Simulated = Simulated(),  # noqa: B008 - a tuple of constants
    ) -> None:
        """``failed`` is called with one line if the node cannot go on.

        For brokers in tests: ``scheduler`` is another clock than the loop's, ``intercept`` stands before the handlers
        of clients' requests.
        """
        self.config = config
        self.platform = platform_of(config, loop, scheduler, simulated, failed)
        self.scheduler = self.platform.scheduler
        self.ports: dict[str, int] = {}
        self.broker: Broker | None = None
        """None on a node that is a controller only."""
        self.dispatcher: Dispatcher | None = None
        """The dispatcher of the broker's requests."""
        self.server: Server | None = None
        self.encryption: Encryption | None = None
        """The TLS of the listeners; None if none has it."""
        self._intercept = intercept
        self._simulated = simulated
        self._stored: StoredNode | None = None
        self._quorum_parts: QuorumParts | None = None
        self._lifecycle: Lifecycle | None = None
        self._migrating: Migrating | None = None
        self._monitoring = Monitoring(config)
        self._progress_said_ms = self.scheduler.monotonic_ms()

    @property
    def http_port(self) -> int | None:
        """The port where metrics are served; None if they are not."""
        return self._monitoring.port

    @property
    def quorum(self) -> QuorumHost | None:
        """This node's quorum; None before it was read from the disk."""
        return None if self._quorum_parts is None else self._quorum_parts.host

    @property
    def image(self) -> MetadataImage:
        """The committed metadata as this node knows them; available once it was started."""
        assert self.quorum is not None
        return self.quorum.image

    def _known_image(self) -> MetadataImage | None:
        """The committed metadata; None before there are any."""
        return None if self.quorum is None or self.quorum.image.next_offset == 0 else self.quorum.image

    # Starting

    async def start(self, disk: Disk, opened: Callable[[], object] = lambda: None) -> None:
        """Start the node. When this returns it is ready for clients; ``opened`` is called as soon as the log
        directories are open.

        Raises StartRefused, StorageError or OSError with one clear line.
        """
        config, platform, monitoring, limits = self.config, self.platform, self._monitoring, socket_limits(self.config)
        platform.ways.load_keys(config)
        platform.ends.callback(platform.ways.close)
        await platform.ways.fetch_tokens()
        self.encryption = read_keys(config, platform)
        token_checks = await fetch_keys(config, platform)
        await monitoring.listen(second_port(config, self.scheduler, self._known_image))
        ports = BoundPorts()
        platform.ends.callback(ports.close)
        ports.bind(config.listeners, platform.sockets, limits.receive_buffer_bytes)  # before anything is written
        stored = self._stored = await open_storage(
            config, disk, platform.secret_rng, platform.scheduler, self._recovering
        )
        opened()
        quorum = self._quorum_parts = build_quorum(config, platform, stored)
        current = CurrentConfig(config)
        quorum.host.subscribe(current.apply)
        current.when_changed(platform.ways.reconfigure)
        security = build_security(config, quorum.host, self.encryption, token_checks)
        current.when_changed(security.reconfigure)
        role = ControllerRole(config, platform.scheduler, quorum.host, SUPPORTED_LEVELS, security.authorizer)
        controllers = Dispatcher(role, handlers.load_for_controller, handlers.controller_versions())
        current.when_changed(role.reconfigure)
        kept = build_kept(config, platform, stored, disk) if config.is_broker else None
        directories = None if kept is None else kept.directories
        server = self.server = Server(platform.loop, platform.scheduler, limits, directories, platform.sockets)
        current.when_changed(lambda changed: server.change_limits(socket_limits(changed)))
        if kept is not None:
            request = registration(config, stored, ports.numbers, platform.rng)
            lifecycle = self._lifecycle = build_lifecycle(config, platform, request, quorum, kept.directories)
            broker = self.broker = build_broker(current, platform, quorum, security, lifecycle, kept, server)
            clients = self.dispatcher = Dispatcher(
                broker, handlers.load, handlers.served_versions(), self._intercept, counters=controllers.counters
            )
            follow_quotas(config, platform.scheduler, clients, server, quorum.host)
            monitoring.show_broker(broker, server, (clients, controllers))
        else:
            broker, clients = None, controllers
            quorum.host.subscribe(role.apply)
            monitoring.show_controller(role, server, controllers)
        serve_pages(platform, monitoring, broker or role, server, clients, stored.identity.cluster_id, disk)
        platform.ends.callback(server.close)
        self._listen(ports, security, server, controllers, clients)
        if self._lifecycle is not None:
            self._lifecycle.limit()
            platform.ends.callback(self._lifecycle.close)
        monitoring.stage = "catching up with the metadata"
        server.start(security.starts_early(config))  # without them the other voters could form no quorum
        caught_up: asyncio.Future[None] = platform.loop.create_future()
        self._begin_migration(quorum, stored)
        quorum.membership.start()
        quorum.host.start(lambda: _release(caught_up))
        await caught_up
        security.caught_up()
        is_plain = security.authorizer is None and all(each.protocol == "PLAINTEXT" for each in config.listeners)
        if broker is not None and not is_plain:
            from kpybroker.assembly.compared_authorizers import compare_authorizers  # not of a plain start

            compare_authorizers(config, platform, quorum.host, security.authorizer)
        server.start(config.controller_listener_names)
        if broker is not None and self._lifecycle is not None:
            monitoring.stage = "waiting for the controller to let this broker serve"
            await self._join(broker, self._lifecycle)
        server.start()
        monitoring.started()

    def _listen(
        self, ports: BoundPorts, security: Security, server: Server, controllers: Dispatcher, clients: Dispatcher
    ) -> None:
        for listener in self.config.listeners:
            serves = controllers if listener in self.config.controller_listeners else clients
            with listening_on(listener):
                dispatch, open_channel = security.guarded(listener, serves), security.channel_of(listener)
                self.ports[listener.name] = server.listen(
                    listener.name, ports[listener], dispatch, open_channel, listener.protocol
                )

    def _begin_migration(self, quorum: QuorumParts, stored: StoredNode) -> None:
        """Begin the migration from ZooKeeper, if this controller is configured for it. Raises StartRefused."""
        if self.config.migrates_from_zookeeper:
            from kpybroker.assembly.migration import build_migration  # not of a plain start

            self._migrating = build_migration(self.config, self.platform, self._simulated, quorum, stored)
            self._migrating.start()

    def _recovering(self, directory: str, done: int, total: int) -> None:
        """Report the progress of recovery, which may take long after a crash."""
        self._monitoring.stage = f"recovering {directory}: {done} of {total} logs are done"
        now_ms = self.scheduler.monotonic_ms()
        if now_ms - self._progress_said_ms >= PROGRESS_EVERY_MS:
            self._progress_said_ms = now_ms
            log.info("recovering %s: %d of %d logs", directory, done, total)

    async def _join(self, broker: Broker, lifecycle: Lifecycle) -> None:
        """Register the broker in the cluster, and start its background work."""
        ready: asyncio.Future[None] = self.platform.loop.create_future()
        lifecycle.start(lambda: _release(ready))
        await ready
        broker.start()
        self.platform.ends.callback(broker.stop)

    # Stopping

    async def stop(self, *, controlled: bool = True) -> None:
        """Stop cleanly: give up leaderships, answer no more requests, flush, and record on disk that the stop was
        clean.

        A node that has failed is not ``controlled``: like Kafka's it does not wait for a controller's permission.
        """
        broker = self.broker
        if broker is not None and self.server is not None:
            if len(broker.image.brokers) <= 1:
                self.server.stop_accepting()
            broker.replicas.checkpoint_high_watermarks()  # of those whose leadership ends before the last word
            if controlled and self.config["controlled.shutdown.enable"] and self._lifecycle is not None:
                await self._let_leaderships_go(broker, self._lifecycle)
        await self._let_go()
        if self.quorum is not None:
            self.quorum.write_due_snapshot()
        if broker is not None:
            broker.replicas.finish_dropping()
            broker.replicas.checkpoint_high_watermarks()
        if self._stored is not None:
            self._stored.close(NO_BROKER_EPOCH if broker is None else broker.lifecycle.epoch())

    async def _let_leaderships_go(self, broker: Broker, lifecycle: Lifecycle) -> None:
        """Do a controlled shutdown: others lead before this node is gone. Do not wait if no controller is left."""
        released: asyncio.Future[None] = self.platform.loop.create_future()
        lifecycle.stop(lambda: _release(released))
        wait_ms = STOP_WAIT_MS if len(broker.image.brokers) <= 1 else CONTROLLED_SHUTDOWN_WAIT_MS
        alone_ms = 0
        while wait_ms > 0 and alone_ms < NO_CONTROLLER_WAIT_MS and not released.done():
            await asyncio.wait((released,), timeout=STOP_STEP_MS / 1000)
            wait_ms -= STOP_STEP_MS
            alone_ms = 0 if self._knows_controller else alone_ms + STOP_STEP_MS

    @property
    def _knows_controller(self) -> bool:
        if self._quorum_parts is None:
            return False
        quorum, channel, _ = self._quorum_parts
        another = quorum.controller_id not in (-1, self.config.node_id)
        return quorum.is_active or (another and not channel.is_lost)

    async def abandon(self) -> None:
        """Drop everything as it is, as if the process had died; only what the system would free is freed."""
        await self._let_go()
        if self._stored is not None:
            self._stored.abandon()

    async def _let_go(self) -> None:
        """Serve no more requests and stop all work; the contents of the disk stay as they are."""
        if self._migrating is not None:
            await self._migrating.stop()
        self.platform.ends.close()
        await self._monitoring.stop()
        await self.scheduler.close()


def _release(released: asyncio.Future[None]) -> None:
    if not released.done():
        released.set_result(None)


def run(config: BrokerConfig, started: "Started | None" = None) -> int:
    """Run a node until it is stopped. Return the exit code of the process."""
    keep_freed_memory()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_run(config, loop, started))
    finally:
        loop.close()


async def _run(config: BrokerConfig, loop: asyncio.AbstractEventLoop, started: "Started | None") -> int:
    ended: asyncio.Future[str | None] = loop.create_future()

    def end(line: str | None) -> None:
        if not ended.done():
            ended.set_result(line)

    told: list[int] = []

    def told_to_stop(number: int) -> None:
        if number != HANGUP:
            told.append(number)
        if len(told) > 1:
            # A second signal: somebody does not want to wait; what was not flushed is recovered at the next start.
            os._exit(1)
        end(None)

    def take_signals() -> None:
        for number in stopping_signals():
            loop.add_signal_handler(number, told_to_stop, number)

    if config.is_in_zookeeper_mode:
        from kpybroker.zookeeper_node import ZooKeeperNode  # not of a plain start

        node: Node | ZooKeeperNode = ZooKeeperNode(config, loop, end)
    else:
        node = Node(config, loop, end)
    collector = Collector(node.scheduler)
    collector.start()
    modes = GROUP if config[GROUP_READABLE] else PRIVATE
    disk = RealDisk(Descriptors(descriptors_for_logs(raise_open_files()), modes))
    # Until the directories are open, which takes long after a crash, a signal just ends the process: nothing is lost.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    starting = loop.create_task(node.start(disk, take_signals))
    refusal: str | None = None
    try:
        # Whatever ends the node may come while it starts.
        await asyncio.wait((starting, ended), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            if started is not None:
                started(node)
        refusal = await ended
    except (StartRefused, StorageError, InvalidMetadata, Malformed, OSError) as error:
        refusal = in_words(error) if isinstance(error, OSError) else str(error)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    collector.stop()
    await node.stop(controlled=refusal is None)
    if refusal is None:
        log.info("This node has stopped")
    elif config[LOG_FORMAT] == JSON_LOG:
        log.error("%s", refusal)
    else:
        say(f"kpybroker: {refusal}")
    let_go_of_output()
    return 0 if refusal is None else 1
