"""A replica that begins in the middle of a log, because the leader has the beginning only in the store.

The leader answers OFFSET_MOVED_TO_TIERED_STORAGE. The replica asks for the offsets to begin at, finds the segment that
ends before them, and takes from it the epochs and producers that it cannot learn from the leader's records. Then its
log is empty, begins behind that segment, and is fetched on. (Kafka: ``TierStateMachine``,
``AbstractFetcherThread.handleOffsetsMovedToTieredStorage``; KIP-1023: ``follower.fetch.last.tiered.offset.enable``.)

Deviations: everything is fetched before the log is cut, so a store that is away costs nothing. Where the leader has
nothing in the store before the offset to begin at, the log begins there without a segment; Kafka tries for ever. And a
segment may be the copy of a leader whose last records were lost: it is taken whole only if the leader still has its
last epoch up to its end. If no copy is like that, the log begins at the leader's offset, without producers, which
costs only that their duplicates are not known (open transactions are never copied).

Not here: requests, the store, the log. Answers of another leader epoch are the caller's to drop: it begins again.
"""

from enum import Enum
from itertools import pairwise
from typing import Final, NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.segments import RemoteLogSegment

LATEST: Final = -1
EARLIEST: Final = -2
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
"""The timestamps of ListOffsets."""
MAY_BE_UNKNOWN: Final = (LATEST_TIERED, EARLIEST_PENDING_UPLOAD)
UNKNOWN_OFFSET: Final = -1


class AskOffset(NamedTuple):
    """Ask the leader by ListOffsets; the answer is `AuxiliaryState.offset`."""

    timestamp: int


class AskEpochEnd(NamedTuple):
    """Ask the leader by OffsetsForLeaderEpoch; the answer is `AuxiliaryState.epoch_end`."""

    epoch: int


class FindSegment(NamedTuple):
    """Look into the metadata of the store, when they are read; the answer is `AuxiliaryState.found`."""

    epoch: int
    offset: int


class FetchIndexes(NamedTuple):
    """Fetch LEADER_EPOCH and PRODUCER_SNAPSHOT; the answer is `AuxiliaryState.fetched`."""

    segment: RemoteLogSegment


class StartAt(NamedTuple):
    """Cut the whole log and begin at ``offset``, with these epochs and producers."""

    offset: int
    log_start_offset: int
    epochs: tuple[tuple[int, int], ...]
    producer_snapshot: bytes | None
    """The file for ``offset``; None if there are no producers."""


class TryLater(NamedTuple):
    """The state cannot be built now: begin again after the fetcher's pause."""

    reason: str


Step = AskOffset | AskEpochEnd | FindSegment | FetchIndexes | StartAt | TryLater


class AuxiliaryStage(Enum):
    """The answers that are waited for."""

    END = 0
    LOG_START = 1
    PENDING_UPLOAD = 2
    LOCAL_START = 3
    TIERED_END = 4
    EPOCH_END = 5
    SEGMENT = 6
    AGREEMENT = 7
    INDEXES = 8
    DONE = 9


