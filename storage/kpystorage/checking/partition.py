"""Whether the files of one partition's directory are whole and fit together.

Every batch is read: its checksum, its records, its place among its neighbours, and its entries in the indexes, the
epochs and the producer snapshots. In a log that was not stopped cleanly, whatever the next start completes or rebuilds
is only noted.

Invariant: nothing is written, and memory does not grow with the log.
"""

from itertools import pairwise
from typing import NamedTuple

from kpystorage import names, partition_metadata, producer_snapshot
from kpystorage.checking.epochs import EpochCheck
from kpystorage.checking.findings import DAMAGE, NOTE, Finding, Report
from kpystorage.checking.indexes import OffsetIndexCheck, TimeIndexCheck, TransactionIndexCheck
from kpystorage.checking.set_aside_names import is_set_aside
from kpystorage.checking.walking import SegmentPiece, pieces, restored
from kpystorage.checkpoint import TEMPORARY
from kpystorage.control_batches import apply_producer
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.log_offset import LogOffset
from kpystorage.producer_snapshot import SnapshotEntry
from kpystorage.producer_states import ProducerStates
from kpystorage.snapshot import parse_name
from kpystorage.transaction_index import TransactionIndexEntry
from kpywire.batch import HEADER_BYTES, NO_PRODUCER_ID, BatchHeader, parse_header
from kpywire.compression import InflatesTooLarge, decompress
from kpywire.errors import Malformed
from kpywire.skim import skim_section
from kpywire.uuid import to_string
from kpywire.walk import TooLaborious

NO_OFFSET = -1
MAX_INFLATED_BYTES = 256 << 20
_MAX_OFFSET = (1 << 63) - 1
_OWN_FILES = (names.LEADER_EPOCHS, names.PARTITION_METADATA, "quorum-state")


class PartitionFacts(NamedTuple):
    """The facts about a partition from its log directory and the cluster; None or -1 where a fact is not known."""

    clean: bool
    """Whether the last writer stopped cleanly."""
    recovery_point: int = NO_OFFSET
    log_start: int = NO_OFFSET
    cleaned_to: int = 0
    """The offset below which compaction may have left gaps."""
    topic_id: bytes | None = None
    is_compacted: bool = False


class PartitionReport(NamedTuple):
    """The result of checking a partition."""

    directory: str
    findings: list[Finding]
    log_start: int
    log_end: int
    last_epoch: int
    size_bytes: int
    first_base: int
    """The offset where the first segment begins."""


class Edit(NamedTuple):
    """A stretch of a segment that should hold other bytes. ``data`` is empty where the stretch is lost."""

    position: int
    end: int
    data: bytes
    offsets: tuple[int, int] | None
    """The offsets that are lost, as far as the neighbours show: the first, and the first that is there again."""


