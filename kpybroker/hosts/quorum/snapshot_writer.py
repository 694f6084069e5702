"""Writes snapshots of the published image in the background, and deletes old snapshots and the old part of the log.

The image is copied at once (partitions are immutable, so that is cheap), encoded in slices between which the loop runs,
and written in a thread. One snapshot at a time.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.snapshotting import SnapshotPolicy, expendable, is_due, snapshot_batches
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.raft.voters import VoterHistory
from kpystorage.errors import DiskFailure
from kpystorage.snapshot import SnapshotId

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler

SLICE_MS = 5


class SnapshotWriter:
    """Decides when a snapshot is due, and writes it."""

    def __init__(
        self,
        scheduler: "Scheduler",
        log: MetadataLog,
        history: VoterHistory,
        policy: SnapshotPolicy,
        bytes_since_snapshot: int,
        written: Callable[[SnapshotId, int], object],
        failed: Callable[[BaseException], None],
    ) -> None:
        """``written`` is called with each new snapshot and the new start of the log."""
        self._scheduler = scheduler
        self._log = log
        self._history = history
        self._policy = policy
        self._new_bytes = bytes_since_snapshot
        self._last_ms = scheduler.monotonic_ms()
        self._due_ms: float | None = None
        """The time since when a snapshot is due."""
        self._born_ms: dict[SnapshotId, float] = {}
        self._note_written = written
        self._failed = failed
        snapshots = log.snapshots()
        self._last_bytes = log.snapshot_size_bytes(snapshots[-1]) if snapshots else 0
        self._busy = False
        self._stopped = False

    def note(self, image: MetadataImage, new_bytes: int, last_timestamp_ms: int) -> None:
        """Note how much was committed and published; write a snapshot if one is due."""
        self._new_bytes += new_bytes
        if not self._is_due(image):
            return
        now_ms = self._scheduler.monotonic_ms()
        if self._due_ms is None:
            self._due_ms = now_ms
        if now_ms - self._due_ms >= self._policy.delay_ms:
            self._begin(image, last_timestamp_ms)

    def finish(self, image: MetadataImage, last_timestamp_ms: int) -> None:
        """Write a due snapshot at once, on a clean stop, when nothing waits for it any more. May raise DiskFailure or
        OSError."""
        if self._is_due(image):
            snapshot, batches = self._taken(image, last_timestamp_ms)
            self._log.write_snapshot(snapshot, list(batches))
            self._retain()

    def _is_due(self, image: MetadataImage) -> bool:
        settled = image.transaction_offset < 0 and image.metadata_version is not None
        since_last_ms = self._scheduler.monotonic_ms() - self._last_ms
        may_be = settled and not self._busy
        return may_be and is_due(self._policy, self._new_bytes, since_last_ms, self._last_bytes)

    def stop(self) -> None:
        """Write nothing more; the outcome of a running thread is ignored."""
        self._stopped = True

    def _begin(self, image: MetadataImage, last_timestamp_ms: int) -> None:
        self._busy = True
        self._due_ms = None
        self._new_bytes = 0
        self._last_ms = self._scheduler.monotonic_ms()
        self._encode(*self._taken(image, last_timestamp_ms), [])

    def _taken(self, image: MetadataImage, last_timestamp_ms: int) -> tuple[SnapshotId, Iterator[bytes]]:
        snapshot = SnapshotId(image.next_offset, image.epoch)
        history = self._history.as_of(image.next_offset)
        return snapshot, snapshot_batches(image.copy(), history, last_timestamp_ms, self._scheduler.now_ms())

    def _encode(self, snapshot: SnapshotId, batches: Iterator[bytes], done: list[bytes]) -> None:
        if self._stopped:
            return
        until_ms = self._scheduler.monotonic_ms() + SLICE_MS
        for batch in batches:
            done.append(batch)
            if self._scheduler.monotonic_ms() >= until_ms:
                self._scheduler.call_later(0, self._encode, snapshot, batches, done)
                return
        self._last_bytes = sum(map(len, done))
        self._scheduler.submit_blocking(
            lambda: self._log.write_snapshot(snapshot, done), lambda _, error: self._written(snapshot, error)
        )

    def _written(self, snapshot: SnapshotId, error: BaseException | None) -> None:
        self._busy = False
        if self._stopped:
            return
        if error is not None:
            self._failed(error)
            return
        self._born_ms[snapshot] = self._scheduler.monotonic_ms()
        try:
            self._retain()
        except (DiskFailure, OSError) as failure:
            self._failed(failure)
            return
        self._note_written(snapshot, self._log.start_offset)

    def _retain(self) -> None:
        """Delete the snapshots that retention does not keep, and the part of the log that the oldest remaining one
        stands for."""
        # One of the leader's beyond the log's end has just come: the log is about to start again behind it.
        snapshots = [known for known in self._log.snapshots() if known.end_offset <= self._log.next_offset]
        now_ms = self._scheduler.monotonic_ms()
        ages_ms = [now_ms - self._born_ms.get(snapshot, now_ms) for snapshot in snapshots]
        sizes_bytes = [self._log.snapshot_size_bytes(snapshot) for snapshot in snapshots]
        gone = expendable(snapshots, sizes_bytes, ages_ms, self._log.size_bytes, self._policy)
        if gone:
            self._log.truncate_below(snapshots[len(gone)].end_offset, self._scheduler.now_ms())
        for snapshot in gone:
            self._log.delete_snapshot(snapshot)
            self._born_ms.pop(snapshot, None)
