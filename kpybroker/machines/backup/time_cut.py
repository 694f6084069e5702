"""A cut between two runs, by timestamps: each partition ends before its first batch with a later timestamp.

It begins with all that the run before has, so groups stand where they stood there. Transactions are decided as at any
cut (`kpybroker.machines.backup.cut`): open ones are aborted, as a whole.
"""

from collections.abc import Iterable
from typing import NamedTuple

from kpybroker.machines.backup.cut import CutTransactions, Place, SeenTransactions, decide, doubt
from kpybroker.machines.backup.manifest import PartitionAtCut, RunManifest, StoredPiece, TopicAtCut, partitions_of
from kpybroker.machines.backup.stretch import BatchStretch, CutOffsets
from kpywire.batch import batch_headers
from kpywire.varint import Buffer


class Extension(NamedTuple):
    """A partition of the earlier run, and the pieces of the later one that follow. ``earlier`` is None for a partition
    that only the later run has."""

    topic: TopicAtCut
    partition: int
    earlier: PartitionAtCut | None
    following: tuple[StoredPiece, ...]

    @property
    def place(self) -> Place:
        return self.topic.name, self.partition

    def stretch(self) -> "TimedStretch":
        """The batches of the following pieces, none of which was read yet."""
        begin = self.topic.partitions[self.partition].start_offset if self.earlier is None else self.earlier.end_offset
        before = self.earlier.pieces[-1].open if self.earlier is not None and self.earlier.pieces else ()
        end = begin
        if self.following:
            begin, end = self.following[0].start_offset, self.following[-1].end_offset
        return TimedStretch(BatchStretch(begin, before, CutOffsets(begin, begin, end)))


class TimedStretch:
    """The batches of a partition up to a time."""

    def __init__(self, stretch: BatchStretch) -> None:
        self.stretch = stretch
        self.is_over = False
        """The stretch has met a batch with a later timestamp."""

    def take(self, batches: Buffer, time_ms: int) -> None:
        """Take the next batches, as far as they are not later than ``time_ms``. Raises Malformed."""
        if self.is_over:
            return
        for position, header in batch_headers(batches):
            if header.max_timestamp > time_ms:
                self.is_over = True
                with memoryview(batches) as view:
                    self.stretch.take(view[:position])
                return
        self.stretch.take(batches)


def extensions(earlier: RunManifest | None, later: RunManifest) -> list[Extension]:
    """The partitions of both runs. One that does not go on in the later run where the earlier one ended has no
    following pieces. Of two topics with one name that of the earlier run counts."""
    older = [] if earlier is None else partitions_of(earlier)
    known = {(topic.name, index): (topic, part) for topic, index, part in older}
    ids = {topic.name: topic.topic_id for topic, _, _ in older}
    found = {place: Extension(topic, place[1], part, ()) for place, (topic, part) in known.items()}
    for topic, index, part in partitions_of(later):
        if ids.get(topic.name, topic.topic_id) != topic.topic_id:
            continue
        before = known[topic.name, index][1] if (topic.name, index) in known else None
        following = part.pieces
        if before is not None:
            following = tuple(piece for piece in part.pieces if piece.start_offset >= before.end_offset)
            if following and following[0].start_offset != before.end_offset:
                following = ()
        found[topic.name, index] = Extension(topic, index, before, following)
    return [found[place] for place in sorted(found)]


def committing(earlier: RunManifest | None) -> frozenset[int]:
    """The producers whose open transactions were being committed at the cut of the earlier run."""
    parts = () if earlier is None else partitions_of(earlier)
    return frozenset(end.producer_id for _, _, part in parts for end in part.ends if end.is_commit)


def seen_transactions(extension: Extension, timed: TimedStretch) -> SeenTransactions:
    """The transactions of a partition up to the time."""
    overturned = () if extension.earlier is None else extension.earlier.overturned
    stretch = timed.stretch
    return SeenTransactions(stretch.open, stretch.open_before, (*overturned, *stretch.markers))


def manifest_at(
    time_ms: int,
    earlier: RunManifest | None,
    later: RunManifest,
    read: Iterable[tuple[Extension, TimedStretch]],
) -> RunManifest:
    """The manifest of the cut. ``read`` has all partitions in their order. Topics that only the later run has are in it
    if they have records up to the time."""
    stretches = list(read)
    seen = {extension.place: seen_transactions(extension, timed) for extension, timed in stretches}
    decided = decide(seen, committing(earlier))
    topics: dict[str, list[PartitionAtCut]] = {}
    began: dict[str, TopicAtCut] = {}
    for extension, timed in stretches:
        topics.setdefault(extension.topic.name, []).append(_partition(extension, timed, decided))
        if extension.earlier is not None or timed.stretch.leader_epoch >= 0:
            began[extension.topic.name] = extension.topic
    return later._replace(
        cut_ms=time_ms,
        topics=tuple(topic._replace(partitions=tuple(topics[name])) for name, topic in began.items()),
        groups={} if earlier is None else earlier.groups,
        notes=tuple(map(doubt, decided.doubtful)),
    )


def _partition(extension: Extension, timed: TimedStretch, decided: CutTransactions) -> PartitionAtCut:
    earlier = extension.earlier
    part = earlier or extension.topic.partitions[extension.partition]
    end = timed.stretch.next_offset
    following = tuple(piece for piece in extension.following if piece.start_offset < end)
    return part._replace(
        start_offset=min(part.start_offset, end),
        end_offset=end,
        leader_epoch=max(part.leader_epoch, timed.stretch.leader_epoch),
        pieces=(*(earlier.pieces if earlier is not None else ()), *following),
        ends=decided.ends.get(extension.place, ()),
        overturned=decided.overturned.get(extension.place, ()),
    )
