"""The state of one partition of ``__consumer_offsets``, and what its records do to it.

Invariant: what a record changes here depends on the records before it alone, so a replay ends where the live shard is.
"""

from collections import deque
from collections.abc import Callable, Iterable
from sys import intern
from typing import Any

from kpybroker.groups.committed import pack, unpack
from kpybroker.groups.foreign import ForeignGroup, kind_of
from kpybroker.groups.group import Group
from kpybroker.groups.record import Record
from kpybroker.groups.timers import Timers
from kpybroker.journal import ProducerEpoch
from kpywire.group_records.group_metadata import GroupMetadataKey
from kpywire.group_records.legacy_offset_commit import LegacyOffsetCommitKey
from kpywire.group_records.offset_commit import OffsetCommitKey


class Sweep:
    """Work over many groups that is done in slices, between other inputs."""

    __slots__ = ("group_ids", "visit")

    def __init__(self, group_ids: Iterable[str], visit: Callable[..., bool]) -> None:
        self.group_ids = deque(group_ids)
        self.visit = visit
        """``visit(shard, group, decision)`` says whether it is done with the group."""


class Shard:
    """Groups, their timers and what waits to be done."""

    __slots__ = ("groups", "loaded_ms", "next_offset", "open_transactions", "sweeps", "timers", "topics")

    def __init__(self) -> None:
        self.groups: dict[str, Group] = {}
        self.topics: set[str] = set()
        """Of all positions that there are here, and that there have been."""
        self.open_transactions: dict[int, set[tuple[str, str, int]]] = {}
        """(group id, topic, partition) of what each producer id has pending."""
        self.timers = Timers()
        self.sweeps: deque[Sweep] = deque()
        self.next_offset = 0
        self.loaded_ms = 0

    def apply(self, record: Record, offset: int, producer: ProducerEpoch | None) -> None:
        """One record of the log."""
        self.next_offset = offset + 1
        key, value = record.key, record.value
        kind = type(key)
        if kind is OffsetCommitKey or kind is LegacyOffsetCommitKey:
            if value is None:
                self._forget_offset(key.group, key.topic, key.partition)
                return
            packed = pack(value, offset)
            group = self.groups.get(key.group)
            if group is None:
                group = self.groups[key.group] = Group(key.group)
            if producer is not None:
                self._take_pending(group, key.topic, key.partition, producer.producer_id, packed)
                return
            partitions = group.offsets.get(key.topic)
            if partitions is None:
                topic = intern(key.topic)
                partitions = group.offsets[topic] = {}
                self.topics.add(topic)
            partitions[key.partition] = packed
        elif kind is GroupMetadataKey:
            self._take_metadata(key.group, value)
        else:
            self._take_foreign(key, value)

    def apply_marker(self, producer_id: int, commit: bool) -> None:
        """A transaction ended. A position that was committed later than the transaction's stands."""
        for group_id, topic, partition in self.open_transactions.pop(producer_id, ()):
            group = self.groups[group_id]
            by_producer = group.pending[topic, partition]
            packed = by_producer.pop(producer_id)
            if not by_producer:
                del group.pending[topic, partition]
            if commit:
                before = group.committed(topic, partition)
                if before is None or before.record_offset < unpack(packed).record_offset:
                    group.offsets.setdefault(intern(topic), {})[partition] = packed

    def _take_pending(self, group: Group, topic: str, partition: int, producer_id: int, packed: bytes) -> None:
        group.pending.setdefault((topic, partition), {})[producer_id] = packed
        self.topics.add(topic)
        self.open_transactions.setdefault(producer_id, set()).add((group.group_id, topic, partition))

    def _forget_offset(self, group_id: str, topic: str, partition: int) -> None:
        group = self.groups.get(group_id)
        if group is None:
            return
        group.forget_offset(topic, partition)
        for producer_id in group.pending.pop((topic, partition), ()):
            touched = self.open_transactions[producer_id]
            touched.discard((group_id, topic, partition))
            if not touched:
                del self.open_transactions[producer_id]

    def _take_metadata(self, group_id: str, value: Any | None) -> None:
        group = self.groups.get(group_id)
        if value is not None:
            if group is None:
                group = self.groups[group_id] = Group(group_id)
            group.recorded = value
            group.is_new = False
            group.foreign = None
            if group.classic is not None:
                group.classic.take_record(value)
        elif group is not None:
            group.recorded = None
            if group.classic is not None:
                self._forget_members(group)
            if group.is_unknown:
                del self.groups[group_id]

    def _forget_members(self, group: Group) -> None:
        classic, group.classic = group.classic, None
        if classic is None:
            return
        for timer in (classic.join_timer, classic.sync_timer, *classic.pending_members.values()):
            if timer is not None:
                self.timers.cancel(timer)
        for member in classic.members.values():
            self.timers.cancel(member.session)

    def _take_foreign(self, key: Any, value: Any | None) -> None:
        group = self.groups.get(key.group_id)
        foreign = None if group is None else group.foreign
        if value is None and foreign is None:
            return
        if group is None:
            group = self.groups[key.group_id] = Group(key.group_id)
        if foreign is None:
            foreign = group.foreign = ForeignGroup(kind_of(key.KEY))
            group.recorded = None
        foreign.take(key, value)
        if foreign.is_gone:
            group.foreign = None
            if group.is_unknown and group.classic is None:
                del self.groups[group.group_id]
