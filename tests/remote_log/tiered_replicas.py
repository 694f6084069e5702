"""Nodes that follow one another, with one store: the test copies segments, and says when the metadata are read."""

from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from random import Random
from struct import Struct
from typing import Any

from remote_log_histories import segment_id

from kpybroker.hosts.network.peer import Peer
from kpybroker.hosts.remote_log.auxiliary_states import AuxiliaryStates
from kpybroker.hosts.remote_log.empty_leaders import EmptyLeaders
from kpybroker.hosts.remote_log.figures import TierFigures
from kpybroker.hosts.remote_log.local_view import closed_segment
from kpybroker.hosts.remote_log.remote_storage import ClosedSegmentFiles, CopyLimits, ObjectMissing, StoreFailed
from kpybroker.hosts.remote_log.segment_ends import SegmentEnds
from kpybroker.hosts.replicas.directories import Directories
from kpybroker.hosts.replicas.replica import Replica
from kpybroker.hosts.replicas.tiering import NoTiering
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import highest_copied
from kpybroker.machines.remote_log.segments import FINISHED, STARTED, RemoteLogSegment, RemoteLogSegmentId
from kpybroker.machines.remote_log.sweep import ListedObject
from kpystorage.checkpoint import parse_epochs
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.remote.indexes import IndexType
from kpystorage.sim_disk import SimDisk
from kpystorage.unmade import LogStart
from kpywire.metadata_records.partition_change_record import PartitionChangeRecord
from tests.replication.replica_world import DATA, TOPIC, TOPIC_ID, World, WorldNode

LOG_OVERHEAD = Struct(">qi")
TIERED = {"remote.storage.enable": "true", "retention.ms": "-1"}


class IndexStore:
    """A store that answers for indexes alone. ``fails`` is the reason why it answers nothing."""

    def __init__(self) -> None:
        self.indexes: dict[tuple[bytes, IndexType], bytes] = {}
        self.batches: dict[bytes, dict[int, bytes]] = {}
        """The batches of each segment, by base offset; nothing asks for them."""
        self.fails = ""
        self.asked = 0

    def index(self, segment: RemoteLogSegment, index: IndexType) -> bytes | None:
        self.asked += 1
        if self.fails:
            raise StoreFailed(self.fails)
        found = self.indexes.get((segment.id.segment_id, index))
        if found is None:
            raise ObjectMissing(f"there is no {index.value}")
        return found

    def check(self) -> None: ...

    def copy(self, segment: RemoteLogSegment, files: ClosedSegmentFiles, limits: CopyLimits) -> bytes | None:
        raise AssertionError(f"{segment}, {files} and {limits} are not for this store")

    def read(self, segment: RemoteLogSegment, start: int, end: int) -> bytes:
        raise AssertionError(f"{segment} has no bytes {start} to {end}")

    def delete(self, segment: RemoteLogSegment) -> None:
        raise AssertionError(f"{segment} is not deleted")

    def listed(self) -> Iterator[ListedObject]:
        return iter(())

    def close(self) -> None: ...


class Tiers(NoTiering):
    """The tiered storage of one node."""

    def __init__(self, states: AuxiliaryStates, leaders: EmptyLeaders) -> None:
        self.states = states
        self.leaders = leaders

    def begin_in_middle(self, replica: Replica, leader: Peer, done: Callable[[str | None], object]) -> None:
        self.states.begin(replica, leader, done)

    def skips_tiered(self, replica: Replica) -> bool:
        return self.states.skips_tiered(replica)

    def check_beginning(self, replica: Replica, log: Log) -> None:
        self.leaders.check(replica, log)

    def beginning(self, replica: Replica) -> LogStart | None:
        return self.leaders.beginning(replica)


class CopiedOffsets:
    """The part of a node that answers for the border between store and disk."""

    def __init__(self, segments: dict[int, RemoteSegments]) -> None:
        self._segments = segments

    def copied_offset(self, replica: Replica) -> int:
        log, segments = replica.led().log, self._segments[replica.index]
        return highest_copied(segments, log.end.offset, log.epochs.entries()).offset


