"""The broker role of one node: what handlers see as their `Context`, put together from its parts.

It owns nothing that waits and decides nothing itself; `kpybroker.node` builds it, starts it and stops it.
"""

import logging
import os
import random
from collections.abc import Mapping
from typing import Any

from kpybroker.config.broker import BrokerConfig
from kpybroker.dispatch import Dispatcher
from kpybroker.fetch.sessions import Sessions
from kpybroker.handlers.context import Controller
from kpybroker.handlers.expected_topics import ExpectedTopics
from kpybroker.handlers.topic_answers import TopicAnswers
from kpybroker.hosting.coordinator import Coordinator
from kpybroker.hosting.marker_writer import MarkerWriter
from kpybroker.hosting.markers import Markers
from kpybroker.hosting.transactions_elsewhere import TransactionsElsewhere
from kpybroker.io.scheduler import Scheduler
from kpybroker.lifecycle import BrokerState, Lifecycle
from kpybroker.metadata import metadata_version
from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.metadata.unclean import unclean_elections
from kpybroker.network.nodes import Nodes
from kpybroker.producer_ids import UNREGISTERED, ProducerIds
from kpybroker.replicas.compaction import Compaction
from kpybroker.replicas.directories import EVERY_DIRECTORY
from kpybroker.replicas.replicas import Replicas
from kpybroker.server.listener import Server

log = logging.getLogger("kpybroker.config")


def cordoned_paths(config: BrokerConfig) -> list[str]:
    """``cordoned.log.dirs`` as log directories are known: by absolute paths, or ``*``."""
    return [path if path == EVERY_DIRECTORY else os.path.abspath(path) for path in config["cordoned.log.dirs"]]


class Broker:
    """The parts of a broker. Attributes are filled in by the node before clients are let in."""

    replicas: Replicas
    lifecycle: Lifecycle
    server: Server
    dispatcher: Dispatcher
    producer_ids: ProducerIds
    groups: Coordinator
    transactions: Coordinator
    transactions_elsewhere: TransactionsElsewhere
    markers: Markers
    marker_writer: MarkerWriter
    compaction: Compaction
    nodes: Nodes

    def __init__(
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        image: MetadataImage,
        controller: Controller,
        supported_features: Mapping[str, tuple[int, int]],
        rng: random.Random,
    ) -> None:
        self.node_id = config.node_id
        self.config = config
        self.scheduler = scheduler
        self.image = image
        self.controller = controller
        self.supported_features = supported_features
        self.alive_brokers: frozenset[int] = frozenset()
        self.unclean_elections = 0
        """Since the start, as controllers count them."""
        self.fetch_sessions = Sessions(config.max_fetch_sessions, rng)
        self.topic_answers = TopicAnswers()
        self.expected_topics = ExpectedTopics(scheduler)
        self._rng = rng

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change of the metadata."""
        if delta.brokers:
            self.alive_brokers = frozenset(node.id for node in image.brokers.values() if not node.fenced)
            self.topic_answers.forget_all()
        if self.config.is_controller:
            self.unclean_elections += unclean_elections(image, delta)
        self.topic_answers.forget(delta.partitions)
        self.topic_answers.forget(delta.deleted_topics)
        self.replicas.apply(image, delta)
        self.groups.apply(image, delta)
        self.transactions.apply(image, delta)
        self.marker_writer.look_again()
        if hasattr(self, "lifecycle") and self._must_register(image, delta):
            self.lifecycle.register_again()
        self.expected_topics.look(image.topics)

    def _must_register(self, image: MetadataImage, delta: MetadataDelta) -> bool:
        """Whether somebody unregistered this broker, or a higher ``metadata.version`` has room for its directories."""
        if self.node_id not in image.brokers:
            return self.node_id in delta.brokers
        raised = metadata_version.FEATURE_NAME in delta.features
        with_directories = raised and image.level >= metadata_version.DIRECTORY_ASSIGNMENT
        return with_directories and not image.brokers[self.node_id].directories

    def reconfigure(self, config: BrokerConfig) -> None:
        """Dynamic broker configs changed (KIP-226)."""
        known, self.config = self.config.warnings, config
        for warning in self.config.warnings:
            if warning not in known:
                log.warning("%s", warning)
        self.replicas.configure_all()
        if self.replicas.fetchers is not None:
            self.replicas.fetchers.reconfigure()
        self.replicas.directories.cordon(cordoned_paths(self.config))
        self.report_directories()

    def report_directories(self) -> None:
        """Tell the controller at once which directories do not work or take no new logs."""
        if hasattr(self, "lifecycle"):
            self.lifecycle.report()

    @property
    def epoch(self) -> int:
        """Of its registration; -1 before."""
        return self.lifecycle.broker_epoch if hasattr(self, "lifecycle") else UNREGISTERED

    @property
    def unready(self) -> str | None:
        """Why clients are not served; None when they are."""
        state = self.lifecycle.state
        return None if state == BrokerState.RUNNING else f"the broker's state is {state.name}"

    def random_alive_broker(self) -> int:
        """What clients are told is the controller: any broker forwards to it (KIP-590); -1 when none is alive."""
        return self._rng.choice(sorted(self.alive_brokers)) if self.alive_brokers else -1

    def send_to_controller(self, request: Any, reply: Any) -> None:
        """Send a request to the active controller."""
        self.controller.send(request, reply)
