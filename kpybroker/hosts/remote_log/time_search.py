"""Searches by time among records that only the store has (``RemoteLogManager.findOffsetByTimestamp``)."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from itertools import takewhile
from typing import Any

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.remote_storage import ObjectMissing, RemoteStorage, StoreFailed
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import lineage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import CopiedRange
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler, Submit, Timer
from kpystorage.errors import CorruptObject
from kpywire import error_codes

log = logging.getLogger("kpybroker.tiered")


class TimeSearches:
    """The searches of one node. The oldest copy that may have the record is searched first."""

    def __init__(
        self,
        scheduler: Scheduler,
        storage: RemoteStorage,
        reader: Submit,
        timeout_ms: Callable[[], float],
        figures: TierFigures,
    ) -> None:
        """``timeout_ms`` is ``remote.list.offsets.request.timeout.ms``."""
        self._scheduler = scheduler
        self._storage = storage
        self._reader = reader
        self._timeout_ms = timeout_ms
        self._figures = figures

    def find(self, role: Role, segments: RemoteSegments, timestamp: int) -> Pending | None:
        """Begin a search below the part on the disk; None if there is nothing below it. The `Pending` resolves
        to an OffsetForTimestamp, to None, or to a KafkaError: REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR."""
        log = role.log
        search = _TimeSearch(role, segments, timestamp, log.log_start_offset, log.local_log_start_offset)
        if search.start >= search.until:
            return None
        search.timer = self._scheduler.call_later(self._timeout_ms(), self._timed_out, search)
        self._scheduler.in_pieces(self._next(search))
        return search.pending

    def _timed_out(self, search: "_TimeSearch") -> None:
        expired, name = self._figures.expired_list_offsets, search.role.name
        expired[name] = expired.get(name, 0) + 1
        self._resolve(search, KafkaError(error_codes.REQUEST_TIMED_OUT))

    def _next(self, search: "_TimeSearch") -> Iterator[None]:
        """Have the next copy searched that may have the record."""
        number = 0
        copy = next(search.left, None)
        while copy is not None or search.is_outdated:
            if search.is_outdated:
                search.begin_again()
            elif copy is not None and copy.segment.max_timestamp_ms >= search.timestamp:
                self._search(search, copy)
                return
            copy = next(search.left, None)
            number += 1
            if number % lineage.STEP_SEGMENTS == 0:
                yield
        self._resolve(search, None)

    def _search(self, search: "_TimeSearch", copy: CopiedRange) -> None:
        most = search.role.log.config.max_decompressed_message_bytes
        work = partial(segment_reads.find_timestamp, self._storage, copy, search.timestamp, most)
        self._reader(work, partial(self._searched, search, copy))

    def _searched(self, search: "_TimeSearch", copy: CopiedRange, found: Any, error: BaseException | None) -> None:
        if search.pending.resolved:
            return
        role = search.role
        if isinstance(error, ObjectMissing) and search.is_outdated:
            self._scheduler.in_pieces(self._next(search))  # another segment has taken its place
        elif error is not None:
            words = str(error) if isinstance(error, StoreFailed | CorruptObject) else f"a defect: {error!r}"
            self._figures.of(role.log.topic).fetch_errors += 1
            log.warning("%s: the store was not searched by time: %s", role.name, words)
            self._resolve(search, KafkaError(error_codes.KAFKA_STORAGE_ERROR))
        elif found is not None:
            self._resolve(search, found)
        else:
            search.start = copy.end_offset
            self._scheduler.in_pieces(self._next(search))

    @staticmethod
    def _resolve(search: "_TimeSearch", answer: Any) -> None:
        if search.timer is not None:
            search.timer.cancel()
        if not search.pending.resolved:
            search.pending.resolve(answer)


class _TimeSearch:
    """One search, through the copies that a reader gets one after the other. (Kafka searches the segments that lie in
    its log's history as a whole, so it misses the records of one whose first epoch the log no longer knows.)"""

    def __init__(self, role: Role, segments: RemoteSegments, timestamp: int, start: int, until: int) -> None:
        self.role = role
        self.timestamp = timestamp
        self.start = start
        self.until = until
        self._segments = segments
        self.begin_again()
        self.pending = Pending()
        self.timer: Timer | None = None

    def begin_again(self) -> None:
        """List the copies again, since some may have taken the place of others."""
        self._deletions = self._segments.deletions
        copies = lineage.copies(self._segments, self.role.log.epochs.entries(), self.start)
        self.left = takewhile(lambda each: each.start_offset < self.until, copies)

    @property
    def is_outdated(self) -> bool:
        """Whether segments were deleted since they were listed."""
        return self._segments.deletions != self._deletions
