"""Log directories whose tiered partitions go on in a store, as a source of an audit.

The copies come from ``__remote_log_metadata`` in the directories. Of each tiered partition, the replica that has most
is audited from its log start on, with the part that only the store has. The copies of what its disk has as well are one
replica more, which is compared with the others. Not here: objects that belong to nothing (``kpybroker tiers check``).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kpybroker.hosts.remote_log import segment_reads
from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.hosts.remote_log.remote_storage import StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentFile
from kpybroker.machines.audit.findings import DAMAGE, NOTE, OFFSETS, AuditFinding, BytePlace
from kpybroker.machines.audit.sources import AuditedReplica, AuditOutcome, AuditTask, ReplicaFacts
from kpybroker.machines.audit.stretch import Stretch
from kpybroker.machines.audit.walk import AuditWalk, Of
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import CopiedRange, Epochs, copies, lineage
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata
from kpybroker.pipeline.audit.copied_segments import CopyWalk, path_of
from kpybroker.pipeline.audit.directories import TASK_BYTES, AuditedDirectories, TransactionIndexFile
from kpybroker.pipeline.tiers.stores import TierStore
from kpystorage import names, scan
from kpystorage.checkpoint import parse_epochs
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile, CorruptObject
from kpystorage.reading import ReadableLog, StoredBatch
from kpystorage.remote.indexes import IndexType
from kpywire.batch import check_crc
from kpywire.errors import Malformed
from kpywire.record import read_batch
from kpywire.remote_log_record import TOPIC as METADATA
from kpywire.uuid import from_string

COPIES: Final = "the store"
"""The label of copies as a replica."""


class TieredPartition(NamedTuple):
    """The copies of a partition, in the history of the replica that has most."""

    key: str
    """The name of that replica, as `AuditedReplica.key` has it."""
    log_start: int
    border: int
    """The first offset of its disk."""
    copies: tuple[CopiedRange, ...]

    @property
    def start(self) -> int:
        """The first offset that is there, in the store or on the disk."""
        return min([self.border, *(each.start_offset for each in self.copies[:1])])

    @property
    def end(self) -> int:
        """The end of the copies."""
        return self.copies[-1].end_offset if self.copies else self.border

    def within(self, start: int, end: int) -> tuple[CopiedRange, ...]:
        """The copies with some of these offsets."""
        return tuple(each for each in self.copies if each.start_offset < end and each.end_offset > start)


Tiers = tuple[RemoteLogMetadata, Mapping[tuple[str, int], TieredPartition]]


class TieredDirectories(AuditedDirectories):
    """Log directories, and the store of their cluster."""

    def __init__(self, paths: Sequence[str], store: TierStore, disk: Disk | None = None) -> None:
        super().__init__(paths, disk)
        self._store = store
        self._tiers: Mapping[tuple[str, int], TieredPartition] | None = None

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        _, (paths, disk) = super().__reduce__()
        return TieredDirectories, (paths, self._store, disk)

    # Replicas.

    def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
        on_disks = super().replicas(())
        self._tiers = self._found(on_disks)[1]
        found = []
        for each in on_disks:
            if topics and each.topic not in topics:
                continue
            tier = self._tiers.get(each.spot)
            if tier is None or each.key != tier.key:
                found.append(each)
                continue
            only = tier.within(tier.start, tier.border)
            size_bytes = each.size_bytes + sum(copy.segment.size_bytes for copy in only)
            found.append(each._replace(start=tier.start, size_bytes=size_bytes))
            if tier.end > tier.border:
                found.append(self._copy(each, tier))
        return found

    def _copy(self, replica: AuditedReplica, tier: TieredPartition) -> AuditedReplica:
        """The copies of what is on the disk, too, as a replica."""
        start = max(tier.border, tier.copies[0].start_offset)
        end = min(tier.end, replica.end)
        return replica._replace(
            label=COPIES,
            directory=self._store.opened().name,
            start=start,
            end=end,
            log_end=end,
            high_watermark=-1,
            size_bytes=sum(each.segment.size_bytes for each in tier.within(start, end)),
            is_copy=True,
        )

    def tiers(self) -> Tiers:
        """The metadata in the directories, and the copies of each tiered partition."""
        return self._found(super().replicas(()))

    def _found(self, replicas: Iterable[AuditedReplica]) -> Tiers:
        best: dict[tuple[str, int], AuditedReplica] = {}
        for each in replicas:
            known = best.get(each.spot)
            if known is None or min(each.end, each.log_end) > min(known.end, known.log_end):
                best[each.spot] = each
        metadata = self._metadata([each for each in best.values() if each.topic == METADATA])
        tiers = {}
        for spot, replica in best.items():
            with suppress(ValueError):
                segments = metadata.segments_of(from_string(replica.topic_id), replica.partition)
                if segments:
                    tiers[spot] = self._tier(replica, segments)
        return metadata, tiers

    def _metadata(self, logs: Iterable[AuditedReplica]) -> RemoteLogMetadata:
        found = RemoteLogMetadata()
        for replica in logs:
            for _, batch in super().batches(replica, replica.start, replica.end):
                with suppress(Malformed):
                    for record in [] if batch.header.is_control else list(read_batch(batch.data, batch.header)):
                        found.apply(read_value(record.value or b""))
        return found

    def _tier(self, replica: AuditedReplica, segments: RemoteSegments) -> TieredPartition:
        path = replica.directory.rpartition("/")[0]
        log_start = self._checkpoint(path, names.LOG_STARTS).get(replica.spot, 0)
        border, epochs = replica.start, self._epochs_of(replica)
        found = tuple(copies(segments, epochs, log_start))
        if not found and log_start < border:
            later = [each.start_offset for each in lineage(segments, replica.log_end, epochs)]
            first = min((each for each in later if each > log_start), default=border)
            found = tuple(copies(segments, epochs, first))
        return TieredPartition(replica.key, log_start, border, found)

    def _epochs_of(self, replica: AuditedReplica) -> Epochs:
        path = f"{replica.directory}/{names.LEADER_EPOCHS}"
        try:
            return parse_epochs(self.disk.read(path), path)
        except (CorruptFile, FileNotFoundError):
            return []

    def _tier_of(self, replica: AuditedReplica) -> TieredPartition | None:
        """The copies that belong to a replica: to one that has most, or to that of the copies."""
        if self._tiers is None:
            self._tiers = self.tiers()[1]
        tier = self._tiers.get(replica.spot)
        return tier if tier is not None and (replica.is_copy or replica.key == tier.key) else None

    def facts(self, replica: AuditedReplica) -> ReplicaFacts:
        return ReplicaFacts(replica.start) if replica.is_copy else super().facts(replica)

    def identities(self, replica: AuditedReplica) -> Mapping[int, tuple[int, ...]]:
        on_disk = {} if replica.is_copy else super().identities(replica)
        tier = self._tier_of(replica)
        if tier is None:
            return on_disk
        begin, end = (tier.border, tier.end) if replica.is_copy else (tier.start, tier.border)
        stored = {
            each.start_offset: (each.segment.size_bytes, int.from_bytes(each.segment.id.segment_id[:6]))
            for each in tier.within(begin, end)
        }
        return {**stored, **on_disk}

    # Work.

    def tasks(self, replica: AuditedReplica, start: int, *, deep: bool) -> list[AuditTask]:
        tier = self._tier_of(replica)
        if tier is None:
            return super().tasks(replica, start, deep=deep)
        border = replica.end if replica.is_copy else min(tier.border, replica.end)
        tasks: list[AuditTask] = []
        group: list[CopiedRange] = []
        for each in tier.within(start, border):
            group.append(each)
            size_bytes = sum(copy.segment.size_bytes for copy in group)
            if size_bytes >= TASK_BYTES or each.end_offset >= border or each is tier.copies[-1]:
                begin, end = max(group[0].start_offset, start, replica.start), min(each.end_offset, border)
                tasks.append(AuditTask(replica, begin, end, deep=deep, size_bytes=size_bytes, copies=tuple(group)))
                group = []
        return tasks if replica.is_copy else tasks + super().tasks(replica, max(start, border), deep=deep)

    def read(self, task: AuditTask) -> AuditOutcome:
        if task.copies:
            return self._read_copies(task)
        first = self._first_on_disk(task.replica) if task.replica.is_running else task.start
        if first <= task.start:
            return super().read(task)
        self._tiers = None
        tier = self._tier_of(task.replica)  # its segments went into the store since the plan was made
        copied = () if tier is None else tier.within(task.start, min(first, task.end))
        if not copied:
            return super().read(task)
        begin = self._read_copies(task._replace(end=min(first, task.end), copies=copied))
        if first >= task.end:
            return begin._replace(task=task)
        rest = super().read(task._replace(start=first, next_offset=-1))
        stretches, findings = begin.stretches + rest.stretches, begin.findings + rest.findings
        return AuditOutcome(task, stretches, findings, rest.is_read)

    def _first_on_disk(self, replica: AuditedReplica) -> int:
        try:
            return ReadableLog(self.disk, replica.directory).segments()[0].base_offset
        except FileNotFoundError:
            return 0

    def _read_copies(self, task: AuditTask) -> AuditOutcome:
        findings: list[AuditFinding] = []
        replica = task.replica
        walk = AuditWalk(Of(replica.label, *replica.spot), findings.append, task.start, task.end, deep=task.deep)
        walk.expected = task.next_offset
        ends = [*(cut for cut in task.cuts if task.start < cut < task.end), task.end]
        copied = CopyWalk(self._store.opened(), walk, ends, findings)
        stretches = [stretch for each in task.copies for stretch in copied.read(each, task.start)]
        return AuditOutcome(task, (*stretches, walk.cut(task.end)), tuple(findings))

    def batches(self, replica: AuditedReplica, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        tier = self._tier_of(replica)
        if tier is None:
            yield from super().batches(replica, start, end)
            return
        border = replica.end if replica.is_copy else tier.border
        for each in tier.within(start, min(end, border)):
            with suppress(StoreFailed, CorruptObject):  # which the walk has reported
                yield from self._batches_of(each, max(start, each.start_offset), min(end, border, each.end_offset))
        if not replica.is_copy and end > border:
            yield from super().batches(replica, max(start, border), end)

    def _batches_of(self, copy: CopiedRange, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        storage, segment = self._store.opened(), copy.segment
        found = segment_reads.find(storage, segment, start)
        if found is None:
            return
        for at, header, data in scan.batches(SegmentFile(storage, segment), found[0], segment.size_bytes):
            if header.base_offset >= end:
                return
            if header.next_offset > start and check_crc(data, header):
                yield BytePlace(path_of(storage, segment), at), StoredBatch(header, data)

    # What spans segments.

    def check_around(self, replica: AuditedReplica, whole: Stretch, start: int) -> Iterable[AuditFinding]:
        tier = self._tier_of(replica)
        spot = (*replica.spot, replica.label)
        if replica.is_copy:
            if whole.next_offset < replica.end:
                text = f"ends at offset {whole.next_offset}, and the metadata of the store say {replica.end}"
                yield AuditFinding(DAMAGE, OFFSETS, *spot, replica.directory, -1, whole.next_offset, text)
            return
        yield from self._unknown(replica)
        if tier is not None and tier.log_start < tier.start:
            text = (
                f"the offsets {tier.log_start} to {tier.start - 1} are not in the store: retention took them, or loss"
            )
            yield AuditFinding(NOTE, OFFSETS, *spot, replica.directory, -1, tier.log_start, text)
        yield from super().check_around(replica, whole, start)

    def _unknown(self, replica: AuditedReplica) -> Iterator[AuditFinding]:
        """A beginning that is on no disk, of a partition without known copies."""
        log_start = self._checkpoint(replica.directory.rpartition("/")[0], names.LOG_STARTS).get(replica.spot)
        if log_start is not None and log_start < replica.start and replica.spot not in (self._tiers or {}):
            text = f"the offsets {log_start} to {replica.start - 1} are not on this disk, and {METADATA} has no copies"
            yield AuditFinding(NOTE, OFFSETS, *replica.spot, replica.label, replica.directory, -1, log_start, text)

    def transaction_indexes(self, replica: AuditedReplica) -> Iterator[TransactionIndexFile]:
        tier = self._tier_of(replica)
        storage = self._store.opened()
        for each in () if tier is None else tier.copies:
            if (each.start_offset, each.end_offset) != (each.segment.start_offset, each.segment.next_offset):
                continue  # the rest of it is of another history, or before the log start
            path = f"{path_of(storage, each.segment)}, index {IndexType.TRANSACTION.name}"
            with suppress(StoreFailed, CorruptObject):  # which the walk has reported
                data = storage.index(each.segment, IndexType.TRANSACTION) or b""
                yield TransactionIndexFile(path, each.start_offset, each.end_offset, data)
        yield from super().transaction_indexes(replica)
