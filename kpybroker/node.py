"""One node: the only place that builds the parts and puts them together.

`run` is the whole life of a broker process: read the directories, recover, lead the metadata log, register, serve,
and on SIGTERM or SIGINT stop cleanly. `Node` is the same inside somebody else's loop, with no signals, limits, or
garbage collector touched.
"""

import asyncio
import logging
import os
import random
import signal
import socket
import sys
from collections.abc import Callable

from kpybroker import handlers
from kpybroker.broker import Broker, cordoned_paths
from kpybroker.config.broker import BrokerConfig
from kpybroker.config.endpoints import Listener as ConfiguredListener
from kpybroker.config.stored import CurrentConfig
from kpybroker.config.topic import effective
from kpybroker.controller.broker_config_rules import BrokerConfigRules
from kpybroker.controller.channel import ControllerChannel
from kpybroker.controller.host import ControllerHost, Identity, Timings
from kpybroker.controller.metadata_log import MetadataLog
from kpybroker.controller.recovery import StartRefused
from kpybroker.controller.snapshotting import SnapshotPolicy
from kpybroker.controller.state import Settings
from kpybroker.controller_role import ControllerRole
from kpybroker.dispatch import Dispatcher, Intercept
from kpybroker.hosting.groups import group_coordinator
from kpybroker.hosting.marker_writer import MarkerWriter
from kpybroker.hosting.markers import Markers
from kpybroker.hosting.markers_elsewhere import MarkersElsewhere
from kpybroker.hosting.transactions import transaction_coordinator
from kpybroker.hosting.transactions_elsewhere import TransactionsElsewhere
from kpybroker.io.allocator import keep_freed_memory
from kpybroker.io.collector import Collector
from kpybroker.io.event_loop import new_event_loop
from kpybroker.io.limits import (
    descriptors_for_connections,
    descriptors_for_logs,
    descriptors_for_replies,
    open_files,
    raise_open_files,
)
from kpybroker.io.machine import name_of_this_machine
from kpybroker.io.scheduler import LoopScheduler
from kpybroker.lifecycle import Lifecycle
from kpybroker.metadata.features import SUPPORTED, TRANSACTION_VERSION
from kpybroker.metadata.image import InvalidMetadata, MetadataImage
from kpybroker.metrics.monitoring import Monitoring
from kpybroker.network.nodes import Nodes
from kpybroker.network.peer import Connect
from kpybroker.network.peers import Peers, connect_over
from kpybroker.network.setup import TimedConnect
from kpybroker.producer_ids import ProducerIds
from kpybroker.raft.timing import Timing, longest_fetch_wait_ms
from kpybroker.replicas.assignments import Assignments
from kpybroker.replicas.cleaners import Processes, Threads
from kpybroker.replicas.compaction import Compaction
from kpybroker.replicas.directories import Directories
from kpybroker.replicas.fetchers import Fetchers
from kpybroker.replicas.in_sync import InSyncKeeper
from kpybroker.replicas.leader_throttle import LeaderThrottle
from kpybroker.replicas.moves import Moves
from kpybroker.replicas.replicas import Replicas
from kpybroker.replicas.upkeep import Upkeep
from kpybroker.server.connection_quotas import ConnectionLimits
from kpybroker.server.frames import Dispatch
from kpybroker.server.listener import Server, SocketLimits
from kpybroker.server.system_sockets import SYSTEM_SOCKETS, Sockets
from kpybroker.storage_start import StoredNode, open_storage
from kpystorage.disk import Disk
from kpystorage.errors import StorageError
from kpystorage.real_disk import Descriptors, RealDisk
from kpywire.errors import Malformed
from kpywire.messages.broker_registration import BrokerRegistrationRequest, Feature, Listener

log = logging.getLogger("kpybroker")

