"""The files beside a segment against its batches: offset index, time index, and the producers at its end.

The checks are those of `kpystorage.checking.indexes`. They are fed while the batches are read anyway.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from kpybroker.machines.audit.findings import DAMAGE, INDEXES, NOTE, AuditFinding
from kpybroker.machines.audit.stretch import FRESH, UNKNOWN, ProducerRun
from kpybroker.machines.audit.walk import Of
from kpystorage import names, producer_snapshot
from kpystorage.checking import findings as checking
from kpystorage.checking.indexes import OffsetIndexCheck, TimeIndexCheck
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpywire.batch import BatchHeader


class IndexBytes(NamedTuple):
    """An index: its place for people, and its bytes."""

    path: str
    data: bytes


class SegmentIndexes:
    """The indexes of one segment."""

    def __init__(self, of: Of, base_offset: int, offsets: IndexBytes, times: IndexBytes) -> None:
        self.findings: list[AuditFinding] = []
        self._of = of
        self._base_offset = base_offset
        self._offsets = OffsetIndexCheck(*offsets, base_offset, self._say)
        self._times = TimeIndexCheck(*times, base_offset, self._say)

    def missing(self, path: str) -> None:
        """Report an index that should be there."""
        self._say(checking.Finding(checking.DAMAGE, path, "is missing"))

    def _say(self, found: checking.Finding) -> None:
        level = DAMAGE if found.level == checking.DAMAGE else NOTE
        self.findings.append(
            AuditFinding(level, INDEXES, *_spot(self._of), found.path, -1, self._base_offset, found.text)
        )

    def batch(self, position: int, header: BatchHeader) -> None:
        """Take the next batch."""
        self._offsets.batch(position, header)
        self._times.batch(header)

    def end(self, end_position: int | None = None, end_offset: int | None = None) -> None:
        """Take the end: all batches were read, or those below these places."""
        self._offsets.end(end_position)
        self._times.end(end_offset)


def indexes_beside(disk: Disk, log_path: str, base_offset: int, of: Of, *, is_sealed: bool) -> SegmentIndexes:
    """The indexes beside a segment's file. ``is_sealed``: nothing is appended to them any more."""
    stem = log_path.partition(names.LOG)[0]
    mark = log_path[len(stem) + len(names.LOG) :]
    found: list[IndexBytes] = []
    absent: list[str] = []
    for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
        path = f"{stem}{suffix}{mark}"
        try:
            found.append(IndexBytes(path, disk.read(path)))
        except FileNotFoundError:
            found.append(IndexBytes(path, b""))
            absent.append(path)
    indexes = SegmentIndexes(of, base_offset, *found)
    log = f"{log_path.rpartition('/')[0]}/{names.segment_file(base_offset, names.LOG)}"
    for path in absent:
        if is_sealed and disk.status(log) is not None and disk.status(path) is None:
            indexes.missing(path)
    return indexes


def check_snapshots(disk: Disk, directory: str, log_end: int, of: Of) -> Iterator[AuditFinding]:
    """The producer snapshots of a log that are no snapshots, or that know of what comes behind them."""
    for name in sorted(disk.list_directory(directory)):
        parsed = names.parse_segment_file(name)
        if parsed is None or parsed[1] != names.PRODUCER_SNAPSHOT:
            continue
        path, offset = f"{directory}/{name}", parsed[0]
        try:
            entries = producer_snapshot.parse(disk.read(path), path)
        except FileNotFoundError:
            continue
        except CorruptFile as error:
            yield AuditFinding(DAMAGE, INDEXES, *_spot(of), path, -1, offset, str(error).removeprefix(f"{path}: "))
            continue
        late = max((each.last_offset for each in entries), default=-1)
        if late >= offset or offset > log_end:
            text = f"knows of offset {max(late, offset)}, behind its own or the log's end"
            yield AuditFinding(DAMAGE, INDEXES, *_spot(of), path, -1, offset, text)


def compare_snapshot(
    disk: Disk, directory: str, base: int, end: int, runs: Mapping[int, ProducerRun], of: Of
) -> Iterator[AuditFinding]:
    """Compare the producer snapshot at ``end`` with the producers seen in ``base .. end``, where no offset is missing.

    Producers that are in only one of the two are left out: a snapshot forgets those that have expired.
    """
    path = f"{directory}/{names.segment_file(end, names.PRODUCER_SNAPSHOT)}"
    try:
        entries = producer_snapshot.parse(disk.read(path), path)
    except (FileNotFoundError, CorruptFile):
        return
    for each in entries:
        run = runs.get(each.producer_id)
        if run is None or not base <= run.offset < end or run.sequence in (FRESH, UNKNOWN):
            continue
        indexed = each.epoch, each.last_sequence, each.last_offset
        seen = run.epoch, run.sequence, run.offset
        if indexed != seen and each.last_offset < end:
            text = f"says epoch, sequence and offset {indexed} of producer {each.producer_id}, the log has {seen}"
            yield AuditFinding(DAMAGE, INDEXES, *_spot(of), path, -1, end, text)
            return


def _spot(of: Of) -> tuple[str, int, str]:
    return of.topic, of.partition, of.replica
