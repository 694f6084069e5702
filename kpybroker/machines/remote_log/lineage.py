"""The segments in a store that count for a leader: those whose epochs lie in the history of its own log.

A store may hold copies of leaders whose records were lost in an unclean election, and overlapping copies of two
leaders. A copy counts if each of its epochs, cut to its offsets, lies in the leader's history (Kafka:
``RemoteLogManager.isRemoteSegmentWithinLeaderEpochs``, ``findHighestRemoteOffset``, ``findLogStartOffset``).

An epoch history is a list of (epoch, first offset), both ascending, as ``leader-epoch-checkpoint`` has it.
"""

from collections.abc import Generator, Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

from kpybroker.machines.remote_log.cache import NO_OFFSET, RemoteSegments
from kpybroker.machines.remote_log.segments import FINISHED, RemoteLogSegment

Found = TypeVar("Found")
NO_EPOCH: Final = -1
STEP_SEGMENTS: Final = 128
"""The number of segments that one step looks at: a millisecond."""
Epochs = Sequence[tuple[int, int]]


class CopiedOffset(NamedTuple):
    """An offset, and the epoch of its record; (-1, -1) for none."""

    offset: int
    epoch: int


NOTHING_COPIED: Final = CopiedOffset(NO_OFFSET, NO_EPOCH)


def with_records(epochs: Epochs) -> list[tuple[int, int]]:
    """The epochs that have records: an epoch that starts where the next one starts has none
    (``buildFilteredLeaderEpochMap``)."""
    last = len(epochs) - 1
    return [each for at, each in enumerate(epochs) if at == last or each[1] != epochs[at + 1][1]]


def counts(segment: RemoteLogSegment, log_end_offset: int, epochs: Epochs) -> bool:
    """Whether a segment lies in a history, which is filtered by `with_records`.

    Its first epoch may begin below that of the history's first epoch: the log start was moved into the segment.
    """
    if not epochs or segment.end_offset >= log_end_offset:
        return False
    own = with_records(segment.leader_epochs)
    first, last = epochs[0][0], own[-1][0]
    if not first <= last <= epochs[-1][0]:
        return False
    own = [each for each in own if each[0] >= first]
    starts = dict(epochs)
    at = next((index for index, each in enumerate(epochs) if each[0] == own[0][0]), None)
    if at is None or (at > 0 and own[0][1] < starts[own[0][0]]):
        return False
    if list(epochs[at + 1 : at + len(own)]) != own[1:]:
        return False
    following = at + len(own)
    return following >= len(epochs) or segment.end_offset < epochs[following][1]


def lineage(segments: RemoteSegments, log_end_offset: int, epochs: Epochs) -> Iterator[RemoteLogSegment]:
    """The readable segments that count, each once, by epoch and start offset."""
    of_records, seen = with_records(epochs), set()
    for epoch, _ in of_records:
        for segment in segments.in_epoch(epoch):
            if segment.id in seen or segment.state is not FINISHED:
                continue
            seen.add(segment.id)
            if counts(segment, log_end_offset, of_records):
                yield segment


def highest_copied(segments: RemoteSegments, log_end_offset: int, epochs: Epochs) -> CopiedOffset:
    """The last offset that is copied: that of the newest epoch of which anything was ever copied, at most where this
    log's epoch ends."""
    end = log_end_offset
    for epoch, start in reversed(epochs):
        highest = segments.highest_offset(epoch)
        if highest != NO_OFFSET:
            return CopiedOffset(min(highest, end - 1), epoch)
        end = start
    return NOTHING_COPIED


def copied_without_gap(
    segments: RemoteSegments, log_end_offset: int, epochs: Epochs, log_start_offset: int, local_log_start: int
) -> Generator[None, None, CopiedOffset]:
    """The last offset of which a new leader has nothing to copy at or below it, found in steps.

    Kafka takes `highest_copied`. A former leader that had moved its log start, and copied on from there, leaves a gap
    for one that has not heard of it: those records would never be copied, and would be lost with the disk.
    """
    highest = highest_copied(segments, log_end_offset, epochs)
    until = yield from copied_in_steps(segments, epochs, log_start_offset)
    if until < local_log_start:  # no longer on this disk: nothing can be done
        until = yield from copied_in_steps(segments, epochs, local_log_start)
    if until > highest.offset:
        return highest
    return CopiedOffset(until - 1, epoch_of(epochs, until - 1)) if until > log_start_offset else NOTHING_COPIED


