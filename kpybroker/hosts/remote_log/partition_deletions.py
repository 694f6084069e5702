"""The deletion of partitions whose topic is gone, by the leader of their metadata (``deleteRemoteLogPartition``).

All that has to survive a restart is in the metadata, so the next leader goes on. A topic that this node has seen go is
deleted at once. One that it has never seen may be so new that its creation has not arrived here, so it counts as
deleted only after it was missing for long while the cluster's metadata went on.
"""

import logging
from collections.abc import Container, Iterable, Iterator
from functools import partial
from typing import Any, Final

from kpybroker.hosts.remote_log.led_tier import TierParts
from kpybroker.hosts.remote_log.metadata_pulse import MetadataPulse
from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.remote_log import deleting
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.copying import AppendRecord
from kpybroker.machines.remote_log.deleting import PartitionDeletion
from kpybroker.machines.remote_log.segments import RemoteLogSegmentUpdate, RemotePartitionDeleteState

log = logging.getLogger("kpybroker.tiered")

MISSING_MS: Final = 600_000.0


class PartitionDeletions:
    """The deletions of one node."""

    def __init__(self, parts: TierParts, pulse: MetadataPulse) -> None:
        self._parts = parts
        self._pulse = pulse
        self._under_way: dict[tuple[bytes, int], PartitionDeletion] = {}
        self._topics: Container[bytes] = ()
        self._seen_go: set[bytes] = set()
        self._missing_since_ms: dict[bytes, float] = {}

    def apply(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Take over a committed change of the cluster's metadata."""
        self._topics = image.topics_by_id
        self._seen_go.update(delta.deleted_topics)

    def look(self) -> Iterator[None]:
        """Begin what is due, one partition in a step."""
        led: dict[tuple[bytes, int], RemoteSegments] = {}
        missing: set[bytes] = set()
        for segments in list(self._parts.metadata.led()):
            if segments.topic_id not in self._topics:
                missing.add(segments.topic_id)
                if self._is_deleted(segments):
                    led[segments.topic_id, segments.partition] = segments
            yield
        for topic_id in [each for each in self._missing_since_ms if each not in missing]:
            del self._missing_since_ms[topic_id]
        for key in [each for each in self._under_way if each not in led]:
            del self._under_way[key]
        for key, segments in led.items():
            deletion = self._under_way.get(key)
            if deletion is None:
                log.info("Deleting partition %d of topic %s from the store", segments.partition, segments.topic)
                deletion = self._under_way[key] = PartitionDeletion(segments, self._parts.copy_settings().broker_id)
            self._go_on(key, deletion)
            yield

    def _is_deleted(self, segments: RemoteSegments) -> bool:
        """Whether a topic that is not in the cluster's metadata has been there."""
        topic_id = segments.topic_id
        if topic_id in self._seen_go or self._parts.metadata.deletion_of(topic_id, segments.partition) is not None:
            return True
        now_ms = self._parts.scheduler.monotonic_ms()
        since_ms = self._missing_since_ms.setdefault(topic_id, now_ms)
        return now_ms - since_ms >= MISSING_MS and self._pulse.beats

    def _go_on(self, key: tuple[bytes, int], deletion: PartitionDeletion) -> None:
        state = self._parts.metadata.deletion_of(*key)
        if state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self._under_way.pop(key, None)
            return
        now_ms, wall_ms = self._times()
        self._carry_out(key, deletion, deletion.next(state, now_ms, wall_ms))
        self._carry_out(key, deletion, deletion.segments.due(now_ms, wall_ms))

    def _carry_out(
        self, key: tuple[bytes, int], deletion: PartitionDeletion, effects: Iterable[deleting.Effect]
    ) -> None:
        for effect in effects:
            if isinstance(effect, AppendRecord):
                self._parts.metadata.write(effect.record, partial(self._written, key, deletion, effect.record))
            elif isinstance(effect, deleting.DeleteObjects):
                segment = effect.segment
                done = partial(self._deleted, key, deletion, segment.id.segment_id)
                self._parts.deleter(partial(self._parts.storage.delete, segment), done)

    def _written(self, key: tuple[bytes, int], deletion: PartitionDeletion, record: Any, refusal: str | None) -> None:
        if self._under_way.get(key) is not deletion:
            return
        if isinstance(record, RemoteLogSegmentUpdate):
            if refusal is not None:
                deletion.segments.failed(record.id.segment_id, refusal, self._times()[0])
            else:
                self._carry_out(key, deletion, deletion.segments.committed(record))
        elif refusal is not None:
            deletion.refused()
            return
        self._go_on(key, deletion)

    def _deleted(
        self,
        key: tuple[bytes, int],
        deletion: PartitionDeletion,
        segment_id: bytes,
        _result: None,
        error: BaseException | None,
    ) -> None:
        if self._under_way.get(key) is not deletion:
            return
        now_ms, wall_ms = self._times()
        if error is None:
            self._carry_out(key, deletion, deletion.segments.objects_deleted(segment_id, wall_ms))
        else:
            log.warning("A segment of a deleted topic is still in the store: %s", error)
            deletion.segments.failed(segment_id, str(error), now_ms)

    def _times(self) -> tuple[int, int]:
        return int(self._parts.scheduler.monotonic_ms()), self._parts.scheduler.now_ms()
