"""The metadata of a broker in ZooKeeper mode: an image, and the parts of the broker that follow it.

There are two kinds of followers. Subscribers hear of every change, like the cache of metadata in Kafka. Replicas, and
the coordinators that depend on them, hear only of the partitions that the controller named in an order to this broker.

Invariant: the offset of the image is the epoch of the finalised features, which is all that clients see of it.
"""

from collections.abc import Container, Sequence
from typing import Any

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.loader import Subscriber
from kpybroker.machines.zookeeper.broker.controller_requests import Place


class ZooKeeperMetadata:
    """The metadata that this broker knows."""

    def __init__(self, cluster_id: str) -> None:
        self.image = MetadataImage(cluster_id)
        self.image.next_offset = 1
        self._subscribers: list[Subscriber] = []
        self._replicas: list[Subscriber] = []

    def set_features_epoch(self, epoch: int) -> None:
        """Take over the epoch of the finalised features; -1 if features are not finalised in this cluster."""
        self.image.next_offset = epoch + 1

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber`` with every change from now on."""
        self._subscribers.append(subscriber)

    def order(self, replicas: Subscriber) -> None:
        """Call ``replicas`` with the orders of the controller from now on, after the subscribers."""
        self._replicas.append(replicas)

    def apply(self, records: Sequence[Any], ordered: Container[Place] = ()) -> None:
        """Apply records and tell everybody. ``ordered`` are the partitions of which the replicas hear."""
        if not records:
            return
        image, delta = self.image, MetadataDelta(self.image.next_offset)
        offset = image.next_offset - 1
        for record in records:
            image.apply(record, offset, delta)
        delta.next_offset = image.next_offset
        for subscriber in self._subscribers:
            subscriber(image, delta)
        ordered_delta = delta.with_partitions(ordered)
        for follower in self._replicas:
            follower(image, ordered_delta)
