"""``__cluster_metadata-0`` on disk: the log, its snapshots and ``quorum-state``. The contents of records are not
interpreted here.

Calls block unless documented otherwise. Not thread-safe, except for the functions that :meth:`MetadataLog.begin_flush`
returns and the ``write_...`` functions, which may run in a thread.
"""

from collections.abc import Iterator, Sequence

from kpybroker.machines.raft.roles import ElectionState
from kpystorage import quorum_state, snapshot
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.errors import CorruptLog, CorruptRecord
from kpystorage.flush import Flush
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.quorum_state import StoredQuorumState
from kpystorage.recovery import Loss
from kpystorage.snapshot import RawSnapshotWriter, SnapshotId
from kpywire.batch import BatchHeader, batch_headers, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.uuid import ONE_UUID

QUORUM_STATE = "quorum-state"
READ_BYTES = 1 << 20
APPEND_BYTES = 8 << 20
FOR_EVER = -1
NOT_KNOWN = -1


def metadata_log_path(directory: str) -> str:
    """The path of the metadata log in a log directory."""
    return f"{directory}/{METADATA_TOPIC}-0"


class MetadataLog:
    """The files of one replica of the metadata log."""

    def __init__(self, directory: LogDirectory, config: LogConfig, now_ms: int) -> None:
        """Open the log in ``directory``, making it if it is not there. May raise DiskFailure, CorruptLog.

        Only the segment limits of ``config`` are used. Records are deleted once a snapshot stands for them, never by
        age.
        """
        self._directory = directory
        self._disk = directory.disk
        self._path = metadata_log_path(directory.path)
        config = config._replace(retention_bytes=FOR_EVER, retention_ms=FOR_EVER, cleanup_delete=True, is_tiered=False)
        log = directory.logs.get((METADATA_TOPIC, 0))
        if log is None:
            log = directory.create_log(METADATA_TOPIC, 0, ONE_UUID, config, now_ms)
            with directory.failing():
                self._disk.synchronize_directory(directory.path)  # a vote may be cast before the log is flushed
        log.configure(config)
        log.open()
        self._log: Log = log
        self._last_read: tuple[tuple[int, int, int], bytes] | None = None
        """The question and answer of the last read, until the log is cut: many brokers fetch the same records."""
        self.loss: Loss | None = None
        """The records that were lost from the log; the log ends before them."""
        self._cut_at_a_gap(now_ms)
        with directory.failing():
            snapshot.remove_unfinished(self._disk, self._path)

    def _cut_at_a_gap(self, now_ms: int) -> None:
        """Remove everything behind missing records, even if it was flushed: either other nodes have all of it, or no
        node has."""
        self.loss = self._directory.loss_of(self._log)
        if self.loss is None:
            return
        if not self.loss.is_cut:
            self._log.truncate_to(self.loss.offset, now_ms)
        self._directory.losses.settle(self._log)
        self._directory.report(
            f"{self._path}: {self.loss}; the metadata log ends at offset {self._log.log_end_offset} now, and what "
            f"followed, up to offset {self.loss.end_offset}, is removed"
        )

    @property
    def next_offset(self) -> int:
        """The offset of the next batch."""
        return self._log.log_end_offset

    @property
    def synced_offset(self) -> int:
        """Everything below this offset survives a crash of the machine."""
        return self._log.recovery_point

    @property
    def start_offset(self) -> int:
        """The first offset that is still in the log; a snapshot stands for the records before it."""
        return self._log.log_start_offset

    def epochs(self) -> LeaderEpochs:
        """A copy of the start offsets of all epochs."""
        return LeaderEpochs(self._log.epochs.entries())

    def append(self, batches: Sequence[bytes], now_ms: int) -> None:
        """Write batches, not yet durably. Does not block for long. May raise DiskFailure; then the log is offline."""
        limit = min(self._log.config.segment_bytes, APPEND_BYTES)
        together: list[bytes] = []
        size = 0
        for batch in batches:
            if together and size + len(batch) > limit:
                self._append(together, now_ms)
                together, size = [], 0
            together.append(batch)
            size += len(batch)
        self._append(together, now_ms)

    def _append(self, batches: Sequence[bytes], now_ms: int) -> None:
        self._log.append([parse_header(batch) for batch in batches], b"".join(batches), now_ms)

    def begin_flush(self) -> Flush | None:
        """Return a function that makes everything durable, to be run in a thread; None if everything is. One at a
        time."""
        return self._log.begin_flush()

    def finish_flush(self, flush: Flush) -> None:
        """Note that a flush has run."""
        self._log.finish_flush(flush)

    def fail(self, error: OSError) -> None:
        """A write or a flush failed: the directory goes offline."""
        self._directory.fail(error)

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every whole batch, starting with the one that holds ``offset``. Raises Malformed if one has changed since it
        was written."""
        log, expected = self._log, NOT_KNOWN
        while offset < log.log_end_offset:
            part = log.read(offset, READ_BYTES, log.end, min_one_batch=True)
            if part is None:
                break
            data = part.read()
            try:
                for position, header in batch_headers(data):
                    if not check_crc(data, header, position) or expected not in (NOT_KNOWN, header.base_offset):
                        raise Malformed(f"the batch of offsets {header.base_offset} to {header.last_offset} is damaged")
                    yield header, data[position : position + header.size]
                    offset = expected = header.next_offset
            except Malformed as error:
                raise Malformed(self._damage(offset, error)) from None

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Read whole batches from ``offset`` on, at least one if there is one. Raises DiskFailure, OffsetOutOfRange.
        If the file does not hold the batches that were written, that is CorruptLog."""
        log, whole = self._log, 0
        wanted = offset, max_bytes, log.log_end_offset
        if self._last_read is not None and self._last_read[0] == wanted:
            return self._last_read[1]
        try:
            found = log.read(offset, max_bytes, log.end, min_one_batch=True)
            if found is None:
                return b""
            data = found.read()
            for position, header in batch_headers(data):
                whole = position + header.size
        except (Malformed, CorruptRecord) as error:
            raise CorruptLog(self._damage(offset, error)) from None
        self._last_read = wanted, data[:whole]
        return self._last_read[1]

    def _damage(self, offset: int, error: Exception) -> str:
        remedy = "Restore it from a copy; `kpybroker check` says what else is wrong"
        return f"{self._path}, offset {offset}: {error}. {remedy}"

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off everything from ``offset`` on. May raise DiskFailure."""
        self._last_read = None
        self._log.truncate_to(offset, now_ms)

    def start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything, since a snapshot stands for it; the log continues at that offset. May raise
        DiskFailure."""
        self._last_read = None
        self._log.truncate_fully_and_start_at(offset, now_ms)

    def truncate_below(self, offset: int, now_ms: int) -> None:
        """Delete the records that a snapshot stands for. May raise DiskFailure."""
        self._last_read = None
        self._log.advance_log_start(offset)
        self._log.delete_old_segments(now_ms, offset)

    # Snapshots.

    def snapshots(self) -> list[SnapshotId]:
        """All complete snapshots, oldest first."""
        return snapshot.list_snapshots(self._disk, self._path)

    def read_snapshot(self, wanted: SnapshotId) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches of a snapshot. Raises Malformed if one of them has changed since it was written."""
        return read_checkpoint(snapshot.read(self._disk, self._path, wanted), snapshot.snapshot_name(wanted))

    def snapshot_size_bytes(self, wanted: SnapshotId) -> int:
        """The size of a snapshot."""
        return snapshot.open_snapshot(self._disk, self._path, wanted).size()

    def read_snapshot_part(self, wanted: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """Return the size of a snapshot and its bytes from ``position`` on; None if it is not there. May raise
        OSError."""
        if wanted not in self.snapshots():
            return None
        file = snapshot.open_snapshot(self._disk, self._path, wanted)
        try:
            size = file.size()
            length = max(min(max_bytes, size - position), 0) if position >= 0 else 0
            return size, file.descriptor().pread(length, position) if length else b""
        finally:
            file.release()

    def receive_snapshot(self, new: SnapshotId) -> RawSnapshotWriter:
        """Begin to write a snapshot as its parts arrive. May raise OSError."""
        return RawSnapshotWriter(self._disk, f"{self._path}/{snapshot.snapshot_name(new)}")

    def write_snapshot(self, new: SnapshotId, batches: Sequence[bytes]) -> None:
        """Write a snapshot durably. May run in a thread; may raise OSError."""
        snapshot.write(self._disk, self._path, new, batches)

    def delete_snapshot(self, old: SnapshotId) -> None:
        """Remove a snapshot."""
        snapshot.remove(self._disk, self._path, old)

    @property
    def size_bytes(self) -> int:
        """The size of the log without its snapshots."""
        return self._log.size

    # quorum-state.

    def read_election(self) -> ElectionState:
        """The contents of ``quorum-state``; empty in a new directory. Raises CorruptFile."""
        state = quorum_state.read(self._disk, f"{self._path}/{QUORUM_STATE}") or StoredQuorumState()
        return ElectionState(state.leader_epoch, state.leader_id, state.voted_id, state.voted_directory_id)

    def write_election(self, election: ElectionState, kraft_version: int, voters: Sequence[int]) -> None:
        """Write ``quorum-state`` durably, in the format of a level of ``kraft.version``. May run in a thread; may raise
        OSError."""
        state = StoredQuorumState(
            election.leader_id,
            election.epoch,
            election.voted_id,
            election.voted_directory_id,
            tuple(voters) if kraft_version == 0 else (),
            kraft_version,
        )
        quorum_state.write(self._disk, f"{self._path}/{QUORUM_STATE}", state)


def read_checkpoint(data: bytes, name: str) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of a snapshot or a bootstrap file. Raises Malformed if one of them has changed since it was
    written."""
    end = 0
    try:
        for position, header in batch_headers(data):
            if not check_crc(data, header, position):
                raise Malformed("wrong checksum")
            end = position + header.size
            yield header, data[position:end]
    except Malformed as error:
        raise Malformed(f"{name}, byte {end}: {error}") from None
    if end != len(data):
        raise Malformed(f"{name}: {len(data) - end} bytes follow the last whole batch")