DEFAULT_REQUEST_MEMORY_BYTES = 512 * 1024 * 1024
DEFAULT_BACKLOG = 1024
"""Kafka's 50 is filled by one Spark job that starts; who is not in it tries again a second later."""
DEFAULT_SEND_BUFFER_BYTES = 200 * 1024
"""With half of it, Kafka's default, there are twice as many wakes for the same records; of megabytes much is no longer
in the processor's cache when the client receives it."""
STOP_WAIT_MS = 500
"""What a node that is alone, or that knows of no controller, waits for leave to stop."""
CONTROLLED_SHUTDOWN_WAIT_MS = 30_000
NO_CONTROLLER_WAIT_MS = 2_000
"""The time of an election; who stops last finds nobody any more."""
STOP_STEP_MS = 100
SUPPORTED_LEVELS = {name: (levels.lowest, levels.highest) for name, levels in SUPPORTED.items()}
PROGRESS_EVERY_MS = 1_000


class Node:
    """A broker and controller in one loop. `start`, then serve until `stop`."""

    def __init__(
        self,
        config: BrokerConfig,
        loop: asyncio.AbstractEventLoop,
        failed: Callable[[str], None],
        *,
        scheduler: LoopScheduler | None = None,
        intercept: Intercept | None = None,
        connect: Connect | None = None,
        sockets: Sockets = SYSTEM_SOCKETS,
        rng: random.Random | None = None,
    ) -> None:
        """``failed`` is called with one line if the node cannot go on.

        For brokers in tests: ``scheduler`` is another clock than the loop's, ``intercept`` stands before the handlers
        of clients' requests. ``connect``, ``sockets`` and ``rng`` are for simulations.
        """
        self.config = config
        self.loop = loop
        self.failed = failed
        self.scheduler = LoopScheduler(loop) if scheduler is None else scheduler
        self._intercept = intercept
        self.rng = random.Random(random.SystemRandom().getrandbits(128)) if rng is None else rng
        self._sockets = sockets
        self._connect = self._in_time(connect_over(loop) if connect is None else connect)
        buffer_bytes = _asked(config, "replica.socket.receive.buffer.bytes")
        self._connect_fetchers = self._in_time(connect_over(loop, buffer_bytes) if connect is None else connect)
        self.ports: dict[str, int] = {}
        self.broker: Broker | None = None
        """None on a node that is a controller only."""
        self.server: Server | None = None
        self._stored: StoredNode | None = None
        self._replica: ControllerHost | None = None
        self._channel: ControllerChannel | None = None
        self._monitoring = Monitoring(config)
        self._ends: list[Callable[[], object]] = []
        """How to end what was built, in the order of its building."""
        self._progress_said_ms = self.scheduler.monotonic_ms()

    @property
    def http_port(self) -> int | None:
        """Where metrics are served; None for nowhere."""
        return self._monitoring.port

    @property
    def image(self) -> MetadataImage:
        """The committed metadata as this node knows them; only of a node that was started."""
        assert self._replica is not None
        return self._replica.image

    # Starting

    async def start(self, disk: Disk, opened: Callable[[], object] = lambda: None) -> None:
        """Ready for clients when this returns; ``opened`` is called as soon as the log directories are.

        Raises StartRefused, StorageError or OSError with one clear line.
        """
        config, monitoring = self.config, self._monitoring
        await monitoring.listen()
        stored = self._stored = await open_storage(config, disk, self.rng, self.scheduler, self._recovering)
        opened()
        replica = self._replica = self._build_replica(stored)
        self._ends.append(replica.close)
        channel = self._channel = self._build_channel(replica, "controller", config["broker.session.timeout.ms"])
        replica.register_through(channel.send)
        current = CurrentConfig(config)
        replica.subscribe(current.apply)
        role = ControllerRole(config, self.scheduler, replica, SUPPORTED_LEVELS)
        current.when_changed(role.reconfigure)
        controllers = Dispatcher(role, handlers.load_for_controller, handlers.controller_versions())
        current.when_changed(self._change_limits)
        limits = socket_limits(config)
        if config.is_broker:
            broker = self.broker = self._build_broker(stored, replica, channel, disk)
            broker.dispatcher = Dispatcher(
                broker, handlers.load, handlers.served_versions(), self._intercept, counters=controllers.counters
            )
            writes = broker.replicas.directories
            server = broker.server = Server(self.loop, self.scheduler, broker.dispatcher, limits, writes, self._sockets)
            current.when_changed(broker.reconfigure)
            replica.subscribe(broker.apply)
        else:
            server = Server(self.loop, self.scheduler, controllers, limits, sockets=self._sockets)
            replica.subscribe(role.apply)
        self.server = server
        self._ends.append(server.close)
        for listener in config.listeners:
            serves = controllers if listener in config.controller_listeners else server.dispatch
            self.ports[listener.name] = _listen(server, listener, serves)
        if self.broker is None:
            monitoring.show_controller(role, server, controllers)
        else:
            self._expect_registration(self.broker, stored)
            monitoring.show_broker(self.broker, (self.broker.dispatcher, controllers))
        monitoring.stage = "catching up with the metadata"
        server.start(config.controller_listener_names)  # without them the other voters could form no quorum
        caught_up: asyncio.Future[None] = self.loop.create_future()
        replica.start(lambda: _release(caught_up))
        await caught_up
        if self.broker is not None:
            monitoring.stage = "waiting for the controller to let this broker serve"
            await self._join(self.broker)
        server.start()
        monitoring.started()

    def _recovering(self, directory: str, done: int, total: int) -> None:
        """Recovery after a crash may take long: say how far it is."""
        self._monitoring.stage = f"recovering {directory}: {done} of {total} logs are done"
        now_ms = self.scheduler.monotonic_ms()
        if now_ms - self._progress_said_ms >= PROGRESS_EVERY_MS:
            self._progress_said_ms = now_ms
            log.info("recovering %s: %d of %d logs", directory, done, total)

    def _expect_registration(self, broker: Broker, stored: StoredNode) -> None:
        """From now on the time runs in which a controller must have registered this broker."""
        lifecycle = broker.lifecycle = self._build_lifecycle(stored, broker)
        lifecycle.give_up_after(self.config["initial.broker.registration.timeout.ms"])
        self._ends.append(lifecycle.close)

    async def _join(self, broker: Broker) -> None:
        """Have the broker taken into the cluster, and begin what it does by itself."""
        ready: asyncio.Future[None] = self.loop.create_future()
        broker.lifecycle.start(lambda: _release(ready))
        await ready
        upkeep = Upkeep(self.scheduler, broker.replicas, lambda: broker.config)
        upkeep.start()
        broker.compaction.start()
        if broker.replicas.in_sync is not None:
            broker.replicas.in_sync.start()
        broker.groups.start()
        broker.transactions.start()
        self._ends += [broker.compaction.stop, upkeep.stop, broker.replicas.stop]

    def _build_channel(self, replica: ControllerHost, purpose: str, most_ms: int) -> ControllerChannel:
        """A way to the active controller, on which nothing waits behind what goes another way."""
        timeout_ms = min(most_ms, self.config.request_timeout_ms, self.config["controller.socket.timeout.ms"])
        channel = ControllerChannel(self.scheduler, replica, self._peers(purpose, timeout_ms), timeout_ms)
        self._ends.append(channel.close)
        return channel

    def _in_time(self, connect: Connect) -> Connect:
        most_ms = self.config["socket.connection.setup.timeout.max.ms"]
        first_ms = self.config["socket.connection.setup.timeout.ms"]
        return TimedConnect(self.scheduler, connect, self.rng, first_ms, most_ms)

    def _peers(self, purpose: str, request_timeout_ms: int | None = None) -> Peers:
        """Connections to other nodes that nobody else's requests delay."""
        config = self.config
        timeout_ms = config.request_timeout_ms if request_timeout_ms is None else request_timeout_ms
        return Peers(self.scheduler, self._connect, f"{config.node_id}-to-{purpose}", timeout_ms)

    def _change_limits(self, config: BrokerConfig) -> None:
        if self.server is not None:
            self.server.change_limits(socket_limits(config))

    def _build_replica(self, stored: StoredNode) -> ControllerHost:
        config = self.config
        metadata_log = MetadataLog(stored.metadata_directory, stored.metadata_log_config, self.scheduler.now_ms())
        settings = Settings(
            node_id=config.node_id,
            default_partitions=config.num_partitions,
            default_replication_factor=config.default_replication_factor,
            delete_topics=config.delete_topic_enable,
            broker_session_timeout_ms=config["broker.session.timeout.ms"],
            bootstrap_min_insync_replicas=config["min.insync.replicas"],
            inter_broker_listener_name=config.inter_broker_listener_name,
            configured_voters=tuple(config.quorum_voters),
        )
        identity = Identity(
            stored.identity.cluster_id,
            stored.identity.voter,
            stored.identity.static_voters,
            config.quorum_bootstrap_servers,
            next(iter(config.controller_listener_names), ""),
            config.is_controller,
            joins=config["controller.quorum.auto.join.enable"],
        )
        return ControllerHost(
            self.scheduler,
            metadata_log,
            identity,
            settings,
            BrokerConfigRules(config),
            self.rng,
            connect=self._connect,
            peers=self._peers("quorum", config["controller.quorum.request.timeout.ms"]),
            timing=quorum_timing(config),
            linger_ms=_asked(config, "controller.quorum.append.linger.ms"),
            bootstrap_records=stored.identity.bootstrap_records,
            timings=_timings(config),
            snapshot_policy=SnapshotPolicy(
                config["metadata.log.max.record.bytes.between.snapshots"],
                config["metadata.log.max.snapshot.interval.ms"],
                config["metadata.max.retention.bytes"],
                config["metadata.max.retention.ms"],
            ),
            failed=self.failed,
        )

    def _build_broker(
        self, stored: StoredNode, replica: ControllerHost, channel: ControllerChannel, disk: Disk
    ) -> Broker:
        config = self.config
        # What clients ask may take its time; heartbeats and in-sync sets must not wait behind it.
        forwarding = self._build_channel(replica, "forwarding", config.request_timeout_ms)
        broker = Broker(config, self.scheduler, replica.image, forwarding, SUPPORTED_LEVELS, self.rng)
        directories = Directories(stored.directories, self.scheduler, self.failed, stored.unusable)
        directories.cordon(cordoned_paths(config))
        nodes = broker.nodes = Nodes(lambda: broker.image, config.inter_broker_listener_name, self._peers("brokers"))
        broker.replicas = Replicas(
            config.node_id, directories, self.scheduler, lambda overrides: effective(overrides, broker.config)
        )
        broker.replicas.assignments = Assignments(self.scheduler, channel.send, config.node_id, lambda: broker.epoch)
        moves = broker.replicas.moves = Moves(broker.replicas, lambda: broker.config)
        directories.when_failed(lambda _directory: broker.report_directories())
        fetchers = broker.replicas.fetchers = Fetchers(
            self.scheduler,
            self._connect_fetchers,
            broker.replicas,
            nodes.address,
            lambda: broker.config,
            lambda: broker.epoch,
        )
        lag_max_ms = broker.replicas.rules.lag_max_ms = float(config.replica_lag_time_max_ms)
        in_sync = broker.replicas.in_sync = InSyncKeeper(
            self.scheduler, channel.send, broker.replicas, config.node_id, lambda: broker.epoch, lag_max_ms
        )
        broker.replicas.leader_throttle = LeaderThrottle(
            config.node_id, lambda: broker.config.bytes_per_second("leader.replication.throttled.rate")
        )
        self._ends += [nodes.close, moves.stop, fetchers.stop, in_sync.stop]
        self._build_coordinators(broker)
        broker.producer_ids = ProducerIds(forwarding.send, config.node_id, lambda: broker.epoch)
        cleaners = Processes(self.scheduler) if isinstance(disk, RealDisk) else Threads(self.scheduler, disk)
        broker.compaction = Compaction(self.scheduler, broker.replicas, lambda: broker.config, cleaners)
        return broker

    def _build_coordinators(self, broker: Broker) -> None:
        broker.groups = group_coordinator(self.scheduler, broker.replicas, lambda: broker.config, self.rng)
        broker.markers = Markers(self.scheduler, broker.replicas, broker.groups)
        listener_name = self.config.inter_broker_listener_name
        takers = Nodes(lambda: broker.image, listener_name, self._peers("markers"))  # who waits for their replicas
        broker.marker_writer = MarkerWriter(
            self.scheduler,
            broker.markers,
            lambda: broker.image,
            lambda: int(broker.config["request.timeout.ms"]),
            lambda: broker.server.turn,
            lambda: broker.server.aside.look(),
            node_id=self.config.node_id,
            elsewhere=MarkersElsewhere(self.scheduler, takers),
        )
        self._ends.append(takers.close)
        broker.transactions = transaction_coordinator(
            self.scheduler,
            broker.replicas,
            lambda: broker.config,
            lambda: broker.image.features.get(TRANSACTION_VERSION, 0),
            lambda: broker.producer_ids.at_once(),
            broker.marker_writer.send,
        )
        broker.transactions_elsewhere = TransactionsElsewhere(
            self.config.node_id, self.scheduler, lambda: broker.image, broker.nodes
        )
        self._ends += [broker.transactions_elsewhere.stop, broker.marker_writer.stop]
        self._ends += [broker.transactions.stop, broker.groups.stop]

    def _build_lifecycle(self, stored: StoredNode, broker: Broker) -> Lifecycle:
        config = self.config
        registration = BrokerRegistrationRequest(
            broker_id=config.node_id,
            cluster_id=stored.identity.cluster_id,
            incarnation_id=self.rng.randbytes(16),
            listeners=[
                Listener(
                    name=listener.name,
                    host=listener.host or name_of_this_machine(),
                    port=listener.port or self.ports[listener.name],
                    security_protocol=0,
                )
                for listener in config.advertised_listeners
            ],
            features=[
                Feature(name=name, min_supported_version=levels.lowest, max_supported_version=levels.highest)
                for name, levels in SUPPORTED.items()
            ],
            rack=_rack(config),
            log_dirs=[each.id for each in stored.directories],
            previous_broker_epoch=stored.previous_broker_epoch,
        )
        assert self._channel is not None
        return Lifecycle(
            self.scheduler,
            self._channel.send,
            registration,
            config["broker.heartbeat.interval.ms"],
            lambda: broker.image.next_offset - 1,
            broker.replicas.directories,
            self.failed,
            config["log.dir.failure.timeout.ms"],
        )

    # Stopping

    async def stop(self) -> None:
        """A clean stop: let go of leaderships, answer nobody any more, flush, and say on disk that it was clean."""
        broker, stored = self.broker, self._stored
        if broker is not None and self.server is not None:
            if len(broker.image.brokers) <= 1:
                self.server.stop_accepting()
            broker.replicas.checkpoint_high_watermarks()  # of those whose leadership ends before the last word
            if hasattr(broker, "lifecycle") and self.config["controlled.shutdown.enable"]:
                await self._let_leaderships_go(broker)
        await self._let_go()
        if self._replica is not None:
            self._replica.write_due_snapshot()
        if broker is not None:
            broker.replicas.finish_dropping()
            broker.replicas.checkpoint_high_watermarks()
        if stored is not None:
            epoch = broker.lifecycle.broker_epoch if broker is not None and hasattr(broker, "lifecycle") else -1
            stored.close(epoch)

    async def _let_leaderships_go(self, broker: Broker) -> None:
        """A controlled shutdown: others lead before this node is gone. Not waited for where no controller is left."""
        released: asyncio.Future[None] = self.loop.create_future()
        broker.lifecycle.stop(lambda: _release(released))
        wait_ms = STOP_WAIT_MS if len(broker.image.brokers) <= 1 else CONTROLLED_SHUTDOWN_WAIT_MS
        alone_ms = 0
        while wait_ms > 0 and alone_ms < NO_CONTROLLER_WAIT_MS and not released.done():
            await asyncio.wait((released,), timeout=STOP_STEP_MS / 1000)
            wait_ms -= STOP_STEP_MS
            alone_ms = 0 if self._knows_controller else alone_ms + STOP_STEP_MS

    @property
    def _knows_controller(self) -> bool:
        replica, channel = self._replica, self._channel
        if replica is None or channel is None:
            return False
        another = replica.controller_id not in (-1, self.config.node_id)
        return replica.is_active or (another and not channel.is_lost)

    async def abandon(self) -> None:
        """Let go of everything as it is, as if the process had died; only what the system would free is freed."""
        await self._let_go()
        if self._stored is not None:
            self._stored.abandon()

    async def _let_go(self) -> None:
        """Serve nobody and do nothing any more; what is on the disk stays as it is."""
        while self._ends:
            self._ends.pop()()
        await self._monitoring.stop()
        await self.scheduler.close()


