"""A cut between two runs, by timestamps: each partition ends before its first batch with a later timestamp.

It begins with all that the run before has, so groups stand where they stood there. Transactions are decided as at any
cut (`kpybroker.machines.backup.cut`): open ones are aborted, as a whole.
"""

from collections.abc import Mapping
from typing import NamedTuple

from kpybroker.machines.backup.cut import CutTransactions, Place, SeenTransactions
from kpybroker.machines.backup.manifest import Manifest, PartitionCopy, StoredPiece, TopicCopy, partitions_of
from kpybroker.machines.backup.stretch import BatchStretch, CutOffsets
from kpywire.batch import batch_headers
from kpywire.varint import Buffer

Parts = Mapping[tuple[str, int], PartitionCopy]


class Extension(NamedTuple):
    """A partition of the earlier run, and the pieces of the later one that follow. ``earlier`` is None for a partition
    that only the later run has."""

    topic: TopicCopy
    partition: int
    earlier: PartitionCopy | None
    following: tuple[StoredPiece, ...]

    @property
    def place(self) -> Place:
        return self.topic.name, self.partition

    def stretch(self) -> "TimedStretch":
        """The batches of the following pieces, none of which was read yet."""
        part = self.earlier or self.topic.partitions[self.partition]
        begin = part.start_offset if self.earlier is None else part.end_offset
        before = self.earlier.pieces[-1].open if self.earlier is not None and self.earlier.pieces else ()
        end = self.following[-1].end_offset if self.following else begin
        return TimedStretch(BatchStretch(begin, before, CutOffsets(begin, begin, end)))


class TimedStretch:
    """The batches of a partition up to a time."""

    def __init__(self, stretch: BatchStretch) -> None:
        self.stretch = stretch
        self.is_over = False
        """Whether a batch with a later timestamp has come."""

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


def extensions(earlier: Manifest | None, later: Manifest) -> list[Extension]:
    """The partitions of both runs. One that does not go on in the later run where the earlier one ended has no
    following pieces."""
    known: Parts = (
        {} if earlier is None else {_key(topic, index): part for topic, index, part in partitions_of(earlier)}
    )
    found = []
    for topic, index, part in partitions_of(later):
        before = known.get(_key(topic, index))
        following = part.pieces
        if before is not None:
            following = tuple(piece for piece in part.pieces if piece.start_offset >= before.end_offset)
            if following and following[0].start_offset != before.end_offset:
                following = ()
        found.append(Extension(topic, index, before, following))
    present = {_key(topic, index) for topic, index, _ in partitions_of(later)}
    for topic, index, part in () if earlier is None else partitions_of(earlier):
        if _key(topic, index) not in present:
            found.append(Extension(topic, index, part, ()))
    return found


def _key(topic: TopicCopy, index: int) -> tuple[str, int]:
    return topic.topic_id, index


def committing(earlier: Manifest | None) -> frozenset[int]:
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
    earlier: Manifest | None,
    later: Manifest,
    read: Mapping[tuple[str, str, int], tuple[Extension, TimedStretch]],
    decided: CutTransactions,
) -> Manifest:
    """The manifest of the cut. ``read`` has every partition, by the id and the name of its topic and its number. Topics
    that only the later run has are in it if they have records up to the time."""
    topics: dict[tuple[str, str], list[PartitionCopy]] = {}
    named: dict[tuple[str, str], TopicCopy] = {}
    for (topic_id, name, _), (extension, timed) in sorted(read.items()):
        named[topic_id, name] = extension.topic
        topics.setdefault((topic_id, name), []).append(_partition(extension, timed, decided))
    began = {
        (extension.topic.topic_id, extension.topic.name)
        for extension, timed in read.values()
        if extension.earlier is not None or timed.stretch.leader_epoch >= 0
    }
    notes = [
        f"the last transaction of producer {producer_id} may be aborted in one partition and committed in another"
        for producer_id in decided.doubtful
    ]
    return later._replace(
        cut_ms=time_ms,
        topics=tuple(named[key]._replace(partitions=tuple(parts)) for key, parts in topics.items() if key in began),
        groups={} if earlier is None else earlier.groups,
        notes=tuple(notes),
    )


def _partition(extension: Extension, timed: TimedStretch, decided: CutTransactions) -> PartitionCopy:
    earlier = extension.earlier
    part = earlier or extension.topic.partitions[extension.partition]
    end = timed.stretch.next_offset
    following = tuple(piece for piece in extension.following if piece.start_offset < end)
    return part._replace(
        end_offset=end,
        leader_epoch=max(part.leader_epoch, timed.stretch.leader_epoch),
        pieces=(*(earlier.pieces if earlier is not None else ()), *following),
        ends=decided.ends.get(extension.place, ()),
        overturned=decided.overturned.get(extension.place, ()),
    )
