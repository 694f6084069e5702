"""A leader without any record on its disk, although the store has some: its disk was lost.

Before it serves anything, its log has to begin behind the last offset that was ever copied, or a producer would get an
offset that the store already has. The newest epoch of which anything was copied decides: what other leaders copied
beyond its end had been lost before. The last segment of that epoch gives the epochs and the producers. (Kafka has no
such step: its leader begins at 0 again.)

Where the last copied segments are deleted by now, the log begins behind them without a segment: offsets never go back.

Not here: the store, the log, and which logs have no record. An answer of another leader epoch is the caller's to drop:
it begins again.
"""

from typing import NamedTuple

from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.follower import FetchIndexes, StartAt, TryLater, are_epochs_of
from kpybroker.machines.remote_log.lineage import at_once, log_start
from kpybroker.machines.remote_log.segments import RemoteLogSegment


class StayEmpty(NamedTuple):
    """Nothing was ever copied at or behind the log's end: the log stays as it is."""


LeaderStep = StayEmpty | FetchIndexes | StartAt | TryLater


class EmptyLeader:
    """One attempt to find where the log of a leader begins, in one leader epoch."""

    def __init__(self, leader_epoch: int, log_start_offset: int = 0, log_end_offset: int = 0) -> None:
        """Both offsets are those of the log without records; they are 0 on a new disk."""
        self._leader_epoch = leader_epoch
        self._log_start_offset = log_start_offset
        self._log_end_offset = log_end_offset
        self._segment: RemoteLogSegment | None = None
        self._segments: RemoteSegments | None = None

    def found(self, segments: RemoteSegments) -> LeaderStep:
        """The first step, by the metadata of the store, which have been read to their end."""
        epochs = segments.copied_epochs()
        if not epochs:
            return StayEmpty()
        newest = epochs[-1]
        if newest > self._leader_epoch:
            return TryLater(
                f"the store has records of leader epoch {newest}, and the partition is only in epoch"
                f" {self._leader_epoch}: does another cluster write there under the same topic id?"
            )
        last = segments.highest_offset(newest)
        if last < self._log_end_offset:
            return StayEmpty()
        self._segments, self._segment = segments, segments.find(newest, last)
        return StartAt(last + 1, last + 1, (), None) if self._segment is None else FetchIndexes(self._segment)

    def fetched(self, epochs: tuple[tuple[int, int], ...], producer_snapshot: bytes | None) -> LeaderStep:
        """The two indexes of the segment: the epochs of the log up to the segment's end, and the producers there."""
        segment, segments = self._segment, self._segments
        assert segment is not None
        assert segments is not None
        end = segment.next_offset
        if not epochs:  # when it was copied, the log began behind it
            return StartAt(end, end, (), producer_snapshot)
        if not are_epochs_of(segment, epochs):
            return TryLater(f"the epochs of the segment at {segment.start_offset} do not fit it: {epochs}")
        known = max(epochs[0][1], self._log_start_offset)
        start = at_once(log_start(segments, end, epochs, known, end))
        return StartAt(end, start, epochs, producer_snapshot)