class TieredReplicas(World):
    """The nodes and the store."""

    log_config = LogConfig(is_tiered=True)

    def __init__(
        self, nodes: int = 2, *, partitions: int = 1, directories: int = 1, overrides: dict[str, str] | None = None
    ) -> None:
        self.store = IndexStore()
        self.segments = {index: RemoteSegments(TOPIC_ID, TOPIC, index) for index in range(partitions)}
        self.are_metadata_read = True
        self.held: list[Callable[[], object]] | None = None
        """The calls to the store, while the test keeps them back."""
        self.figures = TierFigures()
        self.copied = 0
        super().__init__(nodes, partitions=partitions, directories=directories, overrides=overrides, topic=TIERED)

    def tiering_of(self, node: WorldNode, directories: Directories) -> Tiers:
        def submit(work: Callable[[], Any], done: Callable[[Any, BaseException | None], object]) -> None:
            if self.held is None:
                node.scheduler.submit_waiting(work, done)
            else:
                self.held.append(partial(node.scheduler.submit_waiting, work, done))

        ends = SegmentEnds(self.store, submit)
        node.remote_log = CopiedOffsets(self.segments)

        def segments_of(topic_id: bytes, index: int) -> RemoteSegments | None:
            assert topic_id == TOPIC_ID
            return self.segments[index] if self.are_metadata_read else None

        return Tiers(
            AuxiliaryStates(
                node.id,
                node.scheduler,  # type: ignore[arg-type]
                segments_of,
                ends,
                lambda: node.config,
                self.figures,
                directories.check,
            ),
            EmptyLeaders(node.scheduler, segments_of, ends, directories.check),  # type: ignore[arg-type]
        )

    # The store

    def roll(self, node_id: int, index: int = 0) -> None:
        """Close the active segment."""
        self.nodes[node_id].log(index).roll(self.scheduler.now_ms())

    def copy(self, node_id: int, index: int = 0, *, until: int = 1 << 62) -> None:
        """Copy all closed segments of a node's log up to an offset that are not copied yet."""
        log, segments = self.nodes[node_id].log(index), self.segments[index]
        batches = batches_of(self.contents(node_id, index))
        for base, end in pairwise(log.base_offsets):
            if end > until:
                break
            files = closed_segment(log, base).files()
            epochs = parse_epochs(files.leader_epochs, "epochs")
            of_segment = tuple((epoch, max(start, base)) for epoch, start in _within(epochs, base))
            if segments.find(of_segment[-1][0], end - 1) is not None:
                continue
            self.copied += 1
            name = RemoteLogSegmentId(TOPIC_ID, TOPIC, index, segment_id(self.copied))
            made = RemoteLogSegment(name, base, end - 1, node_id, 0, 0, of_segment, 100, None, STARTED, True)
            self.store.indexes[name.segment_id, IndexType.LEADER_EPOCH] = files.leader_epochs
            self.store.indexes[name.segment_id, IndexType.PRODUCER_SNAPSHOT] = files.producer_snapshot
            self.store.batches[name.segment_id] = {each: batches[each] for each in batches if base <= each < end}
            segments.apply(made)
            segments.apply(made.update(FINISHED, node_id, 0))

    def leave_disk(self, node_id: int, count: int, index: int = 0) -> None:
        """Delete a log's oldest segments from the disk."""
        log = self.nodes[node_id].log(index)
        log.flush()
        assert log.delete_oldest(count, self.scheduler.now_ms()) == count

    def tell_isr(self, *isr: int) -> None:
        """Set the in-sync set of all partitions."""
        for index in self.segments:
            self.tell(PartitionChangeRecord(topic_id=TOPIC_ID, partition_id=index, isr=list(isr)))

    def lose_disk(self, node_id: int) -> None:
        """End a node, and put an empty disk into its machine."""
        node = self.nodes[node_id]
        node.kill()
        node.disk = SimDisk(Random(node_id))
        for path in DATA[: self.directories]:
            node.disk.make_directory(path)
        node.disk.synchronize_directory("/")


def batches_of(records: bytes) -> dict[int, bytes]:
    """The batches of a log's bytes, by base offset."""
    found, at = {}, 0
    while at < len(records):
        base_offset, length = LOG_OVERHEAD.unpack_from(records, at)
        found[base_offset] = records[at : at + LOG_OVERHEAD.size + length]
        at += LOG_OVERHEAD.size + length
    return found


def _within(epochs: list[tuple[int, int]], base: int) -> list[tuple[int, int]]:
    """The epochs with records from ``base`` on."""
    first = max((at for at, (_, start) in enumerate(epochs) if start <= base), default=0)
    return epochs[first:]
