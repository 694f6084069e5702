"""The segments in the store as ``__remote_log_metadata`` has them, read from inside as soon as it is committed, and the
rules that hold for them at every moment.

Nothing is written for a segment before COPY_SEGMENT_STARTED is committed, and no object is deleted before
DELETE_SEGMENT_STARTED is. A segment that is finished is there as a whole, with the bytes that were committed. No disk
loses what no finished segment has, and nothing is deleted in the store that readers may still want.
"""

from collections.abc import Container, Iterator
from typing import TYPE_CHECKING, Any

from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.machines.remote_log.segments import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    Record,
    RemoteLogSegment,
    RemoteLogSegmentState,
    RemoteLogSegmentUpdate,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpystorage.errors import DiskFailure
from kpystorage.remote.keys import ObjectKind, object_key, parse_key
from kpywire.batch import batch_headers
from kpywire.remote_log_record import TOPIC

from .committed_rows import rows_of
from .store import PREFIX, SimulatedStore

if TYPE_CHECKING:
    from .invariants import Invariants
    from .machine import Machine
    from .world import World

LEGAL = {(STARTED, FINISHED), (STARTED, DELETING), (FINISHED, DELETING), (DELETING, DELETED)}
Key = tuple[bytes, int]
"""Topic id, partition."""