class AuxiliaryState:
    """One attempt to build the state of a replica, in one leader epoch. Each answer gives the next step."""

    def __init__(self, *, log_end_offset: int, is_compacted: bool, fetch_last_tiered: bool) -> None:
        """``fetch_last_tiered``: an empty replica begins behind the last copied offset (KIP-1023)."""
        self._may_skip = fetch_last_tiered and log_end_offset == 0 and not is_compacted
        self.stage = AuxiliaryStage.END if self._may_skip else AuxiliaryStage.LOG_START
        self._skips = False
        self._end = UNKNOWN_OFFSET
        self._log_start = UNKNOWN_OFFSET
        self._start = UNKNOWN_OFFSET
        self._start_epoch = 0
        self._target_epoch = 0
        self._copies: list[RemoteLogSegment] = []
        self._tried = 0
        self._is_cut = False

    def begin(self) -> Step:
        """The first question."""
        return AskOffset(LATEST if self._may_skip else EARLIEST)

    def offset(self, offset: int, epoch: int) -> Step:
        """The leader's answer to `AskOffset`."""
        if self.stage is AuxiliaryStage.END:
            self._skips, self._end = offset != 0, offset
            self.stage = AuxiliaryStage.LOG_START
            return AskOffset(EARLIEST)
        if self.stage is AuxiliaryStage.LOG_START:
            self._log_start = offset
            self.stage = AuxiliaryStage.PENDING_UPLOAD if self._skips else AuxiliaryStage.LOCAL_START
            return AskOffset(EARLIEST_PENDING_UPLOAD if self._skips else EARLIEST_LOCAL)
        if self.stage is AuxiliaryStage.PENDING_UPLOAD and offset == UNKNOWN_OFFSET:
            self.stage = AuxiliaryStage.LOCAL_START
            return AskOffset(EARLIEST_LOCAL)
        # A leader that has nothing on its disk has nothing to copy: its end is where the store ends.
        is_known = offset in (self._log_start, self._end)
        if self.stage is AuxiliaryStage.LOCAL_START and self._skips and not is_known:
            self.stage = AuxiliaryStage.TIERED_END
            return AskOffset(LATEST_TIERED)
        if self.stage is AuxiliaryStage.TIERED_END:
            return self._starts_behind(offset, epoch)
        return self._starts_at(offset, epoch)

    def _starts_behind(self, tiered: int, epoch: int) -> Step:
        """The leader's disk has records, and none of them is yet to be copied: they are all in the store, too, or it
        is not known what is there."""
        if tiered + 1 < self._end:
            return self._later("the leader does not know yet which offset it copies next")
        self._start, self._start_epoch = tiered + 1, epoch
        return self._find(epoch)

    def _starts_at(self, offset: int, epoch: int) -> Step:
        self._start, self._start_epoch = offset, epoch
        if offset <= self._log_start:
            self.stage = AuxiliaryStage.DONE
            return StartAt(offset, offset, (), None)
        if epoch <= 0:
            return self._find(epoch)
        self.stage = AuxiliaryStage.EPOCH_END
        return AskEpochEnd(epoch - 1)

    def epoch_end(self, epoch: int, end_offset: int) -> Step:
        """The leader's answer to `AskEpochEnd`: the epoch it has in place of the asked one, and where that ends. Epochs
        without records are left out that way."""
        if self.stage is AuxiliaryStage.AGREEMENT:
            return self._agrees(epoch, end_offset)
        return self._find(epoch if end_offset > self._start - 1 else self._start_epoch)

    def _agrees(self, epoch: int, end_offset: int) -> Step:
        segment = self._copies[self._tried]
        if epoch != segment.leader_epochs[-1][0] or end_offset < segment.next_offset:
            self._tried += 1
            if self._tried < len(self._copies):
                return AskEpochEnd(self._copies[self._tried].leader_epochs[-1][0])
            self._is_cut, self._tried = True, 0
        self.stage = AuxiliaryStage.INDEXES
        return FetchIndexes(self._copies[self._tried])

    def _find(self, epoch: int) -> Step:
        self._target_epoch = epoch
        self.stage = AuxiliaryStage.SEGMENT
        return FindSegment(epoch, self._start - 1)

    def found(self, segments: RemoteSegments | None) -> Step:
        """The metadata of the store, None if they are not read yet."""
        if segments is None:
            return self._later("the metadata of the store are not read yet")
        self._copies = segments.with_offset(self._target_epoch, self._start - 1)
        if not self._copies:
            return self._later(
                f"no remote segment has offset {self._start - 1} of epoch {self._target_epoch}, where the leader's log"
                f" begins at {self._log_start} and is fetched from {self._start}"
            )
        self.stage = AuxiliaryStage.AGREEMENT
        return AskEpochEnd(self._copies[0].leader_epochs[-1][0])

    def fetched(self, epochs: tuple[tuple[int, int], ...], producer_snapshot: bytes | None) -> Step:
        """The two indexes of the segment. Epochs are those of the log up to the segment's end."""
        segment = self._copies[self._tried]
        if not are_epochs_of(segment, epochs):
            return self._later(f"the epochs of the segment at {segment.start_offset} do not fit it: {epochs}")
        self.stage = AuxiliaryStage.DONE
        if not self._is_cut:
            return StartAt(segment.next_offset, self._log_start, epochs, producer_snapshot)
        return StartAt(self._start, self._log_start, tuple(each for each in epochs if each[1] < self._start), None)

    def _later(self, reason: str) -> TryLater:
        self.stage = AuxiliaryStage.DONE
        return TryLater(reason)


def are_epochs_of(segment: RemoteLogSegment, epochs: tuple[tuple[int, int], ...]) -> bool:
    """Whether epochs ascend, end in the segment's last one, and contain no record behind it."""
    ascend = all(before[0] < after[0] and before[1] < after[1] for before, after in pairwise(epochs))
    return (
        bool(epochs)
        and ascend
        and epochs[-1][0] == segment.leader_epochs[-1][0]
        and epochs[-1][1] <= segment.end_offset
    )
