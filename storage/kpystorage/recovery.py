"""Bringing a log up from its files: after a clean stop, after the death of the process alone, after the machine's.

* Clean: the files are trusted; a missing index is rebuilt.
* The process died, the page cache did not: sealed segments are complete; the active one is checked behind its last
  index entry.
* Otherwise every segment from the recovery point on is read in full and its indexes are rebuilt (Kafka's LogLoader).

Everything behind the first batch that is not whole and valid is removed, with all later segments: it was never flushed.
Everything below the recovery point was flushed, and is never removed here. A batch there whose checksum is wrong stays
(its readers find it), and a file whose framing breaks there takes the log offline (:class:`CorruptLog`).

Invariant: the offsets, producers, epochs and indexes of a loaded log agree with its batches. What a store has of it
(``is_tiered``) is known by the log start and the epochs alone, so both are kept from there on.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, NamedTuple

from kpystorage import names, scan
from kpystorage.checkpoint import parse_epochs, render_epochs, write_atomically
from kpystorage.control_batches import apply_producer, note_ended
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile, CorruptLog
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log_config import LogConfig
from kpystorage.log_offset import LogOffset
from kpystorage.producer_states import ProducerStates
from kpystorage.scan import is_old_message
from kpystorage.segment import Segment
from kpystorage.segment_files import SegmentFiles, survey
from kpystorage.snapshot_files import SnapshotFiles
from kpywire.batch import ATTRIBUTES_POSITION, NO_PRODUCER_ID, BatchHeader, check_crc
from kpywire.crc import crc32c
from kpywire.errors import Malformed

MAX_OFFSET: Final = (1 << 63) - 1
NO_LOG_START: Final = -1
"""The checkpoint does not name the log."""


class Shutdown(Enum):
    """The way in which the last writer of a log directory ended."""

    CLEAN = "clean stop"
    PROCESS_DIED = "the process died"
    UNCLEAN = "unknown, or the machine died"


class Loss(NamedTuple):
    """Records from ``offset`` up to ``following`` are missing. The log had reached ``end_offset`` of ``last_epoch``."""

    offset: int
    following: int
    end_offset: int
    last_epoch: int
    is_cut: bool
    """Whether the log ends at ``offset``. If not, the records from ``following`` on are still there."""

    def __str__(self) -> str:
        return f"records from offset {self.offset} up to {self.following} are missing"


class LoadedLog(NamedTuple):
    """The state that loading (or creating) a log gives it to start with."""

    segments: list[Segment]
    log_start_offset: int
    end_offset: int
    recovery_point: int
    epochs: LeaderEpochs
    producers: ProducerStates
    snapshots: SnapshotFiles
    new_files: list[str]
    new_directory: bool
    is_complete: bool
    """Whether everything is on disk as a clean stop leaves it, flushed."""


class LogLoader:
    """Loads one log. ``report`` receives a line for each fault that was found and mended.

    Below ``cleaned_to`` compaction may have left gaps between batches.
    """

    def __init__(
        self,
        disk: Disk,
        path: str,
        config: LogConfig,
        now_ms: int,
        report: Callable[[str], None],
        cleaned_to: int = 0,
    ) -> None:
        self.disk = disk
        self.path = path
        self.name = path.rpartition("/")[2]
        self.config = config
        self.now_ms = now_ms
        self.report = report
        self.cleaned_to = cleaned_to
        self.segments: list[Segment] = []
        self.snapshots = SnapshotFiles(disk, path)
        self.epochs = LeaderEpochs()
        self.epochs_known = True
        self.new_files: list[str] = []
        self.replayed_bytes = 0
        """Bytes of batches that were read to find the producers."""
        self.recovered: ProducerStates | None = None
        self.loss: Loss | None = None
        """The records that were removed behind a gap."""
        self._epoch_seen = -1
        self._writes_may_be_lost = True
        self._believed_epochs: dict[int, int] = {}
        self._written_epochs: list[tuple[int, int]] = []
        self._unindexed_from = MAX_OFFSET  # where the replay has to note aborted transactions

    def take_over(self, segments: list[Segment], snapshots: SnapshotFiles, epochs: LeaderEpochs) -> None:
        """Take the parts of a log that is open, to rebuild its producers."""
        self.segments, self.snapshots, self.epochs = segments, snapshots, epochs

    def load(self, shutdown: Shutdown, log_start_offset: int, recovery_point: int) -> LoadedLog:
        """Read, check and mend the log's files as far as ``shutdown`` requires.

        ``log_start_offset`` and ``recovery_point`` are those of the directory's checkpoints, `NO_LOG_START` and 0 if
        they have none.

        Raises:
            OSError: a file cannot be read or mended.
            CorruptLog: data that had been flushed is damaged beyond its framing, or nothing tells the epochs of the
                part that a store has.
        """
        files = survey(self.disk, self.path, self.report)
        self._writes_may_be_lost = shutdown is Shutdown.UNCLEAN
        self.snapshots = SnapshotFiles(self.disk, self.path, files.snapshots)
        if shutdown is not Shutdown.CLEAN and files.has_metadata:
            self.new_files.append(f"{self.path}/{names.PARTITION_METADATA}")  # its writer may have died before a flush
        self._read_epochs()
        log_start_offset = self._known_start(log_start_offset, *files.base_offsets[:1])
        self._open_segments(files, shutdown, recovery_point, log_start_offset)
        indexed = self.segments[-1].indexed_behind_end() if self.segments else []
        if shutdown is Shutdown.UNCLEAN:
            self._recover_from(recovery_point, recovery_point, log_start_offset)
        elif shutdown is Shutdown.PROCESS_DIED and self.segments:
            self._recover_tail(recovery_point, log_start_offset)
        end_offset = self._end_offset(shutdown, recovery_point) if self.segments else log_start_offset
        self._note_missing_end([offset for offset in indexed if offset >= end_offset], end_offset, shutdown)
        if end_offset < log_start_offset:
            self.report(
                f"{self.name}: its end {end_offset} is below its start {log_start_offset}, where it starts over"
            )
            self._remove_segments(0)
        if not self.segments:
            end_offset = max(end_offset, log_start_offset)
            self.segments.append(self._create_segment(end_offset))
        self.segments[-1].restart_index()
        if not self.config.is_tiered:  # no part of the log is kept elsewhere: it begins where its segments do
            log_start_offset = max(log_start_offset, self.segments[0].base_offset)
        producers = self.producers_at(log_start_offset, end_offset, shutdown)
        if self._unindexed_from < MAX_OFFSET:
            # Not before: the next recovery, should this one not come to its end, begins where the offset index ends.
            self.segments[-1].settle_indexes()
        self.epochs.truncate_from_end(end_offset)
        self._complete_epochs(log_start_offset)
        if shutdown is Shutdown.UNCLEAN:
            self._correct_epochs()
        self.epochs.truncate_from_start(log_start_offset)
        self.snapshots.drop_strays({segment.base_offset for segment in self.segments})
        flushed = end_offset if shutdown is Shutdown.CLEAN else min(recovery_point, end_offset)
        return LoadedLog(
            self.segments, log_start_offset, end_offset, flushed, self.epochs, producers, self.snapshots,
            self.new_files, new_directory=False, is_complete=shutdown is Shutdown.CLEAN,
        )  # fmt: skip

    def _known_start(self, checkpointed: int, first_base: int = 0) -> int:
        """The log start as of the checkpoint. Where that does not name a log of which a store has the beginning, the
        first epoch stands for it."""
        start = max(checkpointed, 0)
        if not self.config.is_tiered or start >= first_base:
            return start
        first = self.epochs.earliest
        if not self.epochs_known or (first is None and checkpointed >= 0):
            # Segments in the store whose epochs are unknown would pass for those of another log, and be deleted there.
            raise CorruptLog(
                f"{self.path}/{names.LEADER_EPOCHS}: damaged or missing, and nothing else on this disk tells the "
                f"epochs from offset {start} up to {first_base}, which a store has. Nothing is removed: "
                "restore the file, or move the directory away to have it fetched again"
            )
        return max(start, first_base if first is None else min(first[1], first_base))

    def _end_offset(self, shutdown: Shutdown, recovery_point: int) -> int:
        """The offset behind the last batch, where the file ends too. CorruptLog if a clean stop has left other bytes
        than zeros there: whatever is written behind them could not be read."""
        segment = self.segments[-1]
        offset, end = segment.tail()
        if shutdown is not Shutdown.CLEAN:
            return offset
        if recovery_point < offset:
            offset, end = self._believable_end(recovery_point)
        if end < segment.size:
            if not scan.is_zeros(segment.log, end, segment.size):
                raise CorruptLog(
                    f"{segment.log.path}, byte {end} (offset {offset}): damaged, though the last stop was clean. "
                    "Nothing is removed; `kpybroker check` says what can be mended"
                )
            self.report(
                f"{self.name}: {segment.size - end} zeros from byte {end} (offset {offset}) on are no batch, thus cut "
                "off, though the last stop was clean"
            )
            segment.cut(end)
        return offset

    def _believable_end(self, recovery_point: int) -> tuple[int, int]:
        """(offset, position) of the end of a log that goes on behind its end at the last, clean stop: somebody has put
        bytes there since, which count as far as they are valid and continue the log. Where that end is not known, the
        last batches are checked."""
        segment = self.segments[-1]
        offset = max(recovery_point or segment.offset_index.last_offset, segment.base_offset)
        found = segment.find(offset, segment.size)
        start = end = 0 if found is None else found[0]
        for at, header, data in scan.batches(segment.log, end, segment.size):
            if header.next_offset <= max(offset, header.base_offset) or not check_crc(data, header):
                break
            if header.base_offset < offset and at != start:
                break
            offset, end = header.next_offset, at + len(data)
        return offset, end

    def _note_missing_end(self, indexed: list[int], end_offset: int, shutdown: Shutdown) -> None:
        """Note that the log ends before batches that its indexes know of.

        After a power failure these batches were never flushed. Otherwise the file was whole when its writer ended.
        """
        if not indexed or self.loss is not None:
            return
        loss = Loss(end_offset, max(indexed) + 1, max(indexed) + 1, self.epochs.latest, is_cut=True)
        if shutdown is not Shutdown.UNCLEAN:
            self.loss = loss
        self.report(f"{self.name}: {loss}: its indexes know of them, and its last segment ends before them")

    # Files.

    def _read_epochs(self) -> None:
        path = f"{self.path}/{names.LEADER_EPOCHS}"
        try:
            self.epochs = LeaderEpochs(parse_epochs(self.disk.read(path), path))
            self._written_epochs = self.epochs.entries()
        except FileNotFoundError:
            return
        except CorruptFile as error:
            self.report(f"{error}; the epochs are read from the batches")
            self.epochs_known = False

    def _open_segments(
        self, files: SegmentFiles, shutdown: Shutdown, recovery_point: int, log_start_offset: int
    ) -> None:
        bases = files.base_offsets
        is_unclean = shutdown is Shutdown.UNCLEAN
        recovered_from = bases[_first_to_recover(bases, recovery_point)] if bases and is_unclean else MAX_OFFSET
        for base_offset in bases:
            segment = Segment(
                self.disk,
                self.path,
                base_offset,
                created_ms=self.now_ms,
                config=self.config,
                has_transactions=base_offset in files.transaction_indexes,
            )
            self.segments.append(segment)
            if base_offset not in files.indexed:
                if shutdown is Shutdown.CLEAN or base_offset < recovery_point:
                    self.report(f"{self.name}: segment {base_offset} has no index; it is rebuilt")
                self._rebuild(segment)
            elif not segment.transaction_index.is_sane(base_offset):
                self.report(f"{self.name}: segment {base_offset} has a corrupt transaction index; it is rebuilt")
                if base_offset >= recovered_from:
                    continue  # it is checked with all before it; these may be torn, and cannot be replayed yet
                producers = self._replayed(log_start_offset, base_offset)
                self._recover_segment(segment, producers, MAX_OFFSET if shutdown is Shutdown.CLEAN else recovery_point)
                self._epoch_seen = -1  # what is checked next may be older

    def _rebuild(self, segment: Segment) -> None:
        stem = f"{self.path}/{segment.base_offset:020d}"
        for suffix in (names.OFFSET_INDEX, names.TIME_INDEX):
            self.disk.create(stem + suffix).release()
            self.new_files.append(stem + suffix)
        segment.rebuild_indexes()

    def _create_segment(self, base_offset: int) -> Segment:
        segment = Segment.create(self.disk, self.path, base_offset, self.now_ms, self.config)
        self.new_files.append(segment.log.path)
        return segment

    def _remove_segments(self, first: int) -> None:
        """Remove the segments from number ``first`` on, beginning with the last one, so that the rest is always
        whole."""
        for segment in reversed(self.segments[first:]):
            for file in reversed(segment.files()):
                file.release()
            for suffix in names.SEGMENT_FILES:
                self._unlink(f"{self.path}/{segment.base_offset:020d}{suffix}")
            self.snapshots.drop(segment.base_offset)
        del self.segments[first:]
        if self.segments:
            last = self.segments[-1]
            last.cut(last.size)  # it is written to again, and may be a fork's, too

    def _unlink(self, path: str) -> None:
        try:
            self.disk.unlink(path)
        except FileNotFoundError:
            return
        self.new_files = [new for new in self.new_files if new != path]

    # Checking batches.

    def _recover_from(self, offset: int, recovery_point: int, log_start_offset: int) -> None:
        """Read every segment from the one before ``offset`` on. Cut at the first batch that is not valid.

        A segment that ends at ``offset`` is read too: its indexes, and a truncation of it, may be younger than the
        flush of its batches.
        """
        if not self.segments:
            return
        first = _first_to_recover([segment.base_offset for segment in self.segments], offset)
        producers = self._replayed(log_start_offset, self.segments[first].base_offset)
        self._believed_epochs = dict(self.epochs.entries())
        self.epochs.truncate_from_end(self.segments[first].base_offset)
        for number in range(first, len(self.segments)):
            segment = self.segments[number]
            if number > first:
                self._correct_snapshot(segment.base_offset, producers)
            following = self.segments[number + 1].base_offset if number + 1 < len(self.segments) else MAX_OFFSET
            end_offset = self._recover_segment(segment, producers, recovery_point, following)
            if following < MAX_OFFSET and (
                end_offset > following or self._is_loss(end_offset, following, recovery_point)
            ):
                self.loss = self._loss(end_offset, following)
                self.report(
                    f"{self.name}: {self.loss}, which were never flushed; it ends at {end_offset} now, and what "
                    f"followed them, up to offset {self.loss.end_offset}, is removed"
                )
                self._remove_segments(number + 1)
                break
        bases = {segment.base_offset for segment in self.segments}
        for offset in [each for each in self.snapshots.offsets if each > self.segments[first].base_offset]:
            if offset not in bases:
                self.snapshots.drop(offset)
        self.recovered = producers

    def _loss(self, end_offset: int, following: int) -> Loss:
        """The loss that removing the segments behind a gap causes."""
        last_offset, last_epoch = following, -1
        for _, header in scan.headers(self.segments[-1].log, 0, self.segments[-1].size):
            last_offset, last_epoch = header.next_offset, header.partition_leader_epoch
        first, last = sorted((end_offset, following))
        return Loss(first, last, max(last_offset, last), last_epoch, is_cut=True)

    def _correct_snapshot(self, offset: int, producers: ProducerStates) -> None:
        """Replace a snapshot made before a truncation: after the death of this process it would be trusted."""
        if offset in self.snapshots.offsets:
            try:
                is_right = self.snapshots.read(offset) == producers.snapshot()
            except CorruptFile:
                is_right = False
            if not is_right:
                self.snapshots.drop(offset)

    def _is_loss(self, end_offset: int, following: int, recovery_point: int) -> bool:
        """Whether batches are missing between two offsets that follow each other: only compaction leaves gaps, and only
        the machine's death loses writes before others."""
        return (
            self._writes_may_be_lost
            and end_offset < following
            and following > recovery_point
            and end_offset >= self.cleaned_to
        )

    def _recover_segment(
        self, segment: Segment, producers: ProducerStates, recovery_point: int, limit_offset: int = MAX_OFFSET
    ) -> int:
        """Check all batches of a segment and rebuild its indexes. Return the offset it ends at."""
        segment.offset_index.rebuild()
        segment.time_index.rebuild()
        segment.transaction_index.reset()
        segment.restart_index()
        return self._check(segment, 0, segment.base_offset, producers, recovery_point, limit_offset)

    def _recover_tail(self, recovery_point: int, log_start_offset: int) -> None:
        """Check the active segment from its last index entry on if that points at a valid batch, else all of it."""
        segment = self.segments[-1]
        offset, position = segment.offset_index.last_offset, segment.offset_index.last_position
        first = next(scan.batches(segment.log, position, segment.size), None)
        if position == 0 or first is None or first[1].last_offset != offset or not check_crc(first[2], first[1]):
            self._recover_from(segment.base_offset + 1, recovery_point, log_start_offset)
            return
        segment.offset_index.keep(len(segment.offset_index))
        segment.time_index.truncate_to(offset + 1)
        self._unindexed_from = offset + 1
        segment.restart_index(first[1].size)
        self._check(segment, position + first[1].size, offset + 1, None, recovery_point)

    def _check(
        self,
        segment: Segment,
        position: int,
        expected_offset: int,
        producers: ProducerStates | None,
        recovery_point: int,
        limit_offset: int = MAX_OFFSET,
    ) -> int:
        """Check and index the batches from ``position`` on, apply them to ``producers``, cut off the rest.

        Batches may not reach beyond ``limit_offset``. Returns the offset that the segment ends at.

        A replica of a compacted log has gaps too. Bytes that a lost write was to overwrite may still be there, and end
        just where the next batch begins. That batch then has another epoch, since a log is cut only for a new leader.
        """
        epoch_before = -1
        for at, header, data in scan.batches(segment.log, position, segment.size):
            base_offset, epoch = header.base_offset, header.partition_leader_epoch
            next_offset = base_offset + header.last_offset_delta + 1
            if not expected_offset <= base_offset < next_offset <= limit_offset:
                break
            if (
                base_offset > expected_offset
                and at
                and epoch != epoch_before
                and not self.config.cleanup_compact
                and self._is_loss(expected_offset, base_offset, recovery_point)
            ):
                break
            epoch_before = epoch
            valid = crc32c(data[ATTRIBUTES_POSITION:]) == header.crc
            if 0 <= epoch < self._epoch_seen:
                valid = False  # left over from before a truncation that did not reach the disk
            if valid and producers is not None and header.producer_id != NO_PRODUCER_ID:
                valid = self._apply(header, data, segment, at, producers)
            if valid:
                self._epoch_seen = max(self._epoch_seen, epoch)
            elif next_offset > recovery_point:
                break
            else:
                self.report(f"{self.name}: the batch at offset {base_offset} is damaged; it had been flushed")
            position = at + len(data)
            segment.note(header.max_timestamp, header.last_offset, at, len(data))
            if producers is not None and epoch > self.epochs.latest:
                self._note_epoch(header, expected_offset)
            expected_offset = next_offset
        if producers is not None:
            producers.end_offset = max(producers.end_offset, expected_offset)
            self.replayed_bytes += position
        rest_bytes = segment.size - position
        if rest_bytes:
            self._refuse_flushed(segment, position, expected_offset, recovery_point)
            if not self._is_room(segment, position):
                self.report(
                    f"{self.name}: {rest_bytes} bytes from offset {expected_offset} on are no valid batch, thus cut off"
                )
            segment.cut(position)
        if producers is None:
            segment.complete_indexes()
        else:
            segment.seal()
        return expected_offset

    def _is_room(self, segment: Segment, position: int) -> bool:
        """Whether the rest of a segment is room that was taken beforehand: zeros, as far as a look at them is cheap."""
        end = min(segment.size, position + scan.BATCH_WINDOW_BYTES)
        return self.config.preallocate and scan.is_zeros(segment.log, position, end)

    def _refuse_flushed(self, segment: Segment, position: int, offset: int, recovery_point: int) -> None:
        place = f"{segment.log.path}, byte {position} (offset {offset})"
        follows = next(scan.batches(segment.log, position, segment.size), None)
        if follows is not None and check_crc(follows[2], follows[1]):
            offset = min(offset, follows[1].base_offset)  # one before it is damaged, and says that it ends behind this
        if offset < recovery_point:
            raise CorruptLog(
                f"{place}: damaged, though everything below offset {recovery_point} had been flushed. "
                "Nothing is removed; restore the file, or move the directory away"
            )
        if is_old_message(segment.log, position, segment.size):
            raise CorruptLog(f"{place}: written in a message format before v2, which is not supported")

    # Producers and epochs.

    def _correct_epochs(self) -> None:
        """Replace a checkpoint that is wrong: after the death of this process it would be trusted."""
        written = self._written_epochs
        if self.epochs.entries()[: len(written)] != written:
            path = f"{self.path}/{names.LEADER_EPOCHS}"
            write_atomically(self.disk, path, render_epochs(self.epochs.entries()))

    def _complete_epochs(self, log_start_offset: int) -> None:
        """Learn from the batches the epochs that the checkpoint has forgotten, as it does with a log start that did not
        last. Otherwise the records of an older epoch in another log would pass for those of this log, up to the first
        known epoch."""
        known = self.epochs.entries()
        if not known or known[0][1] <= log_start_offset:
            return
        self.epochs = LeaderEpochs()
        for segment in [each for each in self.segments if each.base_offset < known[0][1]]:
            for _, header in scan.headers(segment.log, 0, segment.size):
                if header.base_offset < known[0][1] and header.partition_leader_epoch > self.epochs.latest:
                    self.epochs.assign(header.partition_leader_epoch, header.base_offset)
        for epoch, start_offset in known:
            self.epochs.assign(epoch, start_offset)

    def _note_epoch(self, header: BatchHeader, previous_end: int) -> None:
        """Note that a batch begins an epoch: with the batch, or where the checkpoint says if no batch is in between."""
        epoch = header.partition_leader_epoch
        believed = self._believed_epochs.get(epoch, header.base_offset)
        is_possible = previous_end <= believed <= header.base_offset
        self.epochs.assign(epoch, believed if is_possible else header.base_offset)

    def _apply(
        self, header: BatchHeader, data: memoryview, segment: Segment, position: int, producers: ProducerStates
    ) -> bool:
        """Apply a batch that has a producer id, and note the transaction it aborts. False if it cannot be read."""
        try:
            place = LogOffset(header.base_offset, segment.base_offset, position)
            ended = apply_producer(producers, header, data, 0, place)
        except Malformed:
            return False
        if ended is not None:
            note_ended(producers, ended, segment.transaction_index)
        return True

    def producers_at(self, log_start_offset: int, end_offset: int, shutdown: Shutdown) -> ProducerStates:
        """The producers at the log end."""
        self.snapshots.drop_outside(log_start_offset, end_offset)
        producers = self.recovered
        if producers is None or producers.end_offset != end_offset:
            if shutdown is Shutdown.CLEAN and not self.snapshots.offsets:
                producers = ProducerStates(self.name, end_offset)
            else:
                producers = self._replayed(log_start_offset, end_offset)
        if not self.epochs_known:
            self._replay(ProducerStates(self.name), log_start_offset, end_offset)
        return producers

    def _replayed(self, log_start_offset: int, end_offset: int) -> ProducerStates:
        """The producers at ``end_offset``, from the latest snapshot that is valid and the batches behind it."""
        producers = ProducerStates(self.name, log_start_offset)
        for offset in reversed([each for each in self.snapshots.offsets if log_start_offset < each <= end_offset]):
            try:
                entries = self.snapshots.read(offset)
            except CorruptFile as error:
                self.report(f"{error}; it is removed")
                self.snapshots.drop(offset)
                continue
            producers.load(entries, offset)
            producers.expire(self.now_ms, self.config.producer_id_expiration_ms)
            break
        if self._unindexed_from < MAX_OFFSET:
            self._unindexed_from = max(self._unindexed_from, producers.end_offset)
            self.segments[-1].transaction_index.truncate_to(self._unindexed_from)
        self._replay(producers, producers.end_offset, end_offset)
        return producers

    def _replay(self, producers: ProducerStates, offset: int, end_offset: int) -> None:
        """Apply the batches in ``offset .. end_offset`` to ``producers`` and the epochs."""
        for number, segment in enumerate(self.segments):
            following = self.segments[number + 1 :]
            if (following and following[0].base_offset <= offset) or segment.base_offset >= end_offset:
                continue
            found = segment.find(offset, segment.size) if offset > segment.base_offset else (0, None)
            if found is None:
                continue
            self.replayed_bytes += segment.size - found[0]
            for at, header in scan.headers(segment.log, found[0], segment.size):
                if header.base_offset >= end_offset:
                    break
                if header.partition_leader_epoch > self.epochs.latest:
                    self._note_epoch(header, header.base_offset)
                if header.producer_id != NO_PRODUCER_ID:
                    data = memoryview(segment.log.pread(header.size, at)) if header.is_control else memoryview(b"")
                    place = LogOffset(header.base_offset, segment.base_offset, at)
                    try:
                        ended = apply_producer(producers, header, data, 0, place)
                    except Malformed as error:
                        raise CorruptLog(f"{segment.log.path}, byte {at}: {error}") from error
                    if ended is not None:
                        if header.base_offset >= self._unindexed_from:
                            note_ended(producers, ended, segment.transaction_index)
                        else:
                            producers.complete(ended)
        producers.end_offset = max(producers.end_offset, end_offset)


def _first_to_recover(base_offsets: list[int], offset: int) -> int:
    """The number of the segment before ``offset``, where recovery from there on begins."""
    return max(sum(base_offset < offset for base_offset in base_offsets) - 1, 0)
