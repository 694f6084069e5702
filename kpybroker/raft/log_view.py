"""The metadata log as the quorum has decided it: where it begins and ends, and which epoch wrote what.

The files follow: :meth:`LogView.take` hands out what they still lack, and ``synced_offset`` says up to where they are
durable. Pure.

Invariant: a batch is never of an earlier epoch than the one before it.
"""

from collections import deque
from typing import NamedTuple

from kpybroker.raft.messages import OffsetAndEpoch
from kpystorage.leader_epochs import UNDEFINED_EPOCH, LeaderEpochs
from kpywire.batch import parse_header


class FileWork(NamedTuple):
    """What the files lack, to be done in this order."""

    truncate_to: int | None
    start_at: int | None
    """Empty the log; it goes on there."""
    batches: list[bytes]


class LogView:
    """Begin, end, epochs and durability of one replica of the log."""

    __slots__ = (
        "_batches", "_is_truncating", "_start_at", "_taken_offset", "_truncate_to", "epochs", "next_offset",
        "snapshot", "start_epoch", "start_offset", "synced_offset",
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
    ) -> None:
        """``snapshot`` is the newest one; it stands for everything below its offset. ``start_epoch`` is that of the
        record before the log's start.
        """
        self.next_offset = next_offset
        self.epochs = epochs
        self.start_offset = start_offset
        self.start_epoch = start_epoch
        self.snapshot = snapshot
        self.synced_offset = synced_offset
        self._batches: deque[bytes] = deque()
        self._taken_offset = next_offset
        self._truncate_to: int | None = None
        self._start_at: int | None = None
        self._is_truncating = False

    @property
    def end(self) -> OffsetAndEpoch:
        """Where the log ends, and the epoch of its last record; 0 of an empty one, as in Kafka."""
        latest = self.epochs.latest
        if latest == UNDEFINED_EPOCH:
            latest = 0 if self.snapshot is None else self.snapshot.epoch
        return OffsetAndEpoch(self.next_offset, latest)

    @property
    def taken_offset(self) -> int:
        """Where what the files have, or were given to write, ends."""
        return self._taken_offset

    @property
    def is_truncating(self) -> bool:
        """Whether the files still hold what was cut off."""
        return self._is_truncating

    @property
    def is_durable(self) -> bool:
        """Whether all of it is on disk, and nothing else."""
        return self.synced_offset >= self.next_offset and not self._is_truncating

    def append(self, batch: bytes) -> None:
        """Put a batch at the end."""
        header = parse_header(batch)
        self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        self.next_offset = header.next_offset
        self._batches.append(batch)

    def take(self) -> FileWork:
        """What the files lack, each thing once."""
        taken = FileWork(self._truncate_to, self._start_at, list(self._batches))
        self._truncate_to = self._start_at = None
        self._batches.clear()
        self._taken_offset = self.next_offset
        return taken

    @property
    def has_work(self) -> bool:
        """Whether the files lack anything that has not been taken."""
        return bool(self._batches) or self._truncate_to is not None or self._start_at is not None

    def truncated(self) -> None:
        """The files were cut, unless they have to be once more."""
        self._is_truncating = self._truncate_to is not None or self._start_at is not None

    def synced(self, next_offset: int) -> bool:
        """The files are durable up to an offset; False where that is said of what is being cut."""
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
        """Whether a replica that ends like this has to take the snapshot first (``validateOffsetAndEpoch``).

        So has one whose epoch ended before this log begins: where, nobody can tell it any more.
        """
        if self.snapshot is None or (offset == 0 and self.snapshot.offset == 0):
            return False
        if offset == 0 or offset < self.start_offset or last_fetched_epoch < self.start_epoch:
            return True
        return 0 < offset == self.start_offset and last_fetched_epoch != self.start_epoch

    def lacks(self, snapshot: OffsetAndEpoch) -> bool:
        """Whether this log does not hold what a leader's snapshot stands for (``truncateToLatestSnapshot``)."""
        return (snapshot.epoch, snapshot.offset) > (self.end.epoch, self.end.offset)

    def diverging(self, offset: int, last_fetched_epoch: int) -> OffsetAndEpoch | None:
        """Where the log of a replica that ends like this has to be cut; None if it is the beginning of this one."""
        if offset == 0 and self.start_offset == 0:
            return None
        end = self.end_of(last_fetched_epoch)
        return None if end.epoch == last_fetched_epoch and offset <= end.offset else end

    def cut_for(self, diverging: OffsetAndEpoch) -> int:
        """Where this log is to be cut when the leader says that the logs part there."""
        end = self.end_of(diverging.epoch)
        return min(end.offset, diverging.offset) if end.epoch == diverging.epoch else end.offset

    def truncate_to(self, offset: int) -> None:
        """Cut off what is at ``offset`` and behind it."""
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
        """A snapshot was installed: the log begins anew behind it."""
        self.epochs.clear()
        self._batches.clear()
        self.snapshot = snapshot
        self._truncate_to, self._start_at = None, snapshot.offset
        self._is_truncating = True
        self.start_offset = self.next_offset = self.synced_offset = self._taken_offset = snapshot.offset
        self.start_epoch = snapshot.epoch

    def begins_at(self, snapshot: OffsetAndEpoch, start_offset: int) -> None:
        """``snapshot`` is the newest one now, and what is before ``start_offset`` is not kept any more."""
        self.snapshot = snapshot
        if start_offset > self.start_offset:
            self.start_epoch = self.epochs.epoch_for(start_offset - 1)
            self.start_offset = start_offset
            self.epochs.truncate_from_start(start_offset)


def log_view(next_offset: int, last_epoch: int) -> LogView:
    """The view of a log of which nobody has to know more than how it ends."""
    epochs = LeaderEpochs([(last_epoch, 0)] if last_epoch >= 0 else [])
    return LogView(next_offset, epochs, synced_offset=next_offset)
