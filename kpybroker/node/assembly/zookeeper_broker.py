"""The broker of a node in ZooKeeper mode, made last of finished parts; and its way to the controller."""

import random
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.controller_rules import BrokerConfigRules
from kpybroker.hosts.network.nodes import Nodes
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.hosts.zookeeper.broker.config_writes import ConfigWrites
from kpybroker.hosts.zookeeper.broker.known_controller import ZooKeeperController
from kpybroker.hosts.zookeeper.broker.orders import FirstMetadata, Orders
from kpybroker.hosts.zookeeper.broker.protection import ZooKeeperProtection
from kpybroker.hosts.zookeeper.broker.sessions import ClusterParts
from kpybroker.hosts.zookeeper.broker.tasks import Begin
from kpybroker.hosts.zookeeper.broker.writers import Writers
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.zookeeper.broker import apis
from kpybroker.machines.zookeeper.broker.controller_requests import ControllerRequests, HeldReplica, Ruler
from kpybroker.node.assembly.hosting import build_coordinators
from kpybroker.node.assembly.metadata_source import Parts
from kpybroker.node.assembly.platform import Platform
from kpybroker.node.assembly.replication import build_partitions
from kpybroker.node.assembly.zookeeper_controller import Controlling
from kpybroker.requests import handlers
from kpybroker.requests.broker import Broker, ClusterLinks, Coordinators, Partitions, Registered
from kpybroker.requests.serving.context import ActiveController
from kpybroker.runtime.io.scheduler import Scheduler


class Allegiance(NamedTuple):
    """The controllers that a broker obeys: the one in ZooKeeper, and that of a quorum to which it migrates."""

    controller: ActiveController
    """The way to the one that rules."""
    registered: Registered
    """The registration that counts."""
    kraft_epoch: Callable[[], int]
    """The epoch of the registration with the quorum; -1 without one."""
    look: Callable[[], object]
    """Called when another controller may rule."""


class ZooKeeperBroker(Broker):
    """A broker in ZooKeeper mode. No feature is finalised there, and clients learn the real controller."""

    def __init__(  # noqa: PLR0913
        self,
        config: BrokerConfig,
        scheduler: Scheduler,
        rng: random.Random,
        image: MetadataImage,
        cluster: ClusterLinks,
        partitions: Partitions,
        coordinators: Coordinators,
        ruler: Ruler,
        orders: Orders,
        first_metadata: FirstMetadata,
    ) -> None:
        super().__init__(config, scheduler, rng, image, cluster, partitions, coordinators)
        self.supported_features = {}
        self.ruler = ruler
        self.orders = orders
        """The orders of the controller."""
        self.first_metadata = first_metadata

    def is_listed(self, broker_id: int) -> bool:
        """Whether Metadata lists a broker. None is listed before the cluster is known: a client takes an answer without
        brokers for no answer, and one without its topics for their end."""
        return self.first_metadata.is_known and super().is_listed(broker_id)

    def random_alive_broker(self) -> int:
        """The controller: clients send it what only it can do. If it is of a KRaft quorum, any broker will do. While
        another one is elected, it is still the one before, as with Kafka."""
        return super().random_alive_broker() if self.ruler.is_of_kraft else self.ruler.controller_id


def build_way(
    parts: Parts, joined: ClusterParts, controlling: Controlling, protection: ZooKeeperProtection, begin: Begin
) -> ZooKeeperController:
    """The way to the controller in ZooKeeper, with the writers of what clients want changed."""
    current, image = parts.current, joined.metadata.image
    writes = ConfigWrites(
        joined.client,
        joined.acls,
        joined.configs,
        image,
        current.config.node_id,
        lambda: BrokerConfigRules(current.config),
        joined.encrypted.encoded,
    )
    return ZooKeeperController(
        joined.known,
        joined.channel,
        Writers((writes, protection), begin).take,
        controlling.take,
        lambda: controlling.event_queue.controller.is_active,
        parts.security.forwarding(current.config, image).admit,
    )


def build_broker(
    platform: Platform, parts: Parts, joined: ClusterParts, allegiance: Allegiance, begin: Begin
) -> ZooKeeperBroker:
    """A broker that follows the orders of its controller."""
    current, config, metadata, kept = parts.current, parts.current.config, joined.metadata, parts.opened.kept
    assert kept is not None, "there are no controllers alone"
    nodes = Nodes(metadata.image, config.inter_broker_listener_name, platform.broker_peers(config, "brokers"))
    platform.ends.callback(nodes.close)
    cluster = ClusterLinks(allegiance.controller, nodes, allegiance.registered, parts.security.authorizer)
    partitions = build_partitions(current, platform, kept, metadata.image, cluster, allegiance.controller)
    replicas = partitions.replicas
    coordinators = build_coordinators(current, platform, metadata.image, cluster, replicas, parts.server)
    requests = ControllerRequests(
        config.node_id,
        metadata.image,
        partial(_held, replicas),
        joined.registration.epoch,
        allegiance.kraft_epoch,
        partial(_every_replica, replicas),
        joined.ruler,
    )
    first = FirstMetadata(platform.scheduler, joined.client, metadata.image, lambda: requests.has_named_topics)
    read, delete = joined.configs.read_topics, partial(_delete_log, replicas)
    broker = ZooKeeperBroker(
        config,
        platform.scheduler,
        platform.rng,
        metadata.image,
        cluster,
        partitions,
        coordinators,
        joined.ruler,
        Orders(requests, metadata, read, delete, begin, allegiance.look, first.look),
        first,
    )
    replicas.begin_without_metadata(metadata.image)
    current.when_changed(broker.reconfigure)
    metadata.subscribe(broker.note)
    metadata.order(broker.follow)
    return broker


def _held(replicas: Replicas, topic: str, index: int) -> HeldReplica | None:
    held = replicas.topics.get(topic)
    replica = None if held is None else held.replicas.get(index)
    if held is None or replica is None:
        return None
    return HeldReplica(held.id, replica.partition.leader_epoch, replica.offline)


def _every_replica(replicas: Replicas) -> list[tuple[str, int]]:
    return [(name, index) for name, held in replicas.topics.items() for index in held.replicas]


def _delete_log(replicas: Replicas, topic: str, index: int) -> None:
    directories = replicas.directories
    found = directories.find(topic, index)
    if found is not None:
        directories.delete(found, 0)


def load(api_key: int) -> Any:
    """The handler module of an API. What only the controller does is refused like what is forwarded in KRaft mode."""
    if api_key in apis.ONLY_ON_THE_CONTROLLER:
        from kpybroker.requests.handlers import forwarded

        return forwarded
    return handlers.load(api_key)


def served_versions() -> dict[int, tuple[int, int]]:
    """The versions of each API key on a listener in ZooKeeper mode."""
    return apis.versions(handlers.served_versions())
