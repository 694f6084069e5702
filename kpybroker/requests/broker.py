"""The broker role of one node: the `Context` that handlers see, put together from its parts.

It holds no queue and decides nothing itself; `kpybroker.node.assembly` builds it, `kpybroker.node` starts and stops it.
"""

import logging
import os
import random
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.coordinators.marker_writer import MarkerWriter
from kpybroker.hosts.coordinators.markers import Markers
from kpybroker.hosts.coordinators.shards import Shards
from kpybroker.hosts.coordinators.transactions_elsewhere import TransactionsElsewhere
from kpybroker.hosts.leases.leases import Leases
from kpybroker.hosts.lifecycle import BrokerState
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.producer_ids import ProducerIds
from kpybroker.hosts.replicas.compaction import Compaction
from kpybroker.hosts.replicas.directories import EVERY_DIRECTORY
from kpybroker.hosts.replicas.fetchers import Fetchers
from kpybroker.hosts.replicas.in_sync import InSyncKeeper
from kpybroker.hosts.replicas.leader_throttle import LeaderThrottle
from kpybroker.hosts.replicas.moves import Moves
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.hosts.replicas.upkeep import Upkeep
from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.fetch.sessions import FetchSessions
from kpybroker.machines.metadata import metadata_version
from kpybroker.machines.metadata.absences import Absences
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.features import SHARE_VERSION, SUPPORTED_LEVELS
from kpybroker.machines.metadata.image import CLIENT_METRICS_RESOURCE, MetadataImage
from kpybroker.machines.metadata.mirror_configs import MIRRORS, is_mirror
from kpybroker.machines.metadata.unclean import unclean_elections
from kpybroker.requests.serving.context import ActiveController, Context
from kpybroker.requests.serving.expected_topics import ExpectedTopics
from kpybroker.requests.serving.refused_creations import RefusedCreations
from kpybroker.requests.serving.streams_topics import StreamsTopics
from kpybroker.requests.serving.topic_answers import TopicAnswers
from kpybroker.runtime.io.scheduler import Scheduler

if TYPE_CHECKING:
    from kpybroker.hosts.labour.labour import Labour
    from kpybroker.hosts.mirror.mirrors import Mirrors
    from kpybroker.hosts.remote_log.remote_log import RemoteLog
    from kpybroker.machines.telemetry.receiver import Receiver
    from kpybroker.requests.serving.share.share_leader import ShareLeader

log = logging.getLogger("kpybroker.config")


def cordoned_paths(config: BrokerConfig) -> list[str]:
    """``cordoned.log.dirs`` in the form used for log directories: absolute paths, or ``*``."""
    return [path if path == EVERY_DIRECTORY else os.path.abspath(path) for path in config["cordoned.log.dirs"]]


class Registered(Protocol):
    """This broker's registration in its cluster."""

    @property
    def state(self) -> BrokerState: ...

    def epoch(self) -> int:
        """The epoch of the registration; -1 before there is one."""

    def register_again(self) -> None: ...

    def report(self) -> None:
        """Report what has changed about the log directories."""


class ClusterLinks(NamedTuple):
    """A broker's place in its cluster, and its ways to other nodes."""

    controller: ActiveController
    """The way for requests that clients make."""
    nodes: Nodes
    lifecycle: Registered
    authorizer: Authorizer | None


class Partitions(NamedTuple):
    """The partitions that a broker holds, and everything that works on them."""

    replicas: Replicas
    moves: Moves
    fetchers: Fetchers
    in_sync: InSyncKeeper
    leader_throttle: LeaderThrottle
    compaction: Compaction
    upkeep: Upkeep
    remote_log: "RemoteLog | None" = None


class Coordinators(NamedTuple):
    """The coordinators of a broker, and what they need."""

    groups: Shards
    transactions: Shards
    share_states: Shards
    transactions_elsewhere: TransactionsElsewhere
    markers: Markers
    marker_writer: MarkerWriter
    producer_ids: ProducerIds