class PartitionCheck:
    """The check of one partition, from its directory. ``findings`` gather in the order of the files.

    With ``mending`` it also notes the right bytes of segments, and the right contents of their derived files.
    """

    def __init__(self, disk: Disk, directory: str, around: PartitionFacts, *, mending: bool = False) -> None:
        self.disk = disk
        self.directory = directory
        self.around = around
        self.findings: list[Finding] = []
        self.expected_offset = NO_OFFSET
        self.size_bytes = 0
        self.damaged_indexes: set[tuple[int, str]] = set()
        self.damaged_snapshots: set[int] = set()
        self.mending = mending
        self.edits: dict[int, list[Edit]] = {}
        """The edits by base offset of the segment, found from its own bytes and neighbours."""
        self.epoch_edits: dict[int, list[Edit]] = {}
        """Batches in which only the epoch differs from the checkpoint."""
        self.aborted: dict[int, list[TransactionIndexEntry]] = {}
        self.snapshots: dict[int, list[SnapshotEntry]] = {}
        """The right contents of the producer snapshots at the segments' bases and the log's end, where they are
        known."""
        self._listed = sorted(disk.list_directory(directory))
        bases = self.bases()
        first_base = bases[0] if bases else 0
        self.epochs = EpochCheck(
            disk, directory, around.log_start, first_base, self.findings.append, clean=around.clean
        )
        self._producers = ProducerStates(directory)
        self.cleaned_to = around.cleaned_to
        if around.is_compacted and not around.clean:
            # A process that was killed may have compacted more than it noted, but never the active segment.
            self.cleaned_to = max(around.cleaned_to, *bases[-1:], 0)
        self._complete = self.cleaned_to == 0
        """Whether the beginning was seen of every transaction that ends here."""

    def run(self) -> PartitionReport:
        """Check everything. OSError if a file cannot be read."""
        self._partition_metadata()
        self._names()
        bases = self.bases()
        for base, following in pairwise([*bases, _MAX_OFFSET]):
            self._segment(base, following, is_last=base == bases[-1])
        log_end = max(self.expected_offset, 0)
        self._note_producers(log_end)
        self.epochs.end(log_end)
        self._snapshots(log_end)
        self._places(log_end)
        return PartitionReport(
            self.directory,
            self.findings,
            self.epochs.log_start,
            log_end,
            self.epochs.seen.latest,
            self.size_bytes,
            bases[0] if bases else 0,
        )

    def bases(self) -> list[int]:
        """The base offsets of the segments, ascending."""
        parsed = [names.parse_segment_file(name) for name in self._listed]
        return sorted(each[0] for each in parsed if each is not None and each[1] == names.LOG)

    def was_mended(self) -> bool:
        """Whether a repair has taken batches out of this log."""
        return any(is_set_aside(each) and f"{names.LOG}." in each for each in self._listed)

    def damage(self, name: str, text: str, remedy: str = "") -> None:
        self.findings.append(Finding(DAMAGE, f"{self.directory}/{name}", text, remedy))

    def note(self, name: str, text: str) -> None:
        self.findings.append(Finding(NOTE, f"{self.directory}/{name}", text))

    # Names and small files.

    def _names(self) -> None:
        logs = set(self.bases())
        for name in self._listed:
            parsed = names.parse_segment_file(name)
            if parsed is not None:
                if parsed[1] in names.INDEXES and parsed[0] not in logs:
                    self._index_is_alone(name)
                continue
            if names.parse_temporary_file(name) or name.endswith((TEMPORARY, ".part")):
                self.note(name, "left by a stop in between; the next start finishes or removes it")
            elif is_set_aside(name):
                self.note(name, "set aside by an earlier repair")
            elif name not in _OWN_FILES and parse_name(name) is None and not name.endswith(".checkpoint.deleted"):
                self.note(name, "none of Kafka's files; nobody reads it")
        for base in sorted(logs):
            for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
                if names.segment_file(base, suffix) not in self._listed:
                    self._index_is_missing(base, suffix)

    def _index_is_missing(self, base: int, suffix: str) -> None:
        name = names.segment_file(base, suffix)
        if self.around.clean:
            self.damage(name, "is missing", "rebuilt")
            self.damaged_indexes.add((base, suffix))
        else:
            self.note(name, "is missing; the next start rebuilds it")

    def _index_is_alone(self, name: str) -> None:
        """A process that is killed while it deletes a segment leaves one; so does Apache Kafka."""
        if self.around.clean:
            self.damage(name, "an index without its segment", "set aside")
        else:
            self.note(name, "an index without its segment; the next start removes it")

    def _partition_metadata(self) -> None:
        path = f"{self.directory}/{names.PARTITION_METADATA}"
        wanted = self.around.topic_id
        remedy = "" if wanted is None else "set aside and rewritten"
        try:
            data = self.disk.read(path)
            topic_id = partition_metadata.parse(data, path)
        except FileNotFoundError:
            topic_id = None
        except CorruptFile as error:
            self.damage(names.PARTITION_METADATA, str(error).removeprefix(f"{path}: "), remedy)
            return
        if topic_id is None and wanted is not None and self.around.clean:
            self.damage(names.PARTITION_METADATA, "names no topic id", remedy)
        elif topic_id is not None and wanted is not None and topic_id != wanted:
            reported, right = to_string(topic_id), to_string(wanted)
            self.damage(names.PARTITION_METADATA, f"its topic id is {reported}, the topic's is {right}", remedy)
        elif topic_id is not None and data.rstrip() != partition_metadata.render(topic_id):
            self.damage(names.PARTITION_METADATA, "is not as a broker writes it", remedy)

    def _snapshots(self, log_end: int) -> None:
        for name in self._listed:
            parsed = names.parse_segment_file(name)
            if parsed is None or parsed[1] != names.PRODUCER_SNAPSHOT:
                continue
            path = f"{self.directory}/{name}"
            try:
                found = producer_snapshot.parse(self.disk.read(path), path)
            except CorruptFile as error:
                self.damaged_snapshots.add(parsed[0])
                self._derived(name, str(error).removeprefix(f"{path}: "), parsed[0])
                continue
            late = [each.last_offset for each in found if each.last_offset >= parsed[0]]
            if late or parsed[0] > log_end:
                self.damaged_snapshots.add(parsed[0])
                self._derived(name, f"knows of offset {max(late, default=parsed[0])}, behind its own or the log's end")

    def _derived(self, name: str, text: str, offset: int = 0) -> None:
        if self.around.clean or offset <= self.around.recovery_point:
            self.damage(name, text, "set aside; rebuilt where all that it says is in the log")
        else:
            self.note(name, f"{text}; the next start rebuilds it")

    def _places(self, log_end: int) -> None:
        around = self.around
        name = "../" + names.RECOVERY_POINTS
        if around.recovery_point > log_end:
            self.damage(name, f"says that {around.recovery_point} was flushed, and the log ends at {log_end}", "mended")
        elif around.clean and NO_OFFSET < around.recovery_point < log_end:
            self.damage(name, f"says {around.recovery_point}, though the log ends at {log_end}", "mended")

    # Batches.

    def _segment(self, base: int, following: int, *, is_last: bool) -> None:
        name = names.segment_file(base, names.LOG)
        file = self.disk.file(f"{self.directory}/{name}")
        size = file.size()
        self.size_bytes += size
        if self.expected_offset == NO_OFFSET:
            self.expected_offset = base
            self._begin_producers(base)
        elif self.expected_offset < base and base > self.cleaned_to:
            say = self.note if self.was_mended() else self.damage
            say(name, f"begins at offset {base}; the segment before it ends at {self.expected_offset}")
        self.expected_offset = max(self.expected_offset, base)
        self._note_producers(base)
        certain = self.around.clean or following <= self.around.recovery_point
        walk = _SegmentWalk(self, name, base, size, certain=certain, is_last=is_last)
        try:
            for piece in pieces(file, size, base, following):
                walk.take(piece, file.pread(HEADER_BYTES, piece.end), following)
        finally:
            file.release()
        walk.end()
        if self.mending:
            self.aborted[base] = walk.aborted

    def _note_producers(self, offset: int) -> None:
        if self.mending and self._complete:
            self.snapshots[offset] = self._producers.snapshot()

    def _begin_producers(self, base: int) -> None:
        if base == 0:
            return
        path = f"{self.directory}/{names.segment_file(base, names.PRODUCER_SNAPSHOT)}"
        try:
            self._producers.load(producer_snapshot.parse(self.disk.read(path), path), base)
        except (FileNotFoundError, CorruptFile):
            self._complete = False

    def follow(
        self, header: BatchHeader, piece: SegmentPiece, place: LogOffset
    ) -> TransactionIndexEntry | tuple[int, int] | None:
        """Take a batch of a producer. Return the transaction that it aborts, or (producer id, offset) of one whose
        beginning was not seen."""
        if header.producer_id == NO_PRODUCER_ID:
            return None
        ended = apply_producer(self._producers, header, piece.data, 0, place)
        if ended is None:
            return (header.producer_id, header.base_offset) if header.is_control else None
        stable = self._producers.last_stable_offset_after(ended)
        self._producers.complete(ended)
        self._producers.replicated_to(_MAX_OFFSET)
        if ended.committed:
            return None
        return TransactionIndexEntry(ended.producer_id, ended.first_offset, ended.last_offset, stable)

    @property
    def complete(self) -> bool:
        return self._complete


