"""Records that a log had and lacks now: one cheap check of its sealed segments, however the last writer ended.

A lost page cache, a failed fsync or a partial restore of files leaves segments that do not follow one another, or files
that are shorter than their indexes say. The check reads the size and the tail of each sealed segment.

Not here: damaged batches (their readers find them), and the reaction to a loss.

Invariant: a gap that compaction may have left is never taken for a loss.
"""

from itertools import pairwise

from kpystorage import scan
from kpystorage.listing import TopicPartition
from kpystorage.log import Log
from kpystorage.recovery import Loss
from kpystorage.segment import Segment
from kpywire.batch import HEADER_BYTES


class Losses:
    """The known losses in the logs of one directory. A loss is listed until it is settled."""

    def __init__(self) -> None:
        self.unseen: set[TopicPartition] = set()
        """Logs of earlier writers whose segments have not been checked since."""
        self._known: dict[TopicPartition, Loss] = {}

    def __bool__(self) -> bool:
        return bool(self._known)

    def opened(self, log: Log, loss: Loss | None, flushed_to: int) -> None:
        """Note that a log was opened, which removed what followed ``loss``. It may end below what had been flushed."""
        if loss is None and log.end.offset < flushed_to:
            loss = Loss(log.end.offset, flushed_to, flushed_to, log.epochs.latest, is_cut=True)
        if loss is not None:
            self._known[log.topic, log.partition] = loss

    def of(self, log: Log, cleaned_to: int) -> Loss | None:
        """The loss of an open log, until it is settled. The first call checks its segments. OSError."""
        key = (log.topic, log.partition)
        if key in self.unseen:
            found = find_loss(log, cleaned_to)
            self.unseen.discard(key)
            if found is not None:
                self._known[key] = found
        return self._known.get(key)

    def settle(self, log: Log) -> None:
        """Forget the loss of a log, since it no longer counts as the log that it was, or is deleted."""
        self.unseen.discard((log.topic, log.partition))
        self._known.pop((log.topic, log.partition), None)


def find_loss(log: Log, cleaned_to: int) -> Loss | None:
    """Check the sealed segments of an open log: the first place where one does not begin where the one before ends.

    Below ``cleaned_to`` the log was compacted here. A log of a compacted topic may have been compacted anywhere, also
    by the leader it was copied from. OSError.
    """
    for segment, following in pairwise(log.segments):
        end_offset, knows_more = _end_of(segment)
        if end_offset is None or end_offset == following.base_offset:
            continue
        is_explained = end_offset < following.base_offset and (log.config.cleanup_compact or end_offset < cleaned_to)
        if is_explained and not knows_more:
            continue
        first, last = sorted((end_offset, following.base_offset))
        return Loss(first, last, log.end.offset, log.epochs.latest, is_cut=False)
    return None


def _end_of(segment: Segment) -> tuple[int | None, bool]:
    """(the offset behind the last batch, whether both indexes know of batches behind the file's end).

    The offset is None where the file ends in other bytes than batches: that is damage, not loss.
    """
    size, index = segment.size, segment.offset_index
    if size and index.last_position < size:
        (end_offset, position), knows_more = segment.tail(), False
    else:
        end_offset, position = segment.base_offset, 0
        for at, header in scan.headers(segment.log, 0, size):
            end_offset, position = header.next_offset, at + header.size
        latest = segment.time_index.last
        knows_more = latest.timestamp >= 0 and latest.offset >= end_offset
    if position < size and any(segment.log.pread(HEADER_BYTES, position)):
        return None, False
    return end_offset, knows_more or position < size