def _release(released: asyncio.Future[None]) -> None:
    if not released.done():
        released.set_result(None)


def _listen(server: Server, listener: ConfiguredListener, dispatch: Dispatch) -> int:
    try:
        return server.listen(listener.name, listener.host, listener.port, dispatch)
    except (OSError, UnicodeError) as error:
        raise StartRefused(f"cannot listen on {listener}: {getattr(error, 'strerror', None) or error}") from None


def _timings(config: BrokerConfig) -> Timings:
    rebalance_ms = config["leader.imbalance.check.interval.seconds"] * 1_000
    return Timings(
        max_idle_interval_ms=config["metadata.max.idle.interval.ms"],
        preferred_election_interval_ms=rebalance_ms if config["auto.leader.rebalance.enable"] else 0,
    )


def _rack(config: BrokerConfig) -> str | None:
    """Replicas are spread over machines where nobody says what else there is to spread over."""
    return config.rack if config.rack is not None or config.standalone else socket.gethostname()


def socket_limits(config: BrokerConfig) -> SocketLimits:
    """What the configuration says about sockets. Kafka's sizes of buffers count only where somebody asked for them."""
    memory = config.queued_max_request_bytes
    files = open_files()
    return SocketLimits(
        max_request_bytes=config.socket_request_max_bytes,
        queued_max_request_bytes=memory if memory > 0 else DEFAULT_REQUEST_MEMORY_BYTES,
        max_idle_ms=config.connections_max_idle_ms,
        connections=ConnectionLimits(
            min(config.max_connections, descriptors_for_connections(files)),
            config.max_connections_per_ip,
            config.max_connections_per_ip_overrides,
            config.inter_broker_listener_name,
            config.max_connections_of_listeners,
        ),
        max_creation_rate=config.max_connection_creation_rate,
        send_buffer_bytes=_asked(config, "socket.send.buffer.bytes", DEFAULT_SEND_BUFFER_BYTES),
        receive_buffer_bytes=_asked(config, "socket.receive.buffer.bytes"),
        backlog=asked if (asked := _asked(config, "socket.listen.backlog.size")) > 0 else DEFAULT_BACKLOG,
        max_unread_files=descriptors_for_replies(files),
    )


def quorum_timing(config: BrokerConfig) -> Timing:
    """Kafka's ``controller.quorum.*`` as the quorum takes them."""
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


def _asked(config: BrokerConfig, name: str, otherwise: int = -1) -> int:
    return int(config[name]) if config.is_set(name) else otherwise


def run(config: BrokerConfig, started: Callable[[Node], None] | None = None) -> int:
    """Run a node until it is told to stop; the exit code of the process."""
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

    def told_to_stop() -> None:
        if ended.done():
            # A second signal: somebody does not want to wait; what was not flushed is recovered at the next start.
            os._exit(1)
        end(None)

    def take_signals() -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, told_to_stop)

    node = Node(config, loop, lambda line: end(line))
    collector = Collector(node.scheduler)
    collector.start()
    disk = RealDisk(Descriptors(descriptors_for_logs(raise_open_files())))
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
        refusal = str(error)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    collector.stop()
    await node.stop()
    if refusal is None:
        log.info("This node has stopped")
    else:
        print(f"kpybroker: {refusal}", file=sys.stderr)
    return 0 if refusal is None else 1
