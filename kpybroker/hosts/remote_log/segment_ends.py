"""The state of a log at the end of a segment in the store: its leader epochs and its producers.

A log that begins behind the segment begins with them. They are fetched in threads, some at a time, in the order asked.
"""

import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpystorage import producer_snapshot
from kpystorage.checkpoint import parse_epochs
from kpystorage.errors import CorruptFile, CorruptObject
from kpystorage.remote.indexes import IndexType

log = logging.getLogger("kpybroker.tiering")

AT_ONCE: Final = 32
"""The number of segments whose state is fetched at the same time."""

Submit = Callable[[Callable[[], Any], Callable[[Any, BaseException | None], object]], object]
"""Runs work in a thread, and then a callback on the loop, as `kpybroker.runtime.io.scheduler.Scheduler` does."""


class SegmentEnd(NamedTuple):
    """The state of a log at the end of a segment."""

    epochs: tuple[tuple[int, int], ...]
    producer_snapshot: bytes


def segment_end(storage: RemoteStorage, segment: RemoteLogSegment) -> SegmentEnd:
    """Fetch the state at the end of a segment; this blocks. StoreFailed, also if it is damaged."""
    where = f"of the segment at offset {segment.start_offset} of {segment.id.topic}-{segment.id.partition} in the store"
    try:
        epochs = tuple(parse_epochs(_index(storage, segment, IndexType.LEADER_EPOCH), f"the leader epochs {where}"))
        producers = _index(storage, segment, IndexType.PRODUCER_SNAPSHOT)
        producer_snapshot.parse(producers, f"the producer snapshot {where}")
    except (CorruptFile, CorruptObject) as error:
        raise StoreFailed(f"damaged: {error}") from error
    if any(epoch < 0 or start_offset < 0 for epoch, start_offset in epochs):
        raise StoreFailed(f"damaged: the leader epochs {where} have a negative number: {epochs[:20]}")
    return SegmentEnd(epochs, producers)


def _index(storage: RemoteStorage, segment: RemoteLogSegment, index: IndexType) -> bytes:
    found = storage.index(segment, index)
    if not found:
        raise StoreFailed(f"the store has no {index.value} of the segment {segment.id.segment_id.hex()}")
    return bytes(found)


class SegmentEnds:
    """The states at the ends of segments, as they are asked for."""

    def __init__(self, storage: RemoteStorage, submit: Submit) -> None:
        self._storage = storage
        self._submit = submit
        self._line: deque[tuple[RemoteLogSegment, Callable[[SegmentEnd | str], object]]] = deque()
        self._running = 0

    def fetch(self, segment: RemoteLogSegment, done: Callable[[SegmentEnd | str], object]) -> None:
        """Fetch one. ``done`` gets it, or the reason of a failure, in a later turn of the loop."""
        self._line.append((segment, done))
        self._fetch_some()

    def _fetch_some(self) -> None:
        while self._line and self._running < AT_ONCE:
            segment, done = self._line.popleft()
            self._running += 1
            self._submit(partial(segment_end, self._storage, segment), partial(self._fetched, done))

    def _fetched(
        self, done: Callable[[SegmentEnd | str], object], result: SegmentEnd | None, error: BaseException | None
    ) -> None:
        self._running -= 1
        self._fetch_some()
        if result is not None:
            done(result)
            return
        if not isinstance(error, StoreFailed):
            log.error("A segment's indexes could not be fetched because of a defect", exc_info=error)
        done(str(error) or type(error).__name__)
