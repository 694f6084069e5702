"""Applies committed records to the image that brokers read and tells the subscribers what changed.

Every node has one, whatever feeds it: the leader's own appends, or what an observer fetched. Subscribers are called
after each committed batch, in the order they subscribed, with the whole image and the delta; they must not change
the image.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any

from kpybroker.metadata.delta import MetadataDelta
from kpybroker.metadata.image import MetadataImage
from kpybroker.metadata.replacement import replace
from kpybroker.metadata.units import Unit

UNITS_TOGETHER = 64
"""As subscribers have something to do for each publication, too."""
Subscriber = Callable[[MetadataImage, MetadataDelta], None]


class Loader:
    """The published image and who wants to know about it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self._subscribers: list[Subscriber] = []
        self._delta = MetadataDelta(image.next_offset)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call ``subscriber`` after each committed batch from now on."""
        self._subscribers.append(subscriber)

    def load(self, records: Sequence[Any], first_offset: int, epoch: int) -> None:
        """Apply committed records without telling anybody yet."""
        for offset, record in enumerate(records, first_offset):
            self.image.apply(record, offset, self._delta)
        self.image.epoch = epoch

    def publish_units(self, units: Iterable[Unit], first_offset: int, epoch: int) -> Generator[None, None, None]:
        """Apply the units of a committed batch and tell of them, some at a time; yields in between."""
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
        """Apply the records of a snapshot to the empty image; they stand for all offsets below ``next_offset``."""
        self._delta.from_snapshot = True
        for record in records:
            self.image.apply(record, next_offset - 1, self._delta)
        self.image.epoch = epoch

    def replace(self, image: MetadataImage) -> None:
        """A snapshot took the place of records that are not there any more: go on with what it holds.

        Nobody is told yet; what differs is in the next delta.
        """
        self._delta.from_snapshot = True
        replace(self.image, image, self._delta)

    def publish(self, next_offset: int) -> None:
        """Tell everybody what was loaded. ``next_offset`` is what is committed, control records among it."""
        self.image.next_offset = next_offset
        if self.image.transaction_offset >= 0:
            return  # what a transaction has written so far is nobody's business
        delta, self._delta = self._delta, MetadataDelta(next_offset)
        delta.next_offset = next_offset
        for subscriber in self._subscribers:
            subscriber(self.image, delta)
