"""The metadata log as the quorum has decided it: its start, its end, and the epochs of its records.

The files follow: :meth:`LogView.take` hands out what they still lack, and ``synced_offset`` is the offset up to which
they are durable. Pure.

Invariant: a batch is never of an earlier epoch than the one before it.
"""

from collections import deque
from typing import NamedTuple

from kpybroker.machines.raft.messages import OffsetAndEpoch
from kpystorage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from kpywire.batch import parse_header


class FileWork(NamedTuple):
    """Changes that the files lack, to be made in this order."""

    truncate_to: int | None
    start_at: int | None
    """If set: empty the log and continue at this offset."""
    batches: list[bytes]


class LogView:
    """The start, end, epochs and durability of one replica of the log."""

    __slots__ = (
        "_batches", "_is_truncating", "_start_at", "_taken_offset", "_truncate_to", "epochs", "next_offset",
        "promised", "snapshot", "start_epoch", "start_offset", "synced_offset",
    )  # fmt: skip

    def __init__(
        self,
        next_offset: int,
        epochs: LeaderEpochs,
        *,
        synced_offset: int,
        start_offset: int = 0,
        start_epoch: int = UNDEFINED_EPOCH,
        snapshot: OffsetAndEpoch | None = None,
        promised: OffsetAndEpoch | None = None,
    ) -> None:
        """``snapshot`` is the newest one; it stands for everything below its offset. ``start_epoch`` is the epoch of
        the record before the log's start. ``promised`` is the former end of the log, if it has lost records since."""
        self.next_offset = next_offset
        self.epochs = epochs
        self.start_offset = start_offset
        self.start_epoch = start_epoch
        self.snapshot = snapshot
        self.synced_offset = synced_offset
        self.promised = promised
        self._batches: deque[bytes] = deque()
        self._taken_offset = next_offset
        self._truncate_to: int | None = None
        self._start_at: int | None = None
        self._is_truncating = False

    @property
    def end(self) -> OffsetAndEpoch:
        """The end of the log, and the epoch of its last record; 0 for an empty log, as in Kafka."""
        latest = self.epochs.latest
        if latest == UNDEFINED_EPOCH:
            latest = 0 if self.snapshot is None else self.snapshot.epoch
        return OffsetAndEpoch(self.next_offset, latest)

    @property
    def has_lost(self) -> bool:
        """Whether records are missing that this node may have acknowledged. Then it cannot lead, and does not vote for
        a node that lacks them too."""
        return self.promised is not None and (self.end.epoch, self.end.offset) < (
            self.promised.epoch,
            self.promised.offset,
        )

    @property
    def acknowledged_end(self) -> OffsetAndEpoch:
        """The end of the log as far as this node has acknowledged it to others."""
        return self.promised if self.promised is not None and self.has_lost else self.end

    @property
    def taken_offset(self) -> int:
        """The end of the batches that the files hold or were given to write."""
        return self._taken_offset

    @property
    def is_truncating(self) -> bool:
        """Whether the files still hold records that were cut off."""
        return self._is_truncating

    @property
    def is_durable(self) -> bool:
        """Whether the files durably hold the whole log, and nothing else."""
        return self.synced_offset >= self.next_offset and not self._is_truncating

    def append(self, batch: bytes) -> None:
        """Put a batch at the end."""
        header = parse_header(batch)
        self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self.next_offset = header.next_offset
        self._batches.append(batch)

    def take(self) -> FileWork:
        """Return the changes that the files lack; each is returned once."""
        taken = FileWork(self._truncate_to, self._start_at, list(self._batches))
        self._truncate_to = self._start_at = None
        self._batches.clear()
        self._taken_offset = self.next_offset
        return taken

    @property
    def has_work(self) -> bool:
        """Whether the files lack changes that have not been taken."""
        return bool(self._batches) or self._truncate_to is not None or self._start_at is not None

    def truncated(self) -> None:
        """Note that the files were cut, unless they have to be cut once more."""
        self._is_truncating = self._truncate_to is not None or self._start_at is not None

    def synced(self, next_offset: int) -> bool:
        """Note that the files are durable up to an offset. Return False if records are being cut off, as the offset may
        be of those."""
        if self._is_truncating:
            return False
        self.synced_offset = min(next_offset, self.next_offset)
        return True

    def end_of(self, epoch: int) -> OffsetAndEpoch:
        """The largest epoch not above ``epoch``, and where it ends (``ReplicatedLog.endOffsetForEpoch``)."""
        found, end_offset = self.epochs.end_offset_for(epoch, self.next_offset)
        if found != UNDEFINED_EPOCH:
            return OffsetAndEpoch(end_offset, found)
        if epoch >= self.end.epoch:
            return self.end
        return self.snapshot or OffsetAndEpoch(self.start_offset, epoch)

    def needs_snapshot(self, offset: int, last_fetched_epoch: int) -> bool:
        """Whether a replica whose log ends like this has to take the snapshot first (``validateOffsetAndEpoch``).

        This includes a replica whose epoch ended before this log begins: nothing here shows where it ended.
        """
        if self.snapshot is None or (offset == 0 and self.snapshot.offset == 0):
            return False
        if offset == 0 or offset < self.start_offset or last_fetched_epoch < self.start_epoch:
            return True
        return offset == self.start_offset and last_fetched_epoch != self.start_epoch

    def lacks(self, snapshot: OffsetAndEpoch) -> bool:
        """Whether this log lacks records that a leader's snapshot stands for (``truncateToLatestSnapshot``)."""
        return (snapshot.epoch, snapshot.offset) > (self.end.epoch, self.end.offset)

    def diverging(self, offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | None:
        """The place where the log of a replica that ends like this has to be cut; None if it is a prefix of this
        one."""
        if offset == 0 and self.start_offset == 0:
            return None
        end = self.end_of(last_fetched_epoch)
        return None if end.epoch == last_fetched_epoch and offset <= end.offset else end

    def cut_for(self, diverging: OffsetAndEpoch) -> int:
        """The offset where this log must be cut when the leader reports that the logs diverge."""
        end = self.end_of(diverging.epoch)
        return min(end.offset, diverging.offset) if end.epoch == diverging.epoch else end.offset

    def truncate_to(self, offset: int) -> None:
        """Cut off everything from ``offset`` on."""
        while self._batches and parse_header(self._batches[-1]).base_offset >= offset:
            self._batches.pop()
        if offset < self._taken_offset:
            self._truncate_to = offset if self._truncate_to is None else min(self._truncate_to, offset)
            self._taken_offset = offset
            self._is_truncating = True
        self.epochs.truncate_from_end(offset)
        self.next_offset = offset
        self.synced_offset = min(self.synced_offset, offset)

    def replace_by(self, snapshot: OffsetAndEpoch) -> None:
        """Note that a snapshot was installed: the log continues behind it."""
        self.epochs.clear()
        self._batches.clear()
        self.snapshot = snapshot
        self._truncate_to, self._start_at = None, snapshot.offset
        self._is_truncating = True
        self.start_offset = self.next_offset = self.synced_offset = self._taken_offset = snapshot.offset
        self.start_epoch = snapshot.epoch

    def begins_at(self, snapshot: OffsetAndEpoch, start_offset: int) -> None:
        """Note that ``snapshot`` is the newest one now, and that records before ``start_offset`` are no longer kept."""
        self.snapshot = snapshot
        if start_offset > self.start_offset:
            self.start_epoch = self.epochs.epoch_for(start_offset - 1)
            self.start_offset = start_offset
            self.epochs.truncate_from_start(start_offset)


def log_view(next_offset: int, last_epoch: int) -> LogView:
    """The view of a log of which only the end matters."""
    epochs = LeaderEpochs([(last_epoch, 0)] if last_epoch >= 0 else [])
    return LogView(next_offset, epochs, synced_offset=next_offset)
