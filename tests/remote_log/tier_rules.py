"""The rules for a tiered partition, and the truth that they are checked against: the batches that were committed.

Every committed batch from the log start on is on the leader's disk or in a readable copy of the leader's lineage. A
copy that is finished is there as a whole and says what is in it. No object is written before its copy is announced, and
none is deleted before that is. The log start moves only where DeleteRecords or retention moves it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from tier_nodes import TierNode, TierNodes

from kpybroker.hosts.remote_log.open_segments import name_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.partition.leader import PartitionLeader
from kpybroker.machines.remote_log.lineage import agrees_until, segment_for
from kpybroker.machines.remote_log.segments import (
    DELETED,
    FINISHED,
    STARTED,
    Record,
    RemoteLogSegment,
    RemotePartitionDelete,
    RemotePartitionDeleteState,
)
from kpystorage.control_batches import transaction_marker
from kpystorage.remote.indexes import IndexType
from kpystorage.remote.keys import ObjectKind, object_key, parse_key
from kpystorage.remote.segment_name import RemoteSegmentName
from kpystorage.transaction_index import ENTRY_BYTES
from kpywire.batch import batch_headers
from tests.replication.replica_world import TOPIC_ID
from tests.sim.store import PREFIX, SimulatedStorage, StoreConditions

FOREIGN: Final = RemoteSegmentName("t", bytes(range(100, 116)), 0, 0, bytes(range(200, 216)))


class Batch(NamedTuple):
    """A batch of the partition."""

    base_offset: int
    next_offset: int
    epoch: int
    max_timestamp: int
    data: bytes


class Aborted(NamedTuple):
    """An aborted transaction."""

    producer_id: int
    first_offset: int
    last_data_offset: int
    last_offset: int
    """The offset of its marker."""


def batches_in(data: bytes) -> list[Batch]:
    """The batches of a log's bytes."""
    found = []
    for position, header in batch_headers(data):
        part = bytes(data[position : position + header.size])
        found.append(
            Batch(header.base_offset, header.next_offset, header.partition_leader_epoch, header.max_timestamp, part)
        )
    return found