class _SegmentWalk:
    """The walk over one segment: its batches against one another and against its indexes."""

    def __init__(self, check: PartitionCheck, name: str, base: int, size: int, *, certain: bool, is_last: bool) -> None:
        self._check = check
        self._name = name
        self._base = base
        self._size = size
        self._certain = certain
        self._is_last = is_last
        self.aborted: list[TransactionIndexEntry] = []
        self._markers: list[tuple[int, int]] = []
        report = self._reporter(names.OFFSET_INDEX)
        self._offsets = OffsetIndexCheck(self._path(names.OFFSET_INDEX), self._read(names.OFFSET_INDEX), base, report)
        report = self._reporter(names.TIME_INDEX)
        self._times = TimeIndexCheck(self._path(names.TIME_INDEX), self._read(names.TIME_INDEX), base, report)
        report = self._reporter(names.TRANSACTION_INDEX)
        data = self._read(names.TRANSACTION_INDEX)
        self._transactions = TransactionIndexCheck(self._path(names.TRANSACTION_INDEX), data, report)

    def _reporter(self, suffix: str) -> Report:
        def report(finding: Finding) -> None:
            if finding.level == DAMAGE and not self._certain:
                finding = finding._replace(level=NOTE, text=f"{finding.text}; the next start rebuilds it", remedy="")
            elif finding.level == DAMAGE:
                self._check.damaged_indexes.add((self._base, suffix))
            self._check.findings.append(finding)

        return report

    def _path(self, suffix: str) -> str:
        return f"{self._check.directory}/{names.segment_file(self._base, suffix)}"

    def _read(self, suffix: str) -> bytes:
        try:
            return self._check.disk.read(self._path(suffix))
        except FileNotFoundError:
            return b""

    def _damage(self, text: str, remedy: str) -> None:
        self._check.damage(self._name, text, remedy)

    def take(self, piece: SegmentPiece, next_header: bytes, limit: int) -> None:
        """Take the next piece of the file. ``next_header`` is the bytes behind it."""
        if piece.header is None:
            self._unreadable(piece)
            return
        header, at = piece.header, f"byte {piece.position}"
        base_offset = self._base_offset(piece, header, next_header, limit)
        if base_offset != header.base_offset:
            header = header._replace(base_offset=base_offset)
        if piece.trouble:
            remedy = "mended from its neighbours" if piece.whole else "taken out"
            self._damage(f"{at}: the batch of offset {base_offset}: {piece.trouble}", remedy)
        strays = self._check.epochs.strays
        wrong = self._check.epochs.batch(base_offset, header.last_offset, header.partition_leader_epoch)
        if wrong:
            self._damage(f"{at}: the batch of offset {base_offset}: {wrong}", "mended from its neighbours")
        if self._check.mending:
            self._edit(piece, header, is_epoch_wrong=self._check.epochs.strays > strays)
        self._check.expected_offset = header.next_offset
        self._offsets.batch(piece.position, header)
        self._times.batch(header)
        if piece.whole:
            self._records(piece, header, at)

    def _edit(self, piece: SegmentPiece, header: BatchHeader, *, is_epoch_wrong: bool) -> None:
        check, place = self._check, (piece.position, piece.end)
        if not piece.whole:
            lost = (header.base_offset, header.next_offset)
            check.edits.setdefault(self._base, []).append(Edit(*place, b"", lost))
            return
        epoch = header.partition_leader_epoch
        data = restored(piece, header.base_offset, epoch)
        if data != piece.data:
            check.edits.setdefault(self._base, []).append(Edit(*place, data, None))
        if is_epoch_wrong:
            data = restored(piece, header.base_offset, check.epochs.expected)
            check.epoch_edits.setdefault(self._base, []).append(Edit(*place, data, None))

    def _base_offset(self, piece: SegmentPiece, header: BatchHeader, next_header: bytes, limit: int) -> int:
        """The base offset that the batch must have by its neighbours. A different one is reported."""
        found, expected = header.base_offset, self._check.expected_offset
        if found == expected or (expected < found and header.next_offset <= self._check.cleaned_to):
            return found
        end = expected + header.last_offset_delta + 1
        following = limit
        if len(next_header) == HEADER_BYTES:
            following = parse_header(next_header).base_offset
        elif limit == _MAX_OFFSET:
            following = self._check.around.recovery_point
        at = f"byte {piece.position}"
        if found < expected or following == end or not found < header.next_offset <= following:
            self._damage(f"{at}: a batch's base offset is {found} instead of {expected}", "mended from its neighbours")
            return expected
        text = f"{at}: offset {found} follows {expected - 1}; what was between is not there"
        if self._check.was_mended():
            self._check.note(self._name, f"{text}: a repair has taken it out")
        else:
            self._damage(text, "")
        return found

    def _unreadable(self, piece: SegmentPiece) -> None:
        is_tail = piece.end == self._size and self._is_last
        count = piece.end - piece.position
        if is_tail and not self._check.around.clean:
            if piece.trouble:
                self._check.note(self._name, f"byte {piece.position}: {count} bytes of a write that did not finish")
            return
        self._damage(f"byte {piece.position}: {piece.trouble or f'{count} zeros'}", "taken out")
        if self._check.mending:
            lost = (self._check.expected_offset, NO_OFFSET)
            self._check.edits.setdefault(self._base, []).append(Edit(piece.position, piece.end, b"", lost))

    def _records(self, piece: SegmentPiece, header: BatchHeader, at: str) -> None:
        try:
            check_records(header, piece.data)
            place = LogOffset(header.base_offset, self._base, piece.position)
            seen = self._check.follow(header, piece, place)
        except Malformed as error:
            self._damage(f"{at}: the records of the batch of offset {header.base_offset} cannot be read: {error}", "")
            return
        if isinstance(seen, TransactionIndexEntry):
            self.aborted.append(seen)
        elif seen is not None:
            self._markers.append(seen)

    def end(self) -> None:
        """Take the end of the segment."""
        end, indexed = self._check.expected_offset, self._offsets.last_from(self._size)
        if self._is_last and not self._certain and indexed >= end:
            text = f"ends at offset {end}, and its index knows of offset {indexed}: what was between is missing"
            self._check.note(self._name, f"{text}, unless the machine crashed before it was flushed")
        self._offsets.end()
        self._times.end()
        self._transactions.end(self.aborted, self._markers, complete=self._check.complete)


def check_records(header: BatchHeader, data: memoryview) -> None:
    """Check the records of a batch whose checksum holds. Malformed if they do not agree with its header."""
    if header.record_count > header.last_offset_delta + 1 or header.record_count < 0:
        raise Malformed(f"{header.record_count} records in {header.last_offset_delta + 1} offsets")
    section = data[HEADER_BYTES:]
    if header.record_count == 0:
        return
    try:
        inflated = decompress(header.codec, section, MAX_INFLATED_BYTES) if header.codec else bytes(section)
        skim_section(inflated, header.record_count, header.base_timestamp)
    except (TooLaborious, InflatesTooLarge):
        return  # readable, as far as a look at that price goes
