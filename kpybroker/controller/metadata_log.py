"""``__cluster_metadata-0`` on disk: the log, its snapshots and ``quorum-state``. Bytes and files, no meaning.

Calls block unless said otherwise. Not thread-safe, but for what :meth:`MetadataLog.begin_flush` and the
``write_...`` functions hand out to be run in a thread.
"""

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpybroker.raft.roles import ElectionState
from kpystorage.checkpoint import write_atomically
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.disk import Disk
from kpystorage.flush import Flush
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpywire import uuid
from kpywire.batch import BatchHeader, batch_headers, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.uuid import ONE_UUID

QUORUM_STATE = "quorum-state"
CHECKPOINT = ".checkpoint"
PART = ".part"
READ_BYTES = 1 << 20

_SNAPSHOT_NAME = re.compile(r"(\d{20})-(\d{10})\.checkpoint")


class SnapshotId(NamedTuple):
    """A snapshot holds everything below ``next_offset``; ``epoch`` is that of the last record it holds."""

    next_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """Its name in the log's directory."""
        return f"{self.next_offset:020d}-{self.epoch:010d}{CHECKPOINT}"


BOOTSTRAP_SNAPSHOT = SnapshotId(0, 0)


def metadata_log_path(directory: str) -> str:
    """Where the metadata log of a log directory is."""
    return f"{directory}/{METADATA_TOPIC}-0"


class MetadataLog:
    """The files of one replica of the metadata log."""

    def __init__(self, directory: LogDirectory, config: LogConfig, now_ms: int) -> None:
        """Opens the log in ``directory``, making it if it is not there. May raise DiskFailure, CorruptLog."""
        self._directory = directory
        self._disk: Disk = directory.disk
        log = directory.logs.get((METADATA_TOPIC, 0))
        if log is None:
            log = directory.create_log(METADATA_TOPIC, 0, ONE_UUID, config, now_ms)
        log.configure(config)
        log.open()
        self._log: Log = log
        self._path = metadata_log_path(directory.path)

    @property
    def next_offset(self) -> int:
        """Where the next batch goes."""
        return self._log.log_end_offset

    @property
    def start_offset(self) -> int:
        """The first offset that is still there; a snapshot stands for what was before it."""
        return self._log.log_start_offset

    @property
    def last_epoch(self) -> int:
        """The leader epoch of the last batch; -1 in an empty log."""
        return self._log.epochs.latest

    def append(self, batches: Sequence[bytes], now_ms: int) -> None:
        """Write batches, not yet durably. Does not block for long. May raise DiskFailure; then the log is offline."""
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
        """Every whole batch from the one that holds ``offset`` on."""
        log = self._log
        while offset < log.log_end_offset:
            part = log.read(offset, READ_BYTES, log.end, min_one_batch=True)
            if part is None:
                break
            data = part.read()
            for position, header in batch_headers(data):
                yield header, data[position : position + header.size]
                offset = header.next_offset

    def truncate_below(self, offset: int) -> None:
        """Forget what a snapshot stands for."""
        self._log.advance_log_start(offset)

    # Snapshots.

    def snapshots(self) -> list[SnapshotId]:
        """All complete snapshots, oldest first."""
        found = map(_SNAPSHOT_NAME.fullmatch, self._disk.list_directory(self._path))
        return sorted(SnapshotId(int(match[1]), int(match[2])) for match in found if match)

    def read_snapshot(self, snapshot: SnapshotId) -> Iterator[tuple[BatchHeader, bytes]]:
        """The batches of a snapshot. Raises Malformed if one of them is not what was written."""
        data = self._disk.read(f"{self._path}/{snapshot.file_name}")
        end = 0
        for position, header in batch_headers(data):
            end = position + header.size
            if not check_crc(data, header, position):
                raise Malformed(f"{snapshot.file_name}: wrong checksum at byte {position}")
            yield header, data[position:end]
        if end != len(data):
            raise Malformed(f"{snapshot.file_name}: {len(data) - end} bytes follow the last whole batch")

    def snapshot_size_bytes(self, snapshot: SnapshotId) -> int:
        """How large a snapshot is."""
        return self._disk.file(f"{self._path}/{snapshot.file_name}").size()

    def write_snapshot(self, snapshot: SnapshotId, batches: Sequence[bytes]) -> None:
        """Write a snapshot durably. May run in a thread; may raise OSError."""
        write_snapshot(self._disk, self._path, snapshot, batches)

    def delete_snapshot(self, snapshot: SnapshotId) -> None:
        """Remove a snapshot."""
        self._disk.unlink(f"{self._path}/{snapshot.file_name}")

    @property
    def size_bytes(self) -> int:
        """The size of the log without its snapshots."""
        return self._log.size

    # quorum-state.

    def read_election(self) -> ElectionState:
        """What ``quorum-state`` says; nothing at all in a new directory. Raises Malformed."""
        path = f"{self._path}/{QUORUM_STATE}"
        try:
            state = json.loads(self._disk.read(path))
            return ElectionState(
                epoch=state["leaderEpoch"],
                leader_id=state["leaderId"],
                voted_id=state["votedId"],
                voted_directory_id=uuid.from_string(state.get("votedDirectoryId", uuid.to_string(uuid.ZERO_UUID))),
            )
        except FileNotFoundError:
            return ElectionState()
        except (ValueError, KeyError, TypeError) as error:
            raise Malformed(f"{path}: not a quorum state: {error}") from error

    def write_election(self, election: ElectionState, kraft_version: int, voters: Sequence[int]) -> None:
        """Write ``quorum-state`` durably, in the form of a level of ``kraft.version``. May run in a thread; OSError."""
        state: dict[str, object] = {"leaderId": election.leader_id, "leaderEpoch": election.epoch}
        state["votedId"] = election.voted_id
        if kraft_version == 0:
            state = {"clusterId": "", **state, "appliedOffset": 0}
            state["currentVoters"] = [{"voterId": voter} for voter in voters]
        else:
            state["votedDirectoryId"] = uuid.to_string(election.voted_directory_id)
        state["data_version"] = kraft_version
        data = json.dumps(state, separators=(",", ":")).encode()
        write_atomically(self._disk, f"{self._path}/{QUORUM_STATE}", data)


def write_snapshot(disk: Disk, log_path: str, snapshot: SnapshotId, batches: Sequence[bytes]) -> None:
    """Write a snapshot into the directory of a metadata log, durably. May raise OSError."""
    path = f"{log_path}/{snapshot.file_name}"
    disk.write(path + PART, b"".join(batches), synchronize=True)
    disk.rename(path + PART, path)
    disk.synchronize_directory(log_path)