def log_start(
    segments: RemoteSegments, log_end_offset: int, epochs: Epochs, log_start_offset: int, local_log_start: int
) -> Generator[None, None, int]:
    """The offset at which the log of a new leader begins, found in steps: the first one from which all records up to
    its disk are in the store.

    A former leader deletes in the order of offsets, behind a log start that this one may not have heard of, so records
    before a gap were deleted, too. Kafka takes the first segment of the oldest epoch, in any state and any lineage.
    """
    offset = log_start_offset
    starts: list[int] | None = None
    while offset < local_log_start:
        until = yield from copied_in_steps(segments, epochs, offset)
        if until >= local_log_start:
            return offset
        if starts is None:
            found = set()
            for number, each in enumerate(lineage(segments, log_end_offset, epochs)):
                found.add(each.start_offset)
                if number % STEP_SEGMENTS == 0:
                    yield
            starts = sorted(found)
        offset = next((start for start in starts if start > until), local_log_start)
    return min(offset, local_log_start)


def epoch_of(epochs: Epochs, offset: int) -> int:
    """The epoch of the record at an offset; -1 below the first known one."""
    found = NO_EPOCH
    for epoch, start in epochs:
        if start > offset:
            break
        found = epoch
    return found


def segment_for(segments: RemoteSegments, epochs: Epochs, offset: int) -> RemoteLogSegment | None:
    """The segment that a reader of ``offset`` gets, None if the store has no record there."""
    epoch = epoch_of(epochs, offset)
    return None if epoch == NO_EPOCH else segments.find(epoch, offset)


def next_with_transaction_index(segments: RemoteSegments, epochs: Epochs, offset: int) -> RemoteLogSegment | None:
    """The first segment from ``offset`` on, over all later epochs, that may have aborted transactions
    (``findNextSegmentWithTxnIndex``)."""
    first = epoch_of(epochs, offset)
    for epoch, start in epochs:
        if epoch >= first != NO_EPOCH:
            found = segments.next_with_transaction_index(epoch, max(start, offset))
            if found is not None:
                return found
    return None


def agrees_until(segment: RemoteLogSegment, epochs: Epochs, offset: int) -> int:
    """The offset at which a segment stops being a copy of the log, for a reader of ``offset`` that got it.

    Behind it the copy may have records of a leader that this log's history does not know. Kafka serves them.
    """
    ours, theirs = with_records(epochs), with_records(segment.leader_epochs)
    epoch, until = epoch_of(ours, offset), offset
    while epoch == epoch_of(theirs, until):
        our_next = next((each for each in ours if each[0] > epoch), (NO_EPOCH, segment.next_offset))
        their_next = next((each for each in theirs if each[0] > epoch), (NO_EPOCH, segment.next_offset))
        until = min(our_next[1], their_next[1], segment.next_offset)
        if our_next != their_next or until == segment.next_offset:
            return until
        epoch = our_next[0]
    return until


class CopiedRange(NamedTuple):
    """Offsets ``start_offset .. end_offset``, half-open, and the copy that they are read from."""

    segment: RemoteLogSegment
    start_offset: int
    end_offset: int


def copies(segments: RemoteSegments, epochs: Epochs, offset: int) -> Iterator[CopiedRange]:
    """The copies that a reader from ``offset`` on gets one after the other, up to the first offset that none has."""
    while (segment := segment_for(segments, epochs, offset)) is not None:
        until = agrees_until(segment, epochs, offset)
        if until <= offset:
            return
        yield CopiedRange(segment, offset, until)
        offset = until


def copied_in_steps(segments: RemoteSegments, epochs: Epochs, offset: int) -> Generator[None, None, int]:
    """The first offset from ``offset`` on that no readable segment has.

    Kafka believes the highest copied offset; here each record below was found in a copy.
    """
    for number, each in enumerate(copies(segments, epochs, offset), 1):
        offset = each.end_offset
        if number % STEP_SEGMENTS == 0:
            yield
    return offset


def copied_until(segments: RemoteSegments, epochs: Epochs, offset: int) -> int:
    """The same, at once: of a few segments."""
    return at_once(copied_in_steps(segments, epochs, offset))


def at_once(steps: Generator[None, None, Found]) -> Found:
    """The result of work in steps."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            found: Found = end.value
            return found
