"""The log directories of one or several brokers as a source of an audit, also while their brokers run.

No lock is kept and nothing is written. Names and lengths may change while they are read: a piece of work is a range of
offsets, and the segments that hold it are listed when it is done.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from kpybroker.machines.audit.findings import BYTES, DAMAGE, EPOCHS, INDEXES, NOTE, OFFSETS, AuditFinding, BytePlace
from kpybroker.machines.audit.sources import METADATA_TOPIC, AuditedReplica, AuditOutcome, AuditTask, ReplicaFacts
from kpybroker.machines.audit.stretch import AbortedStretch, Stretch
from kpybroker.machines.audit.walk import END_OF_ALL, AuditWalk, Of
from kpybroker.pipeline.audit.segment_indexes import check_snapshots, compare_snapshot, indexes_beside
from kpybroker.pipeline.audit.segment_reading import SegmentRead
from kpystorage import checkpoint, meta_properties, names, scan
from kpystorage.checking import findings as checking
from kpystorage.checking.epochs import EpochCheck
from kpystorage.checking.findings import DAMAGE as CHECKED_DAMAGE
from kpystorage.checking.set_aside_names import is_set_aside
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.listing import list_logs
from kpystorage.offset_index import position_near
from kpystorage.partition_metadata import parse as parse_topic_id
from kpystorage.reading import ReadableLog, SegmentName, StoredBatch
from kpystorage.reading_disk import ReadingDisk
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.batch import check_crc
from kpywire.uuid import to_string

TASK_BYTES: Final = 256 << 20
"""The size of a piece of work: segments are put together up to this."""
ATTEMPTS: Final = 5


class TransactionIndexFile(NamedTuple):
    """The transaction index of a segment with offsets ``base_offset .. following``, and its place for people."""

    path: str
    base_offset: int
    following: int
    data: bytes


class AuditedDirectories:
    """Log directories. They belong to one broker or to several brokers of one cluster."""

    processes = 0

    def __init__(self, paths: Sequence[str], disk: Disk | None = None) -> None:
        """``disk`` is the file system unless another one is given."""
        self.paths = tuple(path.rstrip("/") or "/" for path in paths)
        self._disk = disk

    @property
    def disk(self) -> Disk:
        """The disk that all reads go to."""
        if self._disk is None:
            self._disk = ReadingDisk()
        return self._disk

    def __reduce__(self) -> tuple[type, tuple[object, ...]]:
        disk = None if isinstance(self._disk, ReadingDisk) else self._disk
        return AuditedDirectories, (self.paths, disk)

    # Replicas.

    def replicas(self, topics: Sequence[str]) -> list[AuditedReplica]:
        found = []
        for path in self.paths:
            label, is_running = self._label(path), _is_locked(self.disk, path)
            marks = self._checkpoint(path, names.HIGH_WATERMARKS)
            for topic, partition in list_logs(self.disk, path).logs:
                if not topics or topic in topics:
                    mark = marks.get((topic, partition), -1)
                    found.append(self._replica(label, topic, partition, path, mark, is_running=is_running))
        return found

    def _replica(
        self, label: str, topic: str, partition: int, path: str, mark: int, *, is_running: bool
    ) -> AuditedReplica:
        directory = f"{path}/{names.partition_directory(topic, partition)}"
        view = ReadableLog(self.disk, directory)
        try:
            segments, log_end = view.segments(), view.log_end_offset
        except FileNotFoundError:
            segments, log_end = [], 0
        start = segments[0].base_offset if segments else 0
        return AuditedReplica(
            label,
            topic,
            partition,
            directory,
            topic_id=self._topic_id(directory),
            start=start,
            end=max(mark, start) if is_running and topic != METADATA_TOPIC else END_OF_ALL,
            log_end=log_end,
            high_watermark=mark,
            size_bytes=sum(self._size(each.path) for each in segments),
            is_running=is_running,
        )

    def _label(self, path: str) -> str:
        try:
            found = meta_properties.read(self.disk, path)
        except (CorruptFile, OSError):
            found = None
        return path if found is None or found.node_id is None else f"broker {found.node_id}"

    def _topic_id(self, directory: str) -> str:
        path = f"{directory}/{names.PARTITION_METADATA}"
        try:
            topic_id = parse_topic_id(self.disk.read(path), path)
        except (CorruptFile, OSError):
            return ""
        return "" if topic_id is None else to_string(topic_id)

    def _checkpoint(self, path: str, name: str) -> Mapping[tuple[str, int], int]:
        try:
            return checkpoint.read_offsets(self.disk, f"{path}/{name}")
        except CorruptFile:
            return {}

    def _size(self, path: str) -> int:
        status = self.disk.status(path)
        return 0 if status is None else status.size

    def facts(self, replica: AuditedReplica) -> ReplicaFacts:
        path = replica.directory.rpartition("/")[0]
        starts = self._checkpoint(path, names.LOG_STARTS)
        cleaned = self._checkpoint(path, names.CLEANER_OFFSETS)
        listed = self.disk.list_directory(replica.directory) if self.disk.status(replica.directory) else []
        cleaned_to = unique_to = cleaned.get(replica.spot, 0)
        if cleaned_to and not self._was_clean(path):  # a cleaner that was killed has done more than it noted
            bases = [each.base_offset for each in ReadableLog(self.disk, replica.directory).segments()]
            cleaned_to = max(cleaned_to, bases[-1])
        was_mended = any(is_set_aside(each) and f"{names.LOG}." in each for each in listed)
        return ReplicaFacts(starts.get(replica.spot, 0), cleaned_to, was_mended, unique_to)

    def _was_clean(self, path: str) -> bool:
        return self.disk.status(f"{path}/{names.CLEAN_SHUTDOWN}") is not None

    def identities(self, replica: AuditedReplica) -> Mapping[int, tuple[int, ...]]:
        found = {}
        for segment in ReadableLog(self.disk, replica.directory).segments():
            status = self.disk.status(segment.path)
            if status is not None:
                found[segment.base_offset] = (status.size, status.modified_ns, status.inode)
        return found

    # Work.

    def tasks(self, replica: AuditedReplica, start: int, *, deep: bool) -> list[AuditTask]:
        try:
            segments = ReadableLog(self.disk, replica.directory).segments()
        except FileNotFoundError:
            return []
        tasks: list[AuditTask] = []
        begin, size_bytes = None, 0
        for each in segments:
            if each.next_base_offset is not None and each.next_base_offset <= start:
                continue
            begin = max(each.base_offset, start) if begin is None else begin
            size_bytes += self._size(each.path)
            if size_bytes >= TASK_BYTES or each.next_base_offset is None:
                end = replica.end if each.next_base_offset is None else min(each.next_base_offset, replica.end)
                if begin < end:
                    tasks.append(AuditTask(replica, begin, end, deep=deep, size_bytes=size_bytes))
                begin, size_bytes = None, 0
        return tasks

    def read(self, task: AuditTask) -> AuditOutcome:
        replica = task.replica
        for _ in range(ATTEMPTS):
            findings: list[AuditFinding] = []
            try:
                return AuditOutcome(task, tuple(self._read(task, findings)), tuple(findings))
            except FileNotFoundError:
                continue  # a segment was deleted or compacted: the files of this range have other names now
            except OSError as error:
                text = f"cannot be read: {error.strerror}"
                place = BytePlace(error.filename or replica.directory)
                wrong = AuditFinding(DAMAGE, BYTES, *replica.spot, replica.label, *place, task.start, text)
                return AuditOutcome(task, (), (*findings, wrong), is_read=False)
        place = BytePlace(replica.directory)
        text = "was deleted meanwhile"
        gone = AuditFinding(NOTE, OFFSETS, *replica.spot, replica.label, *place, task.start, text)
        return AuditOutcome(task, (), (gone,), is_read=False)

    def _read(self, task: AuditTask, findings: list[AuditFinding]) -> Iterator[Stretch]:
        replica = task.replica
        of = Of(replica.label, *replica.spot)
        segments = [
            each
            for each in ReadableLog(self.disk, replica.directory).segments()
            if each.base_offset < task.end and (each.next_base_offset is None or each.next_base_offset > task.start)
        ]
        if not segments:
            raise FileNotFoundError(replica.directory)
        begin = max(task.start, segments[0].base_offset)
        walk = AuditWalk(of, findings.append, begin, task.end, deep=task.deep)
        walk.expected = task.next_offset
        ends = [*(cut for cut in task.cuts if task.start < cut < task.end), task.end]
        ends.reverse()
        walk.end = ends[-1]
        for segment in segments:
            yield from self._segment(task, walk, segment, ends, findings)
        yield walk.cut(task.end)

    def _segment(
        self, task: AuditTask, walk: AuditWalk, segment: SegmentName, ends: list[int], findings: list[AuditFinding]
    ) -> Iterator[Stretch]:
        """Walk through one segment. ``ends`` are the ends of the stretches still to come, the next one last."""
        clean = self._was_clean(task.replica.directory.rpartition("/")[0])
        is_sealed = segment.next_base_offset is not None
        file = self.disk.file(segment.path)
        position = 0
        if segment.base_offset >= task.start:
            if walk.expected < 0:
                walk.expected = segment.base_offset
        else:
            position = _position_of(self.disk, file, segment, task.start)
        indexes = None
        if clean or (is_sealed and self._is_certain(task.replica, segment)):
            indexes = indexes_beside(self.disk, segment.path, segment.base_offset, walk.of, is_sealed=is_sealed)
            for each in scan.headers(file, 0, position):
                indexes.batch(*each)
        reading = SegmentRead(walk, file, segment.path, indexes, segment.next_base_offset, is_open=not clean)
        try:
            while not (is_whole := reading.run(position)) and len(ends) > 1 and walk.end < task.end:
                ends.pop()
                yield walk.cut(walk.end)
                walk.end, position = ends[-1], reading.position
        finally:
            file.release()
        if reading.is_damaged:
            return  # the files beside it are judged when it is whole again
        if indexes is not None:
            bounds = (None, None) if is_whole else (reading.position, max(walk.expected, 0))
            indexes.end(*bounds)
            findings += indexes.findings
        if segment.next_base_offset is not None and is_whole:
            directory = task.replica.directory
            base = max(segment.base_offset, task.start, walk.whole_from)
            if walk.expected < segment.next_base_offset:
                return  # its last batches were compacted away, and perhaps those that the snapshot knows of
            findings += compare_snapshot(self.disk, directory, base, segment.next_base_offset, walk.runs, walk.of)

    def _is_certain(self, replica: AuditedReplica, segment: SegmentName) -> bool:
        """Whether the files beside a sealed segment were written to their end; a crash of the machine may lose some."""
        path = replica.directory.rpartition("/")[0]
        point = self._checkpoint(path, names.RECOVERY_POINTS).get(replica.spot, 0)
        return replica.is_running or (segment.next_base_offset or END_OF_ALL) <= point

    def batches(self, replica: AuditedReplica, start: int, end: int) -> Iterator[tuple[BytePlace, StoredBatch]]:
        for segment in ReadableLog(self.disk, replica.directory).segments():
            if segment.base_offset >= end or (segment.next_base_offset or END_OF_ALL) <= start:
                continue
            file = self.disk.file(segment.path)
            try:
                size = file.size()
                position = position_near(self.disk.file(_index_of(segment)), file, size, segment.base_offset, start)
                for at, header, data in scan.batches(file, position, size):
                    if header.base_offset >= end:
                        break
                    if header.next_offset > start and check_crc(data, header):
                        yield BytePlace(segment.path, at), StoredBatch(header, data)
            except FileNotFoundError:
                continue
            finally:
                file.release()

    # Files that span segments.

    def check_around(self, replica: AuditedReplica, whole: Stretch, start: int) -> Iterable[AuditFinding]:
        yield from self._epochs(replica, whole)
        yield from self._aborted(replica, whole, start)
        of = Of(replica.label, *replica.spot)
        if replica.end == END_OF_ALL and self._was_clean(replica.directory.rpartition("/")[0]):
            yield from check_snapshots(self.disk, replica.directory, whole.next_offset, of)
            if not whole.damaged:
                bounds = whole.last_gap, whole.next_offset
                yield from compare_snapshot(self.disk, replica.directory, *bounds, whole.runs, of)

    def _epochs(self, replica: AuditedReplica, whole: Stretch) -> Iterable[AuditFinding]:
        path = replica.directory
        clean = self._was_clean(path.rpartition("/")[0])
        found: list[checking.Finding] = []
        log_start = self.facts(replica).log_start
        check = EpochCheck(self.disk, path, log_start, replica.start, found.append, clean=clean)
        if not clean:  # the file of log starts may be a minute behind DeleteRecords, the epochs are not
            check.log_start = max(check.log_start, check.start_offset or 0)
        for epoch, first, last in whole.epochs:
            check.strays = 0  # each of them has a finding of its own
            wrong = check.batch(first, first, epoch) or (check.batch(last, last, epoch) if last > first else "")
            if wrong:
                yield AuditFinding(DAMAGE, EPOCHS, *replica.spot, replica.label, check.path, -1, first, wrong)
        check.strays = 0
        check.end(whole.next_offset if replica.end == END_OF_ALL else END_OF_ALL)
        for each in found:
            level = DAMAGE if each.level == CHECKED_DAMAGE else NOTE
            yield AuditFinding(level, EPOCHS, *replica.spot, replica.label, each.path, -1, -1, each.text)

    def _aborted(self, replica: AuditedReplica, whole: Stretch, start: int) -> Iterable[AuditFinding]:
        """Compare the transaction indexes with the aborted transactions that the log shows."""
        seen = {each.last_offset: each for each in whole.aborted}
        ends = {each.offset for each in whole.listed_markers() if not each.committed}
        cleaned_to = self.facts(replica).cleaned_to
        for path, base_offset, following, data in self.transaction_indexes(replica):
            limit = min(following, whole.next_offset)
            indexed, text = _transactions_in(data, base_offset, following)
            begin = max(base_offset, whole.start, start, cleaned_to)
            for last in {*indexed, *(end for end in seen if begin <= end < limit)}:
                if text or not begin <= last < limit:
                    continue
                known = (indexed.get(last), seen.get(last))
                first = min(each.first_offset for each in known if each is not None)
                if not any(first < end and begun <= last for begun, end in whole.damaged):
                    text = _contradiction(*known, whole.start, has_marker=last in ends)
            if text:
                spot = (*replica.spot, replica.label)
                yield AuditFinding(DAMAGE, INDEXES, *spot, path, -1, base_offset, text)

    def transaction_indexes(self, replica: AuditedReplica) -> Iterator[TransactionIndexFile]:
        """The transaction indexes of a replica; empty where there is no file."""
        for segment in ReadableLog(self.disk, replica.directory).segments():
            path = segment.path.replace(names.LOG, names.TRANSACTION_INDEX)
            following = END_OF_ALL if segment.next_base_offset is None else segment.next_base_offset
            data = b""
            with suppress(FileNotFoundError):
                data = self.disk.read(path)
            yield TransactionIndexFile(path, segment.base_offset, following, data)


def _transactions_in(data: bytes, base_offset: int, following: int) -> tuple[dict[int, TransactionIndexEntry], str]:
    """The entries of a transaction index by their last offsets, and the first that no such segment can have, in
    words."""
    indexed: dict[int, TransactionIndexEntry] = {}
    text = ""
    for version, *fields in _entries(data):
        each = TransactionIndexEntry._make(fields)
        indexed[each.last_offset] = each
        if version or not base_offset <= each.last_offset < following:
            text = text or f"says {each}"
    return indexed, text


def _contradiction(
    indexed: TransactionIndexEntry | None, seen: AbortedStretch | None, start: int, *, has_marker: bool
) -> str:
    """The contradiction of an entry with the transaction that the log shows from ``start`` on; empty if there is
    none."""
    if indexed is None:
        return f"lacks {seen}"
    if seen is None:
        return "" if has_marker else f"says {indexed}"
    fits = indexed.first_offset <= indexed.last_offset and indexed.last_stable_offset <= indexed.last_offset + 1
    first_offset = seen.first_offset if indexed.first_offset < start else indexed.first_offset
    its = (indexed.producer_id, first_offset, indexed.last_offset)
    return "" if fits and its == seen else f"says {indexed}"


def _entries(data: bytes) -> Iterable[tuple[int, ...]]:
    from kpystorage.checking.indexes import _TRANSACTION_ENTRY, entries

    return entries(data, _TRANSACTION_ENTRY)


def _index_of(segment: SegmentName) -> str:
    return segment.path.replace(names.LOG, names.OFFSET_INDEX)


def _position_of(disk: Disk, file: scan.Readable, segment: SegmentName, offset: int) -> int:
    """The position of the first batch whose base offset is not below ``offset``; the size if there is none."""
    size = disk.file(segment.path).size()
    near = position_near(disk.file(_index_of(segment)), file, size, segment.base_offset, offset)
    for position, header in scan.headers(file, near, size):
        if header.base_offset >= offset:
            return position
    return size


def _is_locked(disk: Disk, path: str) -> bool:
    """Whether a broker runs with this directory."""
    if not isinstance(disk, ReadingDisk):
        return False
    import fcntl

    try:
        with open(os.path.join(path, names.LOCK), "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        return True
    except OSError:
        return False
    return False
