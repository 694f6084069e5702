"""One node, in KRaft mode or in ZooKeeper mode: its parts are built here one after the other, started, and stopped.

`run` is the whole life of a process: read the directories, recover, take part in the cluster, and on SIGTERM or SIGINT
stop cleanly. `Node` is the same inside somebody else's loop, with no signals, limits, or garbage collector touched. Not
here: how the parts are made of each other (`kpybroker.node.assembly`), and what depends on the source of the metadata
(`kpybroker.node.assembly.metadata_source`).
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.own_configs import GROUP_READABLE, JSON_LOG, LOG_FORMAT
from kpybroker.config.stored import CurrentConfig
from kpybroker.hosts.quorum.host import QuorumHost
from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.monitoring.metrics.monitoring import Monitoring
from kpybroker.node.assembly.console import serve_pages
from kpybroker.node.assembly.kraft_source import KRaftSource
from kpybroker.node.assembly.limits import socket_limits
from kpybroker.node.assembly.metadata_source import MetadataSource, Opened, Parts, Roles
from kpybroker.node.assembly.platform import Platform, Simulated, platform_of
from kpybroker.node.assembly.ports import BoundPorts, listening_on, second_port
from kpybroker.node.assembly.quotas import follow_quotas
from kpybroker.node.assembly.replication import build_kept
from kpybroker.node.assembly.security import NodeSecurity, build_security, fetch_keys, read_keys
from kpybroker.node.assembly.storage import StoredNode, open_storage
from kpybroker.requests.broker import Broker
from kpybroker.requests.dispatching.dispatcher import Dispatcher
from kpybroker.requests.dispatching.served import Intercept
from kpybroker.requests.server.listener import Server
from kpybroker.runtime.io.allocator import keep_freed_memory
from kpybroker.runtime.io.collector import GarbageCollector
from kpybroker.runtime.io.event_loop import new_event_loop
from kpybroker.runtime.io.limits import descriptors_for_logs, raise_open_files
from kpybroker.runtime.io.scheduler import LoopScheduler
from kpybroker.runtime.io.signals import HANGUP, let_go_of_output, say, stopping_signals
from kpystorage.disk import Disk
from kpystorage.disk_errors import in_words
from kpystorage.errors import StorageError
from kpystorage.modes import GROUP, PRIVATE
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.errors import Malformed

if TYPE_CHECKING:
    from kpybroker.node.assembly.encryption import Encryption

log = logging.getLogger("kpybroker")

PROGRESS_EVERY_MS = 1_000


class Node:
    """A broker, a controller, or both, in one loop. `start`, then serve until `stop`.

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
        self._stored: StoredNode | None = None
        self._monitoring = Monitoring(config)
        self.source = _source_of(config, self.platform, simulated, self._monitoring.reached)
        """The source of the metadata."""
        self._progress_logged_ms = self.scheduler.monotonic_ms()

    @property
    def http_port(self) -> int | None:
        """The port where metrics are served; None if they are not."""
        return self._monitoring.port

    @property
    def quorum(self) -> QuorumHost | None:
        """This node's quorum; None before it was read from the disk, and in ZooKeeper mode."""
        return self.source.quorum

    @property
    def image(self) -> MetadataImage:
        """The committed metadata as this node knows them; available once it was started."""
        return self.source.image

    # Starting

    async def start(self, disk: Disk, opened: Callable[[], object] = lambda: None) -> None:
        """Start the node. When this returns it is ready for clients; ``opened`` is called as soon as the log
        directories are open.

        Raises StartRefused, StorageError or OSError with one clear line.
        """
        try:
            await self._start(disk, opened)
        except self.source.refusals as error:
            raise StartRefused(str(error)) from None

    async def _start(self, disk: Disk, opened: Callable[[], object]) -> None:
        platform, source, monitoring, limits = self.platform, self.source, self._monitoring, socket_limits(self.config)
        platform.ways.load_keys(self.config)
        platform.ends.callback(platform.ways.close)
        await platform.ways.fetch_tokens()
        self.encryption = read_keys(self.config, platform)
        token_checks = await fetch_keys(self.config, platform)
        await monitoring.listen(second_port(self.config, platform.scheduler, source.known_image))
        ports = BoundPorts()
        platform.ends.callback(ports.close)
        ports.bind(self.config.listeners, platform.sockets, limits.receive_buffer_bytes)  # before anything is written
        config = self.config = await source.connect(disk)
        stored = self._stored = await open_storage(
            config, disk, platform.secret_rng, platform.scheduler, self._recovering, source.identify
        )
        opened()
        kept = build_kept(config, platform, stored, disk) if config.is_broker else None
        parts_opened = Opened(stored, kept, ports.numbers)
        metadata = source.follow(parts_opened)
        current = CurrentConfig(config)
        metadata.subscribe(current.apply)
        current.when_changed(platform.ways.reconfigure)
        security = build_security(config, metadata, self.encryption, token_checks)
        current.when_changed(security.reconfigure)
        directories = None if kept is None else kept.directories
        server = self.server = Server(platform.loop, platform.scheduler, limits, directories, platform.sockets)
        current.when_changed(lambda changed: server.change_limits(socket_limits(changed)))
        roles = source.build(Parts(current, security, server, parts_opened, self._intercept))
        self.broker, clients = roles.broker, roles.clients
        if self.broker is not None:
            self.dispatcher = clients
            follow_quotas(config, platform.scheduler, clients, server, metadata)
        monitoring.show(roles.shown, server, roles.dispatchers, roles.balancer_standing)
        serve_pages(platform, monitoring, roles, server, metadata, stored)
        platform.ends.callback(server.close)
        self._listen(ports, security, server, roles)
        await source.join()
        monitoring.started()

    def _listen(self, ports: BoundPorts, security: NodeSecurity, server: Server, roles: Roles) -> None:
        for listener in self.config.listeners:
            serves = roles.controllers if listener in self.config.controller_listeners else roles.clients
            with listening_on(listener):
                dispatch, open_channel = security.guarded(listener, serves), security.channel_of(listener)
                self.ports[listener.name] = server.listen(
                    listener.name, ports[listener], dispatch, open_channel, listener.protocol
                )

    def _recovering(self, directory: str, done: int, total: int) -> None:
        """Report the progress of recovery, which may take long after a crash."""
        self._monitoring.reached(f"recovering {directory}: {done} of {total} logs are done")
        now_ms = self.scheduler.monotonic_ms()
        if now_ms - self._progress_logged_ms >= PROGRESS_EVERY_MS:
            self._progress_logged_ms = now_ms
            log.info("recovering %s: %d of %d logs", directory, done, total)

    # Stopping

    async def stop(self, *, controlled: bool = True) -> None:
        """Stop cleanly: give up leaderships, answer no more requests, flush, and record on disk that the stop was
        clean.

        A node that has failed is not ``controlled``: like Kafka's it does not wait for a controller's permission.
        """
        broker = self.broker
        if broker is not None:
            broker.replicas.checkpoint_high_watermarks()  # of those whose leadership ends before the last word
            await self.source.leave(controlled=controlled and self.config["controlled.shutdown.enable"])
        await self._let_go(leave=True)
        broker_epoch = self.source.finish()
        if broker is not None:
            broker.replicas.finish_dropping()
            broker.replicas.checkpoint_high_watermarks()
        if self._stored is not None:
            self._stored.close(broker_epoch)

    async def abandon(self) -> None:
        """Drop everything as it is, as if the process had died; only what the system would free is freed."""
        await self._let_go(leave=False)
        if self._stored is not None:
            self._stored.abandon()

    async def _let_go(self, *, leave: bool) -> None:
        """Serve no more requests and stop all work; the contents of the disk stay as they are."""
        self.platform.ends.close()
        await self.source.stop(leave=leave)
        await self._monitoring.stop()
        await self.scheduler.close()


