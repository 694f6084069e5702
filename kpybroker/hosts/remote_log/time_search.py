"""Searches by time among records that only the store has (``RemoteLogManager.findOffsetByTimestamp``)."""

import logging
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.role import Role
from kpybroker.machines.remote_log import lineage
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.io.scheduler import Scheduler, Submit, Timer
from kpystorage.errors import CorruptObject
from kpywire import error_codes

log = logging.getLogger("kpybroker.tiered")


class TimeSearches:
    """The searches of one node. The oldest segment that may have the record is searched first."""

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
        """Begin a search below the part on the disk; None if no segment can have such a record. The `Pending` resolves
        to an OffsetForTimestamp, to None, or to a KafkaError: REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR."""
        log = role.log
        start, until = log.log_start_offset, log.local_log_start_offset
        candidates = [
            each
            for each in lineage.lineage(segments, log.end.offset, log.epochs.entries())
            if each.max_timestamp_ms >= timestamp and each.end_offset >= start and each.start_offset < until
        ]
        if not candidates:
            return None
        candidates.sort(key=lambda each: each.start_offset)
        pending = Pending()
        timer = self._scheduler.call_later(self._timeout_ms(), self._timed_out, pending, role.name)
        self._next(pending, timer, role, iter(candidates), timestamp, start)
        return pending

    def _timed_out(self, pending: Pending, name: str) -> None:
        if not pending.resolved:
            expired = self._figures.expired_list_offsets
            expired[name] = expired.get(name, 0) + 1
            pending.resolve(KafkaError(error_codes.REQUEST_TIMED_OUT))

    def _next(
        self, pending: Pending, timer: Timer, role: Role, left: Iterator[RemoteLogSegment], timestamp: int, start: int
    ) -> None:
        segment = next(left, None)
        if segment is None:
            self._resolve(pending, timer, None)
            return
        work = partial(
            segment_reads.find_timestamp,
            self._storage,
            segment,
            timestamp,
            start,
            role.log.config.max_decompressed_message_bytes,
        )

        def searched(found: Any, error: BaseException | None) -> None:
            if pending.resolved:
                return
            if error is not None:
                words = str(error) if isinstance(error, StoreFailed | CorruptObject) else f"a defect: {error!r}"
                self._figures.of(role.log.topic).fetch_errors += 1
                log.warning("%s: the store was not searched by time: %s", role.name, words)
                self._resolve(pending, timer, KafkaError(error_codes.KAFKA_STORAGE_ERROR))
            elif found is not None:
                self._resolve(pending, timer, found)
            else:
                self._next(pending, timer, role, left, timestamp, start)

        self._reader(work, searched)

    def _resolve(self, pending: Pending, timer: Timer, answer: Any) -> None:
        timer.cancel()
        if not pending.resolved:
            pending.resolve(answer)
