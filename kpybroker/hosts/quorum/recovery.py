"""The metadata on disk, read at the start: the newest snapshot, the log behind it, and ``quorum-state``.

The only voter of a quorum commits everything that it has, so its whole log is taken. If there are several voters, each
takes its snapshot and, from its log, the voters; the rest waits until the leader reports what is committed. A node that
lacks a finalised feature stops here with one line.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.machines.controller.activation import bootstrap_levels
from kpybroker.machines.metadata import features
from kpybroker.machines.metadata.image import KRAFT_VERSION, MetadataImage
from kpybroker.machines.metadata.loader import MetadataLoader
from kpybroker.machines.raft import control_records
from kpybroker.machines.raft.roles import ElectionState
from kpybroker.machines.raft.voters import Voter, VoterHistory
from kpystorage.snapshot import BOOTSTRAP_ID, SnapshotId, snapshot_name
from kpywire.batch import BatchHeader
from kpywire.errors import Malformed
from kpywire.metadata_records import decode_record
from kpywire.record import read_batch


class StartRefused(Exception):
    """This node cannot take part with the contents of its disk; the message is one line for the user."""


class Recovered(NamedTuple):
    """The metadata that the disk held."""

    loader: MetadataLoader
    """Holds the image; its first publication reports all of it to the subscribers."""
    history: VoterHistory
    election: ElectionState
    loaded_offset: int
    """Everything below this offset is in the image."""
    bytes_since_snapshot: int
    """The bytes of the log behind the newest snapshot that are in the image."""
    last_timestamp_ms: int
    """The time when the last record was appended."""


def recover(
    log: MetadataLog,
    cluster_id: str,
    static_voters: Sequence[Voter],
    bootstrap_records: Sequence[Any],
    local: Voter | None,
    now_ms: int,
) -> Recovered:
    """Read all metadata on disk. ``bootstrap_records`` are the first records of a log that is still empty; ``local``
    may vote.

    Blocks; raises StartRefused, Malformed, InvalidMetadata, DiskFailure.
    """
    recovered = _read(log, cluster_id, static_voters, local, now_ms, takes_all=True)
    if recovered.loaded_offset > _snapshot_end(log) and not _is_alone(local, recovered.history):
        recovered = _read(log, cluster_id, static_voters, local, now_ms, takes_all=False)  # it has grown meanwhile
    finalized = recovered.loader.image.finalized_features or bootstrap_levels(bootstrap_records)
    levels = {**finalized, KRAFT_VERSION: recovered.history.kraft_version}
    refusal = features.refusal(levels)
    if refusal is not None:
        raise StartRefused(f"{refusal} {features.remedy(levels)}")
    return recovered


def _is_alone(local: Voter | None, history: VoterHistory) -> bool:
    """Whether a node is its whole quorum."""
    if local is None or list(history.voters) != [local.id]:
        return False
    return history.kraft_version == 0 or history.voters[local.id].directory_id == local.directory_id


def _snapshot_end(log: MetadataLog) -> int:
    return max([snapshot.end_offset for snapshot in log.snapshots()], default=0)


def _read(
    log: MetadataLog,
    cluster_id: str,
    static_voters: Sequence[Voter],
    local: Voter | None,
    now_ms: int,
    *,
    takes_all: bool,
) -> Recovered:
    loader = MetadataLoader(MetadataImage(cluster_id))
    history = VoterHistory(static_voters)
    snapshots = log.snapshots()
    offset = 0
    if snapshots:
        _load_snapshot(log, snapshots[-1], loader, history)
        offset = snapshots[-1].end_offset
    if log.start_offset > offset:
        raise StartRefused(
            f"The metadata log begins at offset {log.start_offset}, and no snapshot holds what was before."
        )
    takes_all = takes_all and _is_alone(local, history)
    if not takes_all and snapshots and _lacks(log, snapshots[-1]):
        log.start_at(offset, now_ms)  # a snapshot of the leader was installed, and then this node died
    if log.next_offset < offset:
        raise StartRefused(
            f"The metadata log ends at offset {log.next_offset}, before its newest snapshot, which ends at {offset}: "
            "part of the log was removed."
        )
    size_bytes, last_timestamp_ms = 0, 0
    for header, batch in log.batches(offset):
        if header.is_control:
            control_records.read_control_batch(header, batch, history)
        if takes_all:
            size_bytes += header.size
            last_timestamp_ms = header.max_timestamp
            records = () if header.is_control else _records(header, batch)
            loader.load(records, header.base_offset, header.partition_leader_epoch)
    loaded_offset = log.next_offset if takes_all else offset
    return Recovered(loader, history, log.read_election(), loaded_offset, size_bytes, last_timestamp_ms)


def _lacks(log: MetadataLog, snapshot: SnapshotId) -> bool:
    """Whether the log neither holds the records that a snapshot stands for nor continues it."""
    if log.next_offset == log.start_offset:
        return log.next_offset != snapshot.end_offset
    return (snapshot.epoch, snapshot.end_offset) > (log.epochs().latest, log.next_offset)


def _load_snapshot(log: MetadataLog, snapshot: SnapshotId, loader: MetadataLoader, history: VoterHistory) -> None:
    complete = False
    for header, batch in log.read_snapshot(snapshot):
        if header.is_control:
            complete = control_records.read_control_batch(header, batch, history, snapshot.end_offset - 1)
        elif snapshot != BOOTSTRAP_ID:  # its records are not in the log before the first leader writes them there
            loader.load_snapshot(_records(header, batch), snapshot.end_offset, snapshot.epoch)
    if not complete:
        raise Malformed(f"{snapshot_name(snapshot)} has no footer")
    loader.load_snapshot((), snapshot.end_offset, snapshot.epoch)


def _records(header: BatchHeader, batch: bytes) -> list[Any]:
    return [decode_record(record.value or b"") for record in read_batch(batch, header)]
