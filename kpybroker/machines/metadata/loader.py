"""Applies committed records to the image that brokers read, and reports the changes to the subscribers.

Every node has one, whatever feeds it: the leader's own appends, or the records that an observer fetched. Subscribers
are called after each committed batch, in the order in which they subscribed, with the whole image and the delta. They
must not change the image.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Final, Protocol

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.replacement import replace
from kpybroker.machines.metadata.units import Unit

UNITS_TOGETHER: Final = 64
"""The number of units that are published together, since each publication costs time in the subscribers too."""
Subscriber = Callable[[MetadataImage, MetadataDelta], None]


class Metadata(Protocol):
    """The metadata that a node follows, from its quorum or from ZooKeeper."""

    @property
    def image(self) -> MetadataImage: ...

    def subscribe(self, subscriber: Subscriber) -> None: ...


class MetadataLoader:
    """The published image and its subscribers."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []
        self._delta = MetadataDelta(image.next_offset)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber`` after each committed batch from now on."""
        self._subscribers.append(subscriber)

    def load(self, records: Sequence[Any], first_offset: int, epoch: int) -> None:
        """Apply committed records without publishing them yet."""
        for offset, record in enumerate(records, first_offset):
            self.image.apply(record, offset, self._delta)
        self.image.epoch = epoch

    def publish_units(self, units: Iterable[Unit], first_offset: int, epoch: int) -> Generator[None, None, None]:
        """Apply the units of a committed batch and publish them, some at a time. Yields in between."""
        self.publish(first_offset)
        self.image.epoch = epoch
        offset = first_offset
        for count, unit in enumerate(units, 1):
            self.image.apply_unit(unit, offset, self._delta)
            offset += unit.records
            if count % UNITS_TOGETHER == 0:
                self.publish(offset)
                yield
        self.publish(offset)

    def load_snapshot(self, records: Sequence[Any], next_offset: int, epoch: int) -> None:
        """Apply the records of a snapshot to the empty image. They stand for all offsets below ``next_offset``."""
        self._delta.from_snapshot = True
        for record in records:
            self.image.apply(record, next_offset - 1, self._delta)
        self.image.epoch = epoch

    def replace(self, image: MetadataImage) -> None:
        """Replace the image by the contents of a snapshot, because the records before it are no longer there.

        Nothing is published yet; the differences are in the next delta.
        """
        self._delta.from_snapshot = True
        replace(self.image, image, self._delta)

    def publish(self, next_offset: int) -> None:
        """Publish to all subscribers what was loaded. ``next_offset`` is the end of what is committed, control records
        included."""
        self.image.next_offset = next_offset
        if self.image.transaction_offset >= 0:
            return  # what a transaction has written so far is nobody's business
        delta, self._delta = self._delta, MetadataDelta(next_offset)
        delta.next_offset = next_offset
        for subscriber in self._subscribers:
            subscriber(self.image, delta)