def _source_of(
    config: BrokerConfig, platform: Platform, simulated: Simulated, reached: Callable[[str], object]
) -> MetadataSource:
    if not config.is_in_zookeeper_mode:
        return KRaftSource(config, platform, simulated, reached)
    from kpybroker.node.assembly.zookeeper_source import ZooKeeperSource  # not of a plain start

    return ZooKeeperSource(config, platform, simulated, reached)


def run(config: BrokerConfig, started: Callable[[Node], None] | None = None) -> int:
    """Run a node until it is stopped. Return the exit code of the process."""
    keep_freed_memory()
    loop = new_event_loop()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(_run(config, loop, started))
    finally:
        loop.close()


async def _run(config: BrokerConfig, loop: asyncio.AbstractEventLoop, started: Callable[[Node], None] | None) -> int:
    ended: asyncio.Future[str | None] = loop.create_future()

    def end(line: str | None) -> None:
        if not ended.done():
            ended.set_result(line)

    signals: list[int] = []

    def on_stop_signal(number: int) -> None:
        if number != HANGUP:
            signals.append(number)
        if len(signals) > 1:
            # A second signal: somebody does not want to wait; what was not flushed is recovered at the next start.
            os._exit(1)
        end(None)

    def take_signals() -> None:
        for number in stopping_signals():
            loop.add_signal_handler(number, on_stop_signal, number)

    node = Node(config, loop, end)
    collector = GarbageCollector(node.scheduler)
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
