"""The times of batches that are in the store alone, for the lag in time of readers that are so far behind.

One header of a batch is read for each position, few at a time, so clients that read from the store hardly notice; then
the time is kept. Not here: records (`kpybroker.hosts.remote_log.reads`).

Invariant: a time that is known is that of the first batch at or behind its position, in the log's own history.
"""

import logging
from collections import OrderedDict
from functools import partial
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage
from kpybroker.machines.lag import NO_TIME, first_ms
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import lineage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.runtime.io.scheduler import Scheduler, Submit
from kpywire.batch import BatchHeader

log = logging.getLogger("kpybroker.tiered")

MOST_AT_ONCE: Final = 2
"""The threads that read headers; the others of the pool are left to clients."""
MOST_WAITING: Final = 1_000
MOST_KNOWN: Final = 20_000
FAILED_MS: Final = 5_000.0
"""The time for which the store is left alone after a read that failed."""


class StoredPosition(NamedTuple):
    """A position in a log, in the history of one leadership."""

    topic_id: bytes
    partition: int
    leader_epoch: int
    offset: int


class _Search(NamedTuple):
    """The search for the first batch at a position, in one segment after the other."""

    role: Role
    segments: RemoteSegments
    segment: RemoteLogSegment
    offset: int
    """The offset from which the segment is searched."""

    @classmethod
    def at(cls, role: Role, segments: RemoteSegments, offset: int) -> "_Search | None":
        """The search from an offset on; None if the store has no such record."""
        segment = lineage.segment_for(segments, role.log.epochs.entries(), offset)
        return None if segment is None or segment.next_offset <= offset else cls(role, segments, segment, offset)

    def following(self) -> "_Search | None":
        """The search in the next segment, as after compaction."""
        return _Search.at(self.role, self.segments, self.segment.next_offset)

    def until(self) -> int:
        """The offset from which on the segment is no copy of the log's own history."""
        agreed = lineage.agrees_until(self.segment, self.role.log.epochs.entries(), self.offset)
        return min(agreed, self.role.high_watermark.offset)


class FirstTimes:
    """The times that are known, and those that are being read."""

    def __init__(self, scheduler: Scheduler, storage: RemoteStorage, reader: Submit) -> None:
        """``reader`` is the pool of threads."""
        self._scheduler = scheduler
        self._storage = storage
        self._reader = reader
        self._known: OrderedDict[StoredPosition, int] = OrderedDict()
        self._waiting: OrderedDict[StoredPosition, _Search] = OrderedDict()
        self._under_way: set[StoredPosition] = set()
        self._not_before_ms = 0.0

    def at(self, position: StoredPosition, role: Role, segments: RemoteSegments) -> int | None:
        """The time of the first batch at or behind a position, in ms, `NO_TIME` if it has none; None while it is being
        read, or cannot be."""
        found = self._known.get(position)
        if found is not None:
            self._known.move_to_end(position)
            return found
        if position in self._under_way or position in self._waiting or len(self._waiting) >= MOST_WAITING:
            return None
        search = _Search.at(role, segments, position.offset)
        if search is not None:
            self._waiting[position] = search
            self._go_on()
        return None

    def _go_on(self) -> None:
        """Read what waits, as far as there are threads for it. After a failure nothing is read for a while: what is
        still wanted then is asked for again."""
        if self._scheduler.monotonic_ms() < self._not_before_ms:
            self._waiting.clear()
        while self._waiting and len(self._under_way) < MOST_AT_ONCE:
            position, search = self._waiting.popitem(last=False)
            self._under_way.add(position)
            self._read(position, search)

    def _read(self, position: StoredPosition, search: _Search) -> None:
        work = partial(segment_reads.first_header, self._storage, search.segment, search.offset, search.until())
        self._reader(work, partial(self._done, position, search))

    def _done(
        self, position: StoredPosition, search: _Search, header: BatchHeader | None, error: BaseException | None
    ) -> None:
        following = search.following() if error is None and header is None else None
        if following is not None:
            self._read(position, following)
            return
        self._under_way.discard(position)
        if error is not None:
            self._not_before_ms = self._scheduler.monotonic_ms() + FAILED_MS
            log.info("The time of the record at offset %d was not read from the store: %s", position.offset, error)
        else:
            self._known[position] = NO_TIME if header is None else first_ms(header)
            if len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        self._go_on()
