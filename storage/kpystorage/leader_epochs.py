"""A log's leader epochs and the offsets where they began (Kafka's LeaderEpochFileCache). Pure: the log writes the file.

Invariant: epochs and start offsets both ascend strictly.
"""

from bisect import bisect_right
from collections.abc import Iterable
from typing import Final

UNDEFINED_EPOCH: Final = -1
UNDEFINED_OFFSET: Final = -1
Epochs = Iterable[tuple[int, int]]
"""(epoch, start offset) pairs, ascending, as a checkpoint holds them."""


class LeaderEpochs:
    """The epochs of one log. ``dirty`` means that the checkpoint on disk is behind."""

    __slots__ = ("_epochs", "_start_offsets", "dirty", "latest")

    def __init__(self, entries: Epochs = ()) -> None:
        self._epochs: list[int] = []
        self._start_offsets: list[int] = []
        self.latest = UNDEFINED_EPOCH
        self.dirty = False
        for epoch, start_offset in entries:
            self.assign(epoch, start_offset)
        self.dirty = False

    def entries(self) -> list[tuple[int, int]]:
        """(epoch, start offset) pairs, ascending."""
        return list(zip(self._epochs, self._start_offsets, strict=True))

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Note that ``epoch`` begins at ``start_offset``. Return whether that was news.

        Entries that contradict it (not below in both) are removed: they belong to records that were truncated.
        """
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"epoch {epoch} and its start offset {start_offset} must not be negative")
        if epoch == self.latest and start_offset >= self._start_offsets[-1]:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._start_offsets[-1] >= start_offset):
            del self._epochs[-1], self._start_offsets[-1]
        self._epochs.append(epoch)
        self._start_offsets.append(start_offset)
        self._changed()
        return True

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """(the largest epoch not above ``epoch``, where it ends); (-1, -1) above all known (KIP-101, KIP-279).

        The latest epoch ends at the log end. An epoch before the first known one ends where that one starts.
        """
        if epoch == UNDEFINED_EPOCH:
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        if epoch == self.latest:
            return epoch, log_end_offset
        following = bisect_right(self._epochs, epoch)
        if following == len(self._epochs):
            return UNDEFINED_EPOCH, UNDEFINED_OFFSET
        end_offset = self._start_offsets[following]
        return (self._epochs[following - 1] if following else epoch), end_offset

    def epoch_for(self, offset: int) -> int:
        """The epoch of the records at ``offset``; -1 below the first known one."""
        following = bisect_right(self._start_offsets, offset)
        return self._epochs[following - 1] if following else UNDEFINED_EPOCH

    @property
    def earliest(self) -> tuple[int, int] | None:
        """The first (epoch, start offset), None if there is none."""
        return (self._epochs[0], self._start_offsets[0]) if self._epochs else None

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget the epochs that start at or behind ``end_offset``."""
        keep = len(self._start_offsets)
        while keep and self._start_offsets[keep - 1] >= end_offset:
            keep -= 1
        if keep < len(self._epochs):
            del self._epochs[keep:], self._start_offsets[keep:]
            self._changed()

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget the epochs that end at or before ``start_offset``; the one it lies in now starts there."""
        drop = bisect_right(self._start_offsets, start_offset) - 1
        if drop < 0 or (drop == 0 and self._start_offsets[0] == start_offset):
            return
        del self._epochs[:drop], self._start_offsets[:drop]
        self._start_offsets[0] = start_offset
        self._changed()

    def clear(self) -> None:
        """Forget everything."""
        if self._epochs:
            self._epochs.clear()
            self._start_offsets.clear()
            self._changed()

    def _changed(self) -> None:
        self.latest = self._epochs[-1] if self._epochs else UNDEFINED_EPOCH
        self.dirty = True