class StoredSegments:
    """All of them, and what the nodes' disks have beside them."""

    def __init__(
        self, world: "World", machines: "list[Machine]", store: SimulatedStore, invariants: "Invariants"
    ) -> None:
        self.world = world
        self.store = store
        self.invariants = invariants
        self.segments: dict[bytes, RemoteLogSegment] = {}
        """By segment id, in every state, also the last."""
        self.deletions: dict[Key, RemotePartitionDelete] = {}
        self.alone: set[str] = set()
        """Topics with one replica, whose disk may be lost."""
        self.rewritten: set[str] = set()
        """Topics that are compacted in the store: their segments have gaps."""
        self.starts: dict[Key, int] = {}
        """The highest log start of any leader."""
        self._of: dict[Key, list[bytes]] = {}
        self._by_host = {machine.host: machine for machine in machines}
        self._read_to: dict[int, int] = {}
        self._local_starts: dict[Any, int] = {}
        """By replica."""
        self._led_starts: dict[tuple[Any, int], int] = {}
        """By replica and epoch: the log start."""
        self._copied: dict[Key, dict[int, int]] = {}
        """The checksums of batches of topics with one replica, by base offset, as they were copied first."""
        store.writes, store.deletes = self._writes, self._deletes

    # Objects

    def _segment_of(self, key: str) -> RemoteLogSegment | None:
        name = parse_key(PREFIX, key)
        assert name is not None
        return self.segments.get(name.segment.segment_id)

    def _writes(self, key: str) -> None:
        if self._segment_of(key) is None:
            self.world.violated(f"{key} is written before COPY_SEGMENT_STARTED is committed")

    def _deletes(self, key: str) -> None:
        segment = self._segment_of(key)
        if segment is not None and segment.state in (STARTED, FINISHED) and not self._is_over(segment):
            self.world.violated(f"{key} is deleted in the state {segment.state.name}")

    def _is_over(self, segment: RemoteLogSegment) -> bool:
        """Whether the deletion of its partition is over: a segment that was announced later is an orphan."""
        deletion = self.deletions.get((segment.id.topic_id, segment.id.partition))
        return deletion is not None and deletion.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED

    def superfluous(self, topic_ids: Container[bytes]) -> Iterator[str]:
        """The objects that belong to no segment of these topics."""
        for key in self.store.objects:
            segment = self._segment_of(key)
            if segment is None or segment.state is DELETED or segment.id.topic_id not in topic_ids:
                yield key

    # Records

    def look(self) -> None:
        """After an event."""
        machine = self._by_host.get(self.world.acted) if self.world.acted is not None else None
        broker: Any = machine.node.broker if machine is not None and machine.node is not None else None
        replicas = getattr(broker, "replicas", None)
        if replicas is None or machine is None:
            return
        for held in replicas.topics.values():
            for replica in held.replicas.values():
                if held.name == TOPIC:
                    self._look_at_records(replica)
                elif held.config.tier is not None:
                    self._look_at_log(machine, replica)

    def _look_at_records(self, replica: Any) -> None:
        leader, known = replica.leader, self._read_to.get(replica.index, 0)
        if leader is None or not leader.log.is_open or leader.high_watermark.offset <= known:
            return
        try:
            rows = list(rows_of(leader.log, known, leader.high_watermark))
        except DiskFailure:
            return
        self._read_to[replica.index] = leader.high_watermark.offset
        before: dict[bytes, RemoteLogSegmentState | None] = {}
        for row in rows:
            if not row.is_control:
                self._apply(read_value(row.value), before)
        for segment_id, state in before.items():
            segment = self.segments[segment_id]
            if segment.state is FINISHED and state is not FINISHED:
                self._look_at_objects(segment)
            elif state is FINISHED and segment.state is not FINISHED:
                self._look_at_loss(segment)

    def _apply(self, record: Record, before: dict[bytes, RemoteLogSegmentState | None]) -> None:
        if isinstance(record, RemotePartitionDelete):
            self._delete(record)
            return
        segment_id = record.id.segment_id
        known = self.segments.get(segment_id)
        if isinstance(record, RemoteLogSegment) and known is None:
            before[segment_id] = None
            self.segments[segment_id] = record
            self._of.setdefault((record.id.topic_id, record.id.partition), []).append(segment_id)
        elif isinstance(record, RemoteLogSegmentUpdate) and known and (known.state, record.state) in LEGAL:
            before.setdefault(segment_id, known.state)
            self.segments[segment_id] = known.with_update(record)

    def asked(self, record: Record) -> None:
        """A node asks to have a record written."""
        if isinstance(record, RemoteLogSegmentUpdate) and record.state is DELETING:
            segment = self.segments.get(record.id.segment_id)
            if segment is not None and segment.state is FINISHED:
                self._look_at_loss(segment)

    def _delete(self, record: RemotePartitionDelete) -> None:
        """The deletion of a partition goes on: at its end all segments are deleted."""
        key = record.topic_id, record.partition
        self.deletions[key] = record
        left = [each for each in self._of.get(key, ()) if self.segments[each].state is not DELETED]
        if left and record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            place = f"{record.topic}-{record.partition}"
            self.world.violated(f"the deletion of {place} is over, and {left[0].hex()} is left")

    def finished(self, key: Key) -> Iterator[RemoteLogSegment]:
        """The segments of a partition that can be read."""
        for segment_id in self._of.get(key, ()):
            if self.segments[segment_id].state is FINISHED:
                yield self.segments[segment_id]

    def missing(self, key: Key, offset: int, end_offset: int) -> int | None:
        """The first offset that no finished segment has, of ``offset`` up to ``end_offset``; None if all are there."""
        for segment in sorted(self.finished(key), key=lambda each: each.start_offset):
            if segment.start_offset <= offset < segment.next_offset:
                offset = segment.next_offset
        return offset if offset < end_offset else None

    # Rules

    def _look_at_objects(self, segment: RemoteLogSegment) -> None:
        """A segment was finished just now."""
        keys = [object_key(PREFIX, name_of(segment), kind) for kind in ObjectKind]
        absent = [key for key in keys if key not in self.store.objects]
        if absent:
            self.world.violated(f"{absent[0]} is not in the store, and its segment is finished")
            return
        of, offset = segment.id, segment.start_offset
        if of.topic in self.rewritten:
            return  # their readers compare views
        is_alone = of.topic in self.alone
        committed = self.invariants.committed.get((of.topic, of.topic_id, of.partition))
        copied = self._copied.setdefault((of.topic_id, of.partition), {})
        for _, header in batch_headers(self.store.objects[object_key(PREFIX, name_of(segment), ObjectKind.LOG)]):
            found = header.last_offset, header.partition_leader_epoch, header.crc
            known = found if is_alone or committed is None else committed.batches.get(header.base_offset)
            if header.base_offset != offset or found != known:
                self.world.violated(
                    f"{of.topic}-{of.partition} has in the store, behind {offset}, at {header.base_offset} {found}, "
                    f"and {known} was committed"
                )
            offset = header.next_offset
            if is_alone and copied.setdefault(header.base_offset, header.crc) != header.crc:
                self.world.violated(f"{of.topic}-{of.partition} has two batches at {header.base_offset} in the store")
        if offset != segment.next_offset:
            self.world.violated(f"{of.topic}-{of.partition} has up to {offset} of a segment to {segment.next_offset}")

    def _look_at_loss(self, segment: RemoteLogSegment) -> None:
        """The deletion of a segment that can be read is asked for, or has begun."""
        of = segment.id
        key = of.topic_id, of.partition
        leader = self._leader(of.topic, key)
        if leader is None or of.topic in self.alone or key in self.deletions:
            return
        start, local = self.starts.get(key, 0), leader.log.local_log_start_offset
        lost = self.missing(key, max(segment.start_offset, start), min(segment.next_offset, local))
        if lost is not None:
            self.world.violated(f"{of.topic}-{of.partition} loses {lost} in the store, and begins at {start}")

    def _leader(self, topic: str, key: Key) -> Any:
        """The newest leader of a partition; None if none is known now."""
        leaders = []
        for machine in self._by_host.values():
            broker: Any = machine.node.broker if machine.node is not None else None
            held = broker.replicas.topics.get(topic) if broker is not None and hasattr(broker, "replicas") else None
            replica = held.replicas.get(key[1]) if held is not None and held.id == key[0] else None
            if replica is not None and replica.leader is not None and replica.leader.log.is_open:
                leaders.append(replica.leader)
        return max(leaders, key=lambda leader: int(leader.epoch), default=None)

    def _look_at_log(self, machine: "Machine", replica: Any) -> None:
        role = replica.role
        if role is None or not role.log.is_open or not replica.is_here or not role.log.segments or replica.offline:
            return
        key, log, name = (replica.topic.id, replica.index), role.log, replica.topic.name
        if role is replica.leader:
            self._look_at_start(machine, replica, key)
        local = log.local_log_start_offset
        before = self._local_starts.get(log, -1)
        if local == before or name in self.alone:
            return
        self._local_starts[log] = local
        start = max(self.starts.get(key, 0), log.log_start_offset)
        lost = self.missing(key, start, local)
        if lost is not None and key not in self.deletions:
            self.world.violated(f"{machine} has {name}-{key[1]} from {local} on, and no finished segment has {lost}")

    def _look_at_start(self, machine: "Machine", replica: Any, key: Key) -> None:
        """The log start of a leader never goes back."""
        start, term = replica.leader.log.log_start_offset, (replica, replica.leader.epoch)
        if start < self._led_starts.get(term, 0):
            self.world.violated(f"the log start of {replica} on {machine} goes back to {start}")
        self._led_starts[term] = start
        self.starts[key] = max(self.starts.get(key, 0), start)
