"""Reading a partition of ``__remote_log_metadata`` that this node leads: its log, up to the high watermark.

Slices are read in a thread and applied in pieces, one at a time. The end that a new view has to reach is that of the
log: a new leader may not know yet that it is committed, and another node may act on it already.
"""

import logging
from collections.abc import Iterator
from typing import Final

from kpybroker.hosts.remote_log.metadata_view import MetadataView
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.replicas import Replicas
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.runtime.io.scheduler import Scheduler
from kpystorage.errors import DiskFailure, StorageError
from kpystorage.log_slice import LogSlice
from kpywire import error_codes
from kpywire.errors import Malformed

log = logging.getLogger("kpybroker.remote_log")

SLICE_BYTES: Final = 1 << 20
AGAIN_MS: Final = 1_000


class LedMetadataLog:
    """One such log, until it is led elsewhere."""

    def __init__(self, view: MetadataView, replica: Replica, scheduler: Scheduler, replicas: Replicas) -> None:
        self._view = view
        self._replica = replica
        self._scheduler = scheduler
        self._replicas = replicas
        self._is_busy = self._is_over = False
        self._problem = ""
        """The last reason for which nothing was read, which is logged once."""
        replica.commit_waits[self] = None
        view.begin(self)

    def stop(self) -> None:
        """Read nothing more."""
        self._is_over = True
        self._replica.commit_waits.pop(self, None)

    def look(self) -> None:
        """Read on."""
        self.check()

    def check(self) -> None:
        """Read on, since the high watermark or the leadership may have changed. Called by the replica."""
        if self._is_busy or self._is_over or not self._replica.is_led_here:
            return
        self._is_busy = True
        try:
            found = self._next()
        except (KafkaError, StorageError) as error:
            if isinstance(error, DiskFailure):
                self._replicas.directory_failed(error)
            self._failed(str(error))
            return
        if found is None:
            self._is_busy = False
            self._view.reached()
        else:
            self._scheduler.submit_blocking(found.read, self._got)

    def _next(self) -> LogSlice | None:
        """The next slice of the log; None at the high watermark."""
        leader, view = self._replica.led(), self._view
        start, end = leader.log.log_start_offset, leader.log.log_end_offset
        if view.next_offset < start:
            view.begins_later(start)
        elif view.next_offset > end or _diverges(leader, view):
            view.begin_again(start)
        if view.ready_at is None:
            view.ready_at = end
        committed = leader.high_watermark
        if view.next_offset >= committed.offset:
            return None
        return leader.log.read(view.next_offset, SLICE_BYTES, committed, min_one_batch=True)

    def _got(self, data: bytes | None, error: BaseException | None) -> None:
        if self._is_over:
            return
        if data is None:
            self._failed(str(error))
        else:
            self._problem = ""
            self._scheduler.in_pieces(self._apply(data))

    def _apply(self, data: bytes) -> Iterator[None]:
        try:
            yield from self._view.steps(data)
        except Malformed as error:
            self._failed(str(error))
            return
        self._is_busy = False
        self.check()

    def _failed(self, reason: str) -> None:
        if reason != self._problem:
            self._problem = reason
            log.error("%s cannot be read, it is tried again: %s", self._view, reason)
        self._scheduler.call_later(AGAIN_MS, self._again)

    def _again(self) -> None:
        self._is_busy = False
        self.check()


def _diverges(leader: PartitionLeader, view: MetadataView) -> bool:
    """Whether the log has other records than those that were read: its leader was elected uncleanly."""
    if view.last_epoch < 0:
        return False
    try:
        return leader.divergence(view.last_epoch, view.next_offset) is not None
    except KafkaError as error:
        if error.code != error_codes.OFFSET_OUT_OF_RANGE:
            raise
        return True
