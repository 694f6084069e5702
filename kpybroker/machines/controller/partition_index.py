"""The partitions that a change of a broker concerns, found without a walk over all partitions.

A controller of a million partitions knows at once which ones a broker holds, how many it leads, which ones have no
leader, and which ones are not led by their preferred leader. A partition is a number here, made of its topic's number
and its own, so an entry takes eight bytes. The index is derived from the image and never written. It is built in steps
or, if it is needed earlier, at once.

Invariant: a topic that is indexed is known as it is in the image; all others are indexed before a question is answered.
"""

from array import array
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Final

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.topic import Partition, Topic

INDEX_BITS: Final = 32
INDEX_MASK: Final = (1 << INDEX_BITS) - 1
FEW_ENTRIES: Final = 1_024

Found = tuple[Topic, int, Partition]


class PartitionIndex:
    """The index of one image."""

    def __init__(self, image: MetadataImage) -> None:
        self._topics: dict[int, Topic] = {}
        self._numbers: dict[bytes, int] = {}
        self._next_number = 0
        self._left = list(image.topics.values())
        self._left.reverse()
        """The topics that are not indexed yet, the first one last."""
        self._held: dict[int, array[int]] = {}
        """The partitions of which each broker is or was a replica."""
        self._compacted: dict[int, int] = {}
        """The number of entries of each broker after its last clean-up."""
        self._led: dict[int, int] = {}
        self._leaderless: dict[int, None] = {}
        self._displaced: dict[int, None] = {}

    # Questions.

    def held_by(self, broker_id: int) -> Iterator[Found]:
        """The partitions that a broker holds or is eligible for, in the order of their topics."""
        self._finish()
        held: Sequence[int] = self._held.get(broker_id, ())
        if self._compacted.get(broker_id, 0) != len(held):
            held = self._clean(broker_id)
        for entry in held:
            found = self._known(broker_id, entry)
            if found is not None:
                yield found

    def leads_any(self, broker_id: int) -> bool:
        """Whether a broker leads a partition."""
        self._finish()
        return self._led.get(broker_id, 0) > 0

    def leaderless(self) -> Iterator[Found]:
        """The partitions without a leader."""
        self._finish()
        return self._found(sorted(self._leaderless))

    def displaced(self) -> Iterator[Found]:
        """The partitions that another broker than their preferred leader leads, or none."""
        self._finish()
        return self._found(sorted(self._displaced))

    def _found(self, entries: Iterable[int]) -> Iterator[Found]:
        for entry in entries:
            topic, index = self._topics[entry >> INDEX_BITS], entry & INDEX_MASK
            yield topic, index, topic.partitions[index]

    # Building.

    def steps(self) -> Generator[None, None, None]:
        """Index everything. Yields after each topic."""
        while self._left:
            self._index_next()
            yield

    def _finish(self) -> None:
        while self._left:
            self._index_next()

    def _index_next(self) -> None:
        topic = self._left.pop()
        self.topic_created(topic)
        self.partitions_added(topic, topic.partitions)

    # Changes.

    def topic_created(self, topic: Topic) -> None:
        """A topic was created; its partitions follow."""
        number = self._numbers[topic.id] = self._next_number
        self._topics[number] = topic
        self._next_number += 1

    def topic_deleted(self, topic: Topic) -> None:
        """A topic was deleted. Entries of brokers are forgotten when they are next cleaned up."""
        number = self._numbers.pop(topic.id, None)
        if number is None:
            self._left = [each for each in self._left if each is not topic]
            return
        del self._topics[number]
        for index, partition in topic.partitions.items():
            self._forget(number << INDEX_BITS | index, partition)

    def partitions_added(self, topic: Topic, added: Iterable[int]) -> None:
        """New partitions were created."""
        number = self._numbers.get(topic.id)
        if number is None:
            return
        held, led, first = self._held, self._led, number << INDEX_BITS
        for index in added:
            partition = topic.partitions[index]
            entry = first | index
            for member in _members(partition):
                if member in held:
                    held[member].append(entry)
                else:
                    held[member] = array("Q", (entry,))
            leader = partition.leader
            led[leader] = led.get(leader, 0) + 1
            if leader != partition.preferred_leader or leader < 0:
                self._note_leader(entry, partition)

    def partition_changed(self, topic: Topic, index: int, before: Partition | None) -> None:
        """A partition was created or changed."""
        if before is None:
            self.partitions_added(topic, (index,))
            return
        number = self._numbers.get(topic.id)
        if number is None:
            return
        entry, partition = number << INDEX_BITS | index, topic.partitions[index]
        same_replicas = before.replicas is partition.replicas
        if not same_replicas or before.leader != partition.leader:
            self._forget(entry, before)
            self._led[partition.leader] = self._led.get(partition.leader, 0) + 1
            self._note_leader(entry, partition)
        if not same_replicas or partition.elr or not set(partition.isr).issubset(partition.replicas):
            members = _members(before)
            for member in _members(partition):
                if member not in members:
                    self._hold(member, entry)

    def _forget(self, entry: int, partition: Partition) -> None:
        self._led[partition.leader] -= 1
        self._leaderless.pop(entry, None)
        self._displaced.pop(entry, None)

    def _note_leader(self, entry: int, partition: Partition) -> None:
        if partition.leader < 0:
            self._leaderless[entry] = None
        if partition.leader != partition.preferred_leader:
            self._displaced[entry] = None

    def _hold(self, broker_id: int, entry: int) -> None:
        entries = self._held.setdefault(broker_id, array("Q"))
        entries.append(entry)
        if len(entries) > 2 * self._compacted.get(broker_id, 0) + FEW_ENTRIES:
            self._clean(broker_id)

    def _clean(self, broker_id: int) -> list[int]:
        """The partitions that a broker still holds, each once; entries of others are removed."""
        entries = [
            entry for entry in sorted(set(self._held.get(broker_id, ()))) if self._known(broker_id, entry) is not None
        ]
        if entries:
            self._held[broker_id] = array("Q", entries)
            self._compacted[broker_id] = len(entries)
        else:
            self._held.pop(broker_id, None)
            self._compacted.pop(broker_id, None)
        return entries

    def _known(self, broker_id: int, entry: int) -> Found | None:
        """The partition of an entry; None if it is gone, or the broker does not hold it any more."""
        topic, index = self._topics.get(entry >> INDEX_BITS), entry & INDEX_MASK
        partition = None if topic is None else topic.partitions.get(index)
        if topic is None or partition is None or broker_id not in _members(partition):
            return None
        return topic, index, partition


def _members(partition: Partition) -> tuple[int, ...]:
    """The brokers that hold a partition or are eligible to lead it."""
    replicas = partition.replicas
    if not partition.elr and partition.isr is replicas:
        return replicas
    return tuple(dict.fromkeys((*replicas, *partition.isr, *partition.elr)))
