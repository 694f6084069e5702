"""Receives a snapshot of the leader part by part, and makes it one of this node's.

Not here: the choice of the snapshot, and its consequences. The quorum decides those, and the log continues behind the
snapshot.

Invariant: no file has a snapshot's name before it was checked up to its footer and flushed.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from kpybroker.hosts.quorum.metadata_log import MetadataLog, read_checkpoint
from kpybroker.machines.raft.control_records import read_control_batch
from kpybroker.machines.raft.events import SnapshotBroken, SnapshotInstalled, SnapshotPart
from kpybroker.machines.raft.messages import OffsetAndEpoch
from kpybroker.machines.raft.voters import VoterHistory
from kpystorage.snapshot import RawSnapshotWriter, SnapshotId, snapshot_name

if TYPE_CHECKING:
    from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.controller")


class SnapshotInstaller:
    """Installs one snapshot at a time. While one is made durable, any other counts as broken, even the same one
    again."""

    def __init__(
        self,
        scheduler: "Scheduler",
        metadata_log: MetadataLog,
        settled: Callable[[SnapshotInstalled | SnapshotBroken], object],
        failed: Callable[[BaseException], object],
    ) -> None:
        """``settled`` is called with the outcome of a whole snapshot; ``failed`` is called when the disk fails."""
        self._scheduler = scheduler
        self._log = metadata_log
        self._settled = settled
        self._failed = failed
        self._snapshot: OffsetAndEpoch | None = None
        self._writer: RawSnapshotWriter | None = None
        self._is_settling = False
        """Whether the last part has come and a thread is using the file."""

    def take(self, part: SnapshotPart) -> None:
        """Write one part. After the last one the snapshot is checked and made durable."""
        try:
            if part.position == 0 and not self._is_settling:
                self.abandon()
                self._snapshot = part.snapshot
                self._writer = self._log.receive_snapshot(SnapshotId(*part.snapshot))
            writer = self._writer
            if writer is None or self._snapshot != part.snapshot or writer.size != part.position:
                self._settled(SnapshotBroken(part.snapshot))
                return
            writer.append(part.data)
        except OSError as error:
            self._failed(error)
            return
        if part.is_last:
            self._writer, self._is_settling = None, True
            self._scheduler.submit_urgent(
                writer.read, lambda data, error: self._read(part.snapshot, writer, data, error)
            )

    def abandon(self) -> None:
        """Remove the unfinished snapshot: another one comes, or none. May raise OSError."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def _read(
        self, snapshot: OffsetAndEpoch, writer: RawSnapshotWriter, data: bytes | None, error: BaseException | None
    ) -> None:
        if error is not None or data is None:
            self._failed(error or OSError("nothing was read"))
        else:
            self._scheduler.in_pieces(self._check(snapshot, writer, data))

    def _check(self, snapshot: OffsetAndEpoch, writer: RawSnapshotWriter, data: bytes) -> Iterator[None]:
        history, is_whole = VoterHistory(), False
        try:
            for header, batch in read_checkpoint(data, snapshot_name(SnapshotId(*snapshot))):
                if header.is_control:
                    is_whole = read_control_batch(header, batch, history, snapshot.offset - 1)
                yield
        except ValueError as error:  # Malformed, or of a version that is not known here
            log.warning("The leader's snapshot cannot be used: %s", error)
            is_whole = False
        if not is_whole:
            with suppress(OSError):
                writer.abandon()
            self._is_settling = False
            self._settled(SnapshotBroken(snapshot))
            return
        self._scheduler.submit_urgent(writer.freeze, lambda _, error: self._frozen(snapshot, history, error))

    def _frozen(self, snapshot: OffsetAndEpoch, history: VoterHistory, error: BaseException | None) -> None:
        if error is not None:
            self._failed(error)
            return
        self._is_settling = False
        log.info("Installed the leader's snapshot %s", snapshot_name(SnapshotId(*snapshot)))
        self._settled(SnapshotInstalled(snapshot, history))