class Broker:
    """A broker, made last of finished parts."""

    is_controller_role = False
    """Whether requests are guarded as on the listeners of a controller."""

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        rng: random.Random,
        image: MetadataImage,
        cluster: ClusterLinks,
        partitions: Partitions,
        coordinators: Coordinators,
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.scheduler = scheduler
        self.image = image
        self.controller, self.nodes, self.lifecycle, self.authorizer = cluster
        self.replicas = partitions.replicas
        self.moves = partitions.moves
        self.fetchers = partitions.fetchers
        self.in_sync = partitions.in_sync
        self.leader_throttle = partitions.leader_throttle
        self.compaction = partitions.compaction
        self.upkeep = partitions.upkeep
        self.remote_log = partitions.remote_log
        self.groups = coordinators.groups
        self.transactions = coordinators.transactions
        self.share_states = coordinators.share_states
        self.transactions_elsewhere = coordinators.transactions_elsewhere
        self.markers = coordinators.markers
        self.marker_writer = coordinators.marker_writer
        self.producer_ids = coordinators.producer_ids
        self.supported_features = SUPPORTED_LEVELS
        self.alive_brokers: frozenset[int] = frozenset()
        self.absences = Absences()
        self.console_url = ""
        """The address of this node's console for browsers; empty if it has none."""
        self.unclean_elections = 0
        """The number since the start, as controllers count them."""
        self.fetch_sessions = FetchSessions(config.max_fetch_sessions, rng)
        self.topic_answers = TopicAnswers()
        self.leases = Leases()
        self.expected_topics = ExpectedTopics(scheduler)
        self.refused_creations = RefusedCreations()
        self.streams_topics = StreamsTopics()
        self._rng = rng
        self.wants_client_metrics = False
        """Whether the cluster has a subscription to clients' metrics."""
        self._labour: Labour | None = None
        self._telemetry: Receiver | None = None
        self._share_leader: ShareLeader | None = None
        self.mirrors: Mirrors | None = None
        """The mirrors of other clusters' topics, made when ``kpybroker.mirrors`` names one for the first time."""
        self._has_started = False

    def start(self) -> None:
        """Start the work in the background, once clients may be served."""
        self.upkeep.start()
        self.compaction.start()
        self.in_sync.start()
        self.groups.start()
        self.transactions.start()
        self.share_states.start()
        if self.remote_log is not None:
            self.remote_log.start()
        self._has_started = True
        self._follow_mirrors()

    def stop(self) -> None:
        """End the work on the logs."""
        if self.mirrors is not None:
            self.mirrors.stop()
        if self._labour is not None:
            self._labour.stop()
        if self._share_leader is not None:
            self._share_leader.stop()
        self.replicas.stop()
        self.upkeep.stop()
        self.compaction.stop()

    def console_is_at(self, url: str) -> None:
        """Note the address of this node's console, which other nodes ask for."""
        self.console_url = url

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Apply a committed change of the metadata."""
        self.note(image, delta)
        self.follow(image, delta)
        if self._must_register(image, delta):
            self.lifecycle.register_again()

    def note(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Note a change for the answers that clients get."""
        if delta.brokers:
            self.absences.note(image, delta, self.scheduler.monotonic_ms())
            self.alive_brokers = frozenset(node.id for node in image.brokers.values() if not node.fenced)
            self.topic_answers.forget_all()
        if self.config.is_controller:
            self.unclean_elections += unclean_elections(image, delta)
        self.topic_answers.forget(delta.partitions)
        self.topic_answers.forget(delta.deleted_topics)
        if any(kind == CLIENT_METRICS_RESOURCE for kind, _ in delta.configs):
            self.wants_client_metrics = any(kind == CLIENT_METRICS_RESOURCE for kind, _ in image.configs)
        if self._telemetry is not None:
            self._telemetry.configs_changed(image.configs, delta.configs)

    def follow(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Have the replicas follow a change, and the coordinators whose partitions they hold."""
        self.replicas.apply(image, delta)
        if delta.brokers:
            self.in_sync.brokers_changed()
        self.groups.apply(image, delta)
        self.transactions.apply(image, delta)
        self.share_states.apply(image, delta)
        if self.remote_log is not None:
            self.remote_log.apply(image, delta)
        self.marker_writer.look_again()
        self.expected_topics.look(image.topics)
        if self.mirrors is not None:
            self.mirrors.apply(delta)
        if self._share_leader is not None and SHARE_VERSION in delta.features and not image.features.get(SHARE_VERSION):
            self._share_leader.stop()

    def _must_register(self, image: MetadataImage, delta: MetadataDelta) -> bool:
        """Whether this broker was unregistered, or a higher ``metadata.version`` can now hold its directories."""
        if self.node_id not in image.brokers:
            return self.node_id in delta.brokers
        raised = metadata_version.FEATURE_NAME in delta.features
        with_directories = raised and image.level >= metadata_version.DIRECTORY_ASSIGNMENT
        return with_directories and not image.brokers[self.node_id].directories

    def reconfigure(self, config: BrokerConfig) -> None:
        """Apply a change of dynamic broker configs (KIP-226)."""
        known, self.config = self.config.warnings, config
        for warning in self.config.warnings:
            if warning not in known:
                log.warning("%s", warning)
        self.replicas.configure_all()
        self.fetchers.reconfigure()
        self.replicas.directories.cordon(cordoned_paths(self.config))
        self.lifecycle.report()
        self._follow_mirrors()

    def _follow_mirrors(self) -> None:
        """Begin and end mirrors as ``kpybroker.mirrors`` names them."""
        entries = self.config[MIRRORS]
        is_needed = entries or any(map(is_mirror, self.image.configs.values()))
        if self.mirrors is None and is_needed and self._has_started and not self.config.is_in_zookeeper_mode:
            from kpybroker.hosts.mirror.mirrors import Mirrors
            from kpybroker.hosts.mirror.parts import MirrorParts

            parts = MirrorParts(
                self.node_id,
                self.scheduler,
                self.replicas,
                self.nodes,
                self.controller.send,
                lambda: self.config,
                self.image,
            )
            self.mirrors = Mirrors(parts)
            self.producer_ids.forget_blocks()
        if self.mirrors is not None:
            self.mirrors.run(entries)

    @property
    def labour(self) -> "Labour":
        """The process that does long work on batches, made when there is some for the first time."""
        if self._labour is None:
            from kpybroker.hosts.labour.labour import Labour

            self._labour = Labour(self.scheduler)
        return self._labour

    @property
    def telemetry(self) -> "Receiver":
        """The receiver of client metrics, made when the first client asks."""
        if self._telemetry is None:
            from kpybroker.config.client_metrics import values_of
            from kpybroker.machines.telemetry.receiver import Receiver, ReceiverLimits

            config = self.config
            bounds = ReceiverLimits(config["telemetry.max.bytes"], config["kpybroker.client.metrics.max.series"])
            labels = [entry.partition("=")[0].strip() for entry in config["kpybroker.metrics.static.labels"]]
            self._telemetry = Receiver(self.image.configs, values_of, bounds, self._rng, labels)
        return self._telemetry

    @property
    def share_leader(self) -> "ShareLeader":
        """The share partitions that this broker leads, made when the first member reads."""
        if self._share_leader is None:
            from kpybroker.requests.serving.share.share_leader import ShareLeader

            self._share_leader = ShareLeader(cast("Context", self))
        return self._share_leader

    @property
    def has_share_leader(self) -> bool:
        """Whether any member of a share group has read here."""
        return self._share_leader is not None

    @property
    def has_telemetry(self) -> bool:
        """Whether any client has asked for its subscription."""
        return self._telemetry is not None

    @property
    def unready(self) -> str | None:
        """The reason why clients are not served; None if they are."""
        state = self.lifecycle.state
        return None if state == BrokerState.RUNNING else f"the broker's state is {state.name}"

    def is_listed(self, broker_id: int) -> bool:
        """Whether Metadata lists a broker: it is alive, or away for less than a session."""
        if broker_id in self.alive_brokers:
            return True
        return self.absences.is_away(broker_id, self.scheduler.monotonic_ms(), self.config["broker.session.timeout.ms"])

    def random_alive_broker(self) -> int:
        """The broker that clients are given as the controller: any broker forwards to it (KIP-590); -1 if none is
        alive."""
        return self._rng.choice(sorted(self.alive_brokers)) if self.alive_brokers else -1
