"""``__cluster_metadata-0`` on disk: the log, its snapshots and ``quorum-state``. Bytes and files, no meaning.

Calls block unless said otherwise. Not thread-safe, but for what :meth:`MetadataLog.begin_flush` and the
``write_...`` functions hand out to be run in a thread.
"""

from collections.abc import Iterator, Sequence

from kpybroker.raft.roles import ElectionState
from kpystorage import quorum_state, snapshot
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.flush import Flush
from kpystorage.leader_epochs import LeaderEpochs
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.quorum_state import QuorumState
from kpystorage.snapshot import SnapshotId, SnapshotWriter
from kpywire.batch import BatchHeader, batch_headers, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.uuid import ONE_UUID

QUORUM_STATE = "quorum-state"
READ_BYTES = 1 << 20
APPEND_BYTES = 8 << 20
FOR_EVER = -1
NOT_KNOWN = -1


def metadata_log_path(directory: str) -> str:
    """Where the metadata log of a log directory is."""
    return f"{directory}/{METADATA_TOPIC}-0"


class MetadataLog:
    """The files of one replica of the metadata log."""

    def __init__(self, directory: LogDirectory, config: LogConfig, now_ms: int) -> None:
        """Opens the log in ``directory``, making it if it is not there. May raise DiskFailure, CorruptLog.

        Of ``config`` the segment limits count; records go when a snapshot stands for them, never by their age.
        """
        self._directory = directory
        self._disk = directory.disk
        self._path = metadata_log_path(directory.path)
        config = config._replace(retention_bytes=FOR_EVER, retention_ms=FOR_EVER, cleanup_delete=True)
        log = directory.logs.get((METADATA_TOPIC, 0))
        if log is None:
            log = directory.create_log(METADATA_TOPIC, 0, ONE_UUID, config, now_ms)
            with directory.failing():
                self._disk.synchronize_directory(directory.path)  # a vote may be cast before the log is flushed
        log.configure(config)
        log.open()
        self._log: Log = log
        with directory.failing():
            snapshot.remove_unfinished(self._disk, self._path)

    @property
    def next_offset(self) -> int:
        """Where the next batch goes."""
        return self._log.log_end_offset

    @property
    def synced_offset(self) -> int:
        """What is before it survives the machine's crash."""
        return self._log.recovery_point

    @property
    def start_offset(self) -> int:
        """The first offset that is still there; a snapshot stands for what was before it."""
        return self._log.log_start_offset

    def epochs(self) -> LeaderEpochs:
        """Which epoch began where, a copy."""
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
        """What makes everything durable, to be run in a thread; None when it is. One at a time."""
        return self._log.begin_flush()

    def finish_flush(self, flush: Flush) -> None:
        """Note that a flush has run."""
        self._log.finish_flush(flush)

    def fail(self, error: OSError) -> None:
        """A write or a flush failed: the directory goes offline."""
        self._directory.fail(error)

    def batches(self, offset: int) -> Iterator[tuple[BatchHeader, bytes]]:
        """Every whole batch from the one that holds ``offset`` on. Malformed if one is not what was written."""
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
                remedy = "Restore it from a copy; `kpybroker check` says what else is wrong"
                raise Malformed(f"{self._path}, offset {offset}: {error}. {remedy}") from None

    def read(self, offset: int, max_bytes: int) -> bytes:
        """Whole batches from ``offset`` on, at least one if there is one. DiskFailure, OffsetOutOfRange."""
        log = self._log
        found = log.read(offset, max_bytes, log.end, min_one_batch=True)
        if found is None:
            return b""
        data = found.read()
        whole = 0
        for position, header in batch_headers(data):
            whole = position + header.size
        return data[:whole]

    def truncate_to(self, offset: int, now_ms: int) -> None:
        """Cut off what is at ``offset`` and behind it. May raise DiskFailure."""
        self._log.truncate_to(offset, now_ms)

    def start_at(self, offset: int, now_ms: int) -> None:
        """Remove everything, since a snapshot stands for it; the log goes on there. May raise DiskFailure."""
        self._log.truncate_fully_and_start_at(offset, now_ms)

    def truncate_below(self, offset: int, now_ms: int) -> None:
        """Forget what a snapshot stands for. May raise DiskFailure."""
        self._log.advance_log_start(offset)
        self._log.delete_old_segments(now_ms, offset)

    # Snapshots.

    def snapshots(self) -> list[SnapshotId]:
        """All complete snapshots, oldest first."""
        return snapshot.list_snapshots(self._disk, self._path)

    def read_snapshot(self, wanted: SnapshotId) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches of a snapshot. Raises Malformed if one of them is not what was written."""
        return read_checkpoint(snapshot.read(self._disk, self._path, wanted), snapshot.snapshot_name(wanted))

    def snapshot_size_bytes(self, wanted: SnapshotId) -> int:
        """How large a snapshot is."""
        return snapshot.open_snapshot(self._disk, self._path, wanted).size()

    def read_snapshot_part(self, wanted: SnapshotId, position: int, max_bytes: int) -> tuple[int, bytes] | None:
        """The size of a snapshot and the bytes from ``position`` on; None if it is not there. May raise OSError."""
        if wanted not in self.snapshots():
            return None
        file = snapshot.open_snapshot(self._disk, self._path, wanted)
        try:
            size = file.size()
            length = max(min(max_bytes, size - position), 0) if position >= 0 else 0
            return size, file.descriptor().pread(length, position) if length else b""
        finally:
            file.release()

    def receive_snapshot(self, new: SnapshotId) -> SnapshotWriter:
        """Begin to write a snapshot as parts of it come. OSError."""
        return SnapshotWriter(self._disk, f"{self._path}/{snapshot.snapshot_name(new)}")

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
        """What ``quorum-state`` says; nothing at all in a new directory. Raises CorruptFile."""
        state = quorum_state.read(self._disk, f"{self._path}/{QUORUM_STATE}") or QuorumState()
        return ElectionState(state.leader_epoch, state.leader_id, state.voted_id, state.voted_directory_id)

    def write_election(self, election: ElectionState, kraft_version: int, voters: Sequence[int]) -> None:
        """Write ``quorum-state`` durably, in the form of a level of ``kraft.version``. May run in a thread; OSError."""
        state = QuorumState(
            election.leader_id,
            election.epoch,
            election.voted_id,
            election.voted_directory_id,
            tuple(voters) if kraft_version == 0 else (),
            kraft_version,
        )
        quorum_state.write(self._disk, f"{self._path}/{QUORUM_STATE}", state)


def read_checkpoint(data: bytes, name: str) -> Iterator[tuple[BatchHeader, bytes]]:
    """The batches of a snapshot or a bootstrap file. Raises Malformed if one of them is not what was written."""
    end = 0
    for position, header in batch_headers(data):
        end = position + header.size
        if not check_crc(data, header, position):
            raise Malformed(f"{name}: wrong checksum at byte {position}")
        yield header, data[position:end]
    if end != len(data):
        raise Malformed(f"{name}: {len(data) - end} bytes follow the last whole batch")