class TierRules:
    """The truth about the partition, and what must hold."""

    def __init__(self, world: TierNodes) -> None:
        self.world = world
        self.committed: dict[int, Batch] = {}
        """By base offset."""
        self.end = 0
        """The offset behind them."""
        self.asked_start = 0
        """The log start that DeleteRecords asked for."""
        self.start = 0
        """The highest log start of any leader: a new one may not have heard of it at once."""
        self.copied = -1
        """The highest offset of a copy that was ever finished."""
        self.losses = 0
        """How often committed records were lost with disks, so that a log may begin later."""
        self.segments: dict[bytes, RemoteLogSegment] = {}
        """All that were ever announced, in their last state."""
        self.retention_bytes = -1
        self.deletes_uncopied = False
        """Whether retention may delete what is on the disk alone: copying is, or was, disabled (KIP-950)."""
        self.violations: list[str] = []
        """The rules that do not hold: they may be found in a thread, or in a callback whose errors are logged."""
        self._starts: dict[tuple[int, int, int], int] = {}
        """The log start of each leader, by node, life and epoch."""
        self._moved_to = 0
        """The log start that retention was last seen to reach."""
        self._contents: dict[str, tuple[bytes, dict[int, Batch]]] = {}
        self.foreign = {object_key(PREFIX, FOREIGN, kind): kind.value.encode() for kind in ObjectKind}
        """The objects of another cluster on the same prefix."""
        world.store.objects.update(self.foreign)
        world.store.writes, world.store.deletes = self._written, self._deleted
        world.metadata.committed = self._recorded

    def must(self, holds: object, words: str) -> None:
        """Note that something does not hold that must."""
        if not holds:
            self.violations.append(words)

    def leader(self) -> tuple[TierNode, PartitionLeader] | None:
        """The node that leads in the newest epoch, and its role, if it serves."""
        topic = self.world.committed().topics_by_id.get(TOPIC_ID)
        partition = None if topic is None else topic.partitions[0]
        if partition is None or partition.leader < 0 or not self.world.nodes[partition.leader].is_up:
            return None
        node = self.world.nodes[partition.leader]
        try:
            role = node.replica().led()
        except KafkaError:
            return None
        return (node, role) if role.epoch == partition.leader_epoch else None

    def local(self, node: TierNode) -> list[Batch]:
        """The batches on a node's disk."""
        return batches_in(self.world.contents(node.id))

    # Losses that disks and unclean elections make

    def cut(self, end: int) -> None:
        """Forget what was committed from an offset on."""
        if end < self.end:
            self.losses += 1
        self.end = min(self.end, end)
        self.start = min(self.start, self.end)
        self.committed = {base: each for base, each in self.committed.items() if each.next_offset <= self.end}

    def copied_end(self) -> int:
        """The offset at which an empty leader begins."""
        segments = self.world.metadata.known.segments_of(TOPIC_ID, 0)
        epochs = [] if segments is None else segments.copied_epochs()
        return segments.highest_offset(epochs[-1]) + 1 if segments is not None and epochs else 0

    def cut_to_copies(self) -> None:
        """Forget what was committed and is lost with the last disk: the log has the history of the last copy now."""
        self.cut(self.copied_end())
        copies = [self.content(each) for each in self.finished()]
        for base, batch in list(self.committed.items()):
            is_copied = any(each.get(base) == batch for each in copies)
            if not is_copied and any(base in each for each in copies):
                del self.committed[base]

    def committed_in(self, batch: Batch) -> list[Batch]:
        """The committed batches with any offset of this one."""
        borders = batch.base_offset, batch.next_offset
        return [
            each for each in self.committed.values() if each.base_offset < borders[1] and borders[0] < each.next_offset
        ]

    # The store

    def _written(self, key: str) -> None:
        name = parse_key(PREFIX, key)
        assert name is not None
        self.must(name.segment.segment_id in self.segments, f"{key} is written before its copy is announced")

    def _deleted(self, key: str) -> None:
        name = parse_key(PREFIX, key)
        assert name is not None
        self.must(key not in self.foreign, f"{key} of another cluster is deleted")
        segment = self.segments.get(name.segment.segment_id)
        is_kept = segment is not None and segment.state in (STARTED, FINISHED)
        self.must(not is_kept, f"{key} is deleted in the state {segment and segment.state.name}")

    def _recorded(self, record: Record) -> None:
        if isinstance(record, RemotePartitionDelete):
            left = [each for each in self.segments.values() if each.state is not DELETED]
            is_over = record.state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED
            self.must(not (left and is_over), "the deletion of the partition is over, and segments are left")
            return
        before = self.segments.get(record.id.segment_id)
        if isinstance(record, RemoteLogSegment):
            self.segments[record.id.segment_id] = record
            if before is None:
                self._announced(record)
            return
        assert before is not None
        self.segments[record.id.segment_id] = after = before.with_update(record)
        if after.state is FINISHED and before.state is not FINISHED:
            self._finished(after)

    def _announced(self, segment: RemoteLogSegment) -> None:
        node = self.world.nodes[segment.broker_id]
        found = self.leader()
        if found is not None and found[0] is node and found[1].epoch == segment.leader_epochs[-1][0]:
            stable = found[1].last_stable_offset().offset
            self.must(segment.next_offset <= stable, f"{segment.end_offset} is copied, and {stable} is not stable")

    def _finished(self, segment: RemoteLogSegment) -> None:
        """Check a copy that was finished just now."""
        objects = self.world.store.objects
        absent = [kind for kind in ObjectKind if object_key(PREFIX, name_of(segment), kind) not in objects]
        self.must(not absent, f"a segment is finished without its {absent}")
        self.copied = max(self.copied, segment.end_offset)
        self.note_committed()
        held = list(self.content(segment).values())
        borders = (held[0].base_offset, held[-1].next_offset) if held else ()
        self.must(
            borders == (segment.start_offset, segment.next_offset), f"a copy to {segment.end_offset} has {borders}"
        )
        for each in held:
            known = self.committed.get(each.base_offset)
            is_of_history = known is not None and known.epoch == each.epoch
            self.must(not is_of_history or known == each, f"{each.base_offset} is another batch in the store")
        epochs: list[tuple[int, int]] = []
        for each in held:
            if not epochs or epochs[-1][0] != each.epoch:
                epochs.append((each.epoch, each.base_offset))
        named = list(segment.leader_epochs)
        node = self.world.nodes[segment.broker_id]
        begins = node.log().log_start_offset if node.is_up else 0  # retention may have moved it since the last check
        if named[0][1] <= max(self.start, self.asked_start, begins):  # the log began within the segment
            epochs = [each for each in epochs if each[0] > named[0][0]]
            epochs.insert(0, named[0])
        self.must(epochs == named, f"{epochs} are the epochs, not {named}")
        self._check_aborted(segment, held)

    def _check_aborted(self, segment: RemoteLogSegment, held: list[Batch]) -> None:
        """The transaction index names the aborted transactions whose markers are in the segment."""
        store = self.world.store
        conditions, store.conditions = store.conditions, StoreConditions()
        index = SimulatedStorage(store, _NoWait())._chunked().index(segment, IndexType.TRANSACTION) or b""
        store.conditions = conditions
        named = {int.from_bytes(index[at + 18 : at + 26]) for at in range(0, len(index), ENTRY_BYTES)}
        markers = {each.base_offset for each in held if _is_abort(each.data)}
        needed = {each.last_offset for each in self.aborted() if each.last_data_offset >= self.start} & markers
        self.must(needed <= named <= markers, f"the index names {named}, and {markers} are aborted")
        self.must(not (named and segment.is_transaction_index_empty), "a segment hides its aborted transactions")

    def content(self, segment: RemoteLogSegment) -> dict[int, Batch]:
        """The batches of a segment in the store, by base offset."""
        key = object_key(PREFIX, name_of(segment), ObjectKind.LOG)
        data = self.world.store.objects.get(key, b"")
        before = self._contents.get(key)
        if before is None or before[0] is not data:
            before = self._contents[key] = data, {each.base_offset: each for each in batches_in(data)}
        return before[1]

    # At any moment

    def note_committed(self) -> None:
        """Note what the leader has committed."""
        found = self.leader()
        if found is None:
            return
        node, leader = found
        committed = leader.high_watermark.offset
        for each in self.local(node):
            if leader.log.log_start_offset < each.next_offset <= committed:
                known = self.committed.setdefault(each.base_offset, each)
                self.must(known == each, f"offset {each.base_offset} was given twice")
        self.end = max(self.end, committed)

    def check(self) -> None:
        """Check that everything that was committed is on the leader's disk or in the store."""
        self.note_committed()
        found = self.leader()
        if found is None:
            return
        node, leader = found
        log, epochs = leader.log, leader.log.epochs.entries()
        self.must(log.end.offset >= self.end, "committed records are gone")
        self._check_start(node, leader)
        local = {each.base_offset for each in self.local(node)}
        segments = self.world.metadata.known.segments_of(TOPIC_ID, 0)
        for base, batch in self.committed.items():
            if base in local or batch.next_offset <= self.start or not log.config.is_tiered:
                continue
            at = max(base, self.start)
            segment = None if segments is None else segment_for(segments, epochs, at)
            if segment is None:
                self.must(holds=False, words=f"{at} is neither on the disk nor in the store")
                return
            self.must(at < agrees_until(segment, epochs, at), f"{at} is of another lineage in the store")
            self.must(self.content(segment).get(base) == batch, f"{at} is another record in the store")

    def _check_start(self, node: TierNode, leader: PartitionLeader) -> None:
        """The log start of a leader goes forward, and only where something asked for it."""
        start, term = leader.log.log_start_offset, (node.id, node.life, leader.epoch)
        before = self._starts.get(term, 0)
        self.must(start >= before, f"the log start goes back from {before} to {start}")
        self._starts[term] = start
        self.start = max(self.start, leader.log.local_log_start_offset if self.deletes_uncopied else start)
        copied = node.remote_log.copied_offset(node.replica())
        self.must(copied <= self.copied, f"{copied} is copied, and no finished segment has more than {self.copied}")
        if start <= max(self.asked_start, self._moved_to) or self.losses:
            return
        self._moved_to = start  # later on the leader may lose records that are not committed, and counted here
        self.must(
            self.retention_bytes >= 0, f"the log start is {start}, and nothing asked for more than {self.asked_start}"
        )
        kept_bytes = sum(len(each.data) for base, each in self.committed.items() if base >= start)
        kept_bytes += leader.log.size
        self.must(kept_bytes >= self.retention_bytes, f"retention keeps {kept_bytes} bytes of {self.retention_bytes}")

    def aborted(self) -> list[Aborted]:
        """The aborted transactions of what was committed, by their markers."""
        found, begun = [], dict[int, tuple[int, int]]()
        for _, batch in sorted(self.committed.items()):
            ((_, header),) = batch_headers(batch.data)
            if header.is_control:
                of_producer = begun.pop(header.producer_id, None)
                if of_producer is not None and _is_abort(batch.data):
                    found.append(Aborted(header.producer_id, *of_producer, batch.base_offset))
            elif header.is_transactional:
                first, _ = begun.get(header.producer_id, (batch.base_offset, 0))
                begun[header.producer_id] = first, batch.base_offset
        return found

    def finished(self) -> Iterator[RemoteLogSegment]:
        """The segments that can be read."""
        return (each for each in self.segments.values() if each.state is FINISHED)

    # At rest

    def kept_producers(self) -> set[int]:
        """The producers of what was committed and is still in the log."""
        headers = [next(batch_headers(each.data))[1] for base, each in self.committed.items() if base >= self.start]
        return {header.producer_id for header in headers if header.producer_id >= 0}

    def unsettled(self) -> str:
        """The first thing that is not at rest; empty if all is."""
        open_copies = [each for each in self.segments.values() if each.state not in (FINISHED, DELETED)]
        if open_copies:
            return f"a segment stays in the state {open_copies[0].state.name}"
        wanted = {object_key(PREFIX, name_of(each), kind) for each in self.finished() for kind in ObjectKind}
        wanted |= self.foreign.keys()
        if self.world.store.objects.keys() != wanted:
            return f"the store has {sorted(self.world.store.objects.keys() ^ wanted)[:1]}, or should have it"
        found = self.leader()
        start = 0 if found is None or self.losses else found[1].log.log_start_offset
        below = [each for each in self.finished() if each.next_offset <= start]
        return f"a segment to {below[0].end_offset} is left, and the log begins at {start}" if below else ""


def is_control(batch: Batch) -> bool:
    """Whether a batch is the end of a transaction."""
    ((_, header),) = batch_headers(batch.data)
    return header.is_control


class _NoWait:
    """A scheduler of calls that do not wait."""

    def wait_for_store(self, _duration_ms: float) -> None: ...


def _is_abort(data: bytes) -> bool:
    """Whether a batch is the marker of an aborted transaction."""
    ((_, header),) = batch_headers(data)
    marker = transaction_marker(header, data, 0) if header.is_control else None
    return marker is not None and not marker.committed
