"""The search for objects in the store that belong to no segment, and their deletion.

Each node judges the objects of partitions whose metadata it leads, so all of them together judge everything once.

Invariant: objects of a topic that neither the cluster nor the metadata of the store know are never deleted: they may be
all that another cluster has.
"""

import logging
from collections.abc import Callable, Container
from functools import partial
from typing import Final

from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.hosts.remote_log.metadata_topic import RemoteLogMetadataTopic
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.sweep import Belonging, ListedObject, ObjectSweep
from kpybroker.runtime.io.scheduler import Scheduler, Submit, Timer

log = logging.getLogger("kpybroker.tiered")

MOST_AT_ONCE: Final = 1_000
"""The most objects that one sweep deletes."""


class Sweeping:
    """The sweeps of one node."""

    def __init__(
        self,
        scheduler: Scheduler,
        metadata: RemoteLogMetadataTopic,
        storage: RemoteStorage,
        deleter: Submit,
        pulse: MetadataPulse,
        interval_ms: Callable[[], float],
        wait_ms: int,
    ) -> None:
        """``interval_ms`` is ``kpybroker.remote.sweep.interval.ms``; -1 for no sweeps. ``wait_ms`` is longer than any
        copy may last."""
        self._scheduler = scheduler
        self._metadata = metadata
        self._storage = storage
        self._deleter = deleter
        self._pulse = pulse
        self._interval_ms = interval_ms
        self._sweep = ObjectSweep(wait_ms)
        self._timer: Timer | None = None
        self._topics: Container[bytes] = ()
        self._foreign = 0
        """The number of foreign objects that was logged last."""
        self.deleted = 0
        """The objects that were deleted since the start."""

    def apply(self, image: MetadataImage) -> None:
        """Take over a committed change of the cluster's metadata."""
        self._topics = image.topics_by_id

    def start(self) -> None:
        """Sweep from now on."""
        interval_ms = self._interval_ms()
        if interval_ms > 0:
            self._timer = self._scheduler.call_later(interval_ms, self._begin)

    def stop(self) -> None:
        """Sweep no more."""
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self) -> None:
        self._deleter(lambda: list(self._storage.listed()), self._listed)

    def _listed(self, listing: list[ListedObject] | None, error: BaseException | None) -> None:
        self.start()
        if listing is None:
            log.warning("The objects in the store could not be listed: %s", error)
            return
        now_ms = int(self._scheduler.monotonic_ms())
        if not self._pulse.beats:
            self._sweep.forget()
        judged = self._sweep.judge(listing, self._segments_of, now_ms)
        self._report_foreign([each for each, belonging in judged if belonging is Belonging.FOREIGN])
        orphans = [each for each, belonging in judged if belonging is Belonging.ORPHAN][:MOST_AT_ONCE]
        if orphans and self._pulse.beats:
            size_bytes = sum(each.size_bytes for each in orphans)
            log.info("Deleting %d objects of no segment from the store, %d bytes", len(orphans), size_bytes)
            self._deleter(partial(self._storage.delete_objects, orphans), partial(self._swept, len(orphans)))

    def _segments_of(self, topic_id: bytes, partition: int) -> RemoteSegments | None:
        if not self._metadata.is_led_here(topic_id, partition):
            return None
        is_known = topic_id in self._topics or self._metadata.has_records_of(topic_id, partition)
        return self._metadata.segments_of(topic_id, partition) if is_known else None

    def _report_foreign(self, objects: list[ListedObject]) -> None:
        """Say in one line that another cluster may use the store; again when the number changes."""
        judged_here = [each for each in objects if self._metadata.is_led_here(each.topic_id, each.partition)]
        if len(judged_here) != self._foreign:
            self._foreign = len(judged_here)
            words = (
                "%s has %d objects of topics that this cluster does not know, and they stay: does another one use it?"
            )
            log.warning(words, self._storage.name, self._foreign)

    def _swept(self, count: int, _result: None, error: BaseException | None) -> None:
        if error is None:
            self.deleted += count
        else:
            log.warning("Objects of no segment are still in the store: %s", error)
