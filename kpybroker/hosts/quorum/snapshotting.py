"""The rules for snapshots of the metadata: when to write one, its contents, and which older ones to delete. Pure."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.metadata.image_records import image_records, record_version
from kpybroker.machines.raft.control_records import (
    control_batch,
    kraft_version,
    kraft_voters,
    snapshot_footer,
    snapshot_header,
)
from kpybroker.machines.raft.voters import VoterHistory
from kpystorage.snapshot import SnapshotId
from kpywire.metadata_records import encode_record
from kpywire.record import Record, build_batch

RECORDS_PER_BATCH = 1_000
LITTLE_BYTES = 128 << 10


class SnapshotPolicy(NamedTuple):
    """The rules for when a snapshot is due and how long old ones stay: ``metadata.log.max...`` and
    ``metadata.max.retention...``."""

    max_new_record_bytes: int = 20 << 20
    max_interval_ms: int = 3_600_000
    retention_bytes: int = 100 << 20
    retention_ms: int = 604_800_000
    delay_ms: int = 1_000
    """The delay after a snapshot becomes due: changes that come together, as at a start, are all in it, and none waits
    for it."""


DEFAULT_POLICY = SnapshotPolicy()


def is_due(policy: SnapshotPolicy, new_bytes: int, since_last_ms: float, last_snapshot_bytes: int) -> bool:
    """Whether enough bytes were written since the last snapshot, or any bytes for long enough.

    Twice the size of the last snapshot is enough too: replaying that much would cost a start more than the snapshot
    itself does.
    """
    enough_bytes = min(policy.max_new_record_bytes, max(2 * last_snapshot_bytes, LITTLE_BYTES))
    too_old = policy.max_interval_ms > 0 and since_last_ms >= policy.max_interval_ms
    return new_bytes >= enough_bytes or (new_bytes > 0 and too_old)


def snapshot_batches(
    image: MetadataImage, history: VoterHistory, last_timestamp_ms: int, now_ms: int
) -> Iterator[bytes]:
    """The batches of a snapshot, one at a time so that the caller can pause in between. ``image`` must not change."""
    epoch = image.epoch
    header = [snapshot_header(last_timestamp_ms)]
    if history.kraft_version >= 1:
        header += [kraft_version(history.kraft_version), kraft_voters(history.voters)]
    yield control_batch(header, 0, epoch, now_ms)
    offset = len(header)
    pending: list[Record] = []
    for record in image_records(image):
        pending.append(Record(timestamp=now_ms, value=encode_record(record, record_version(record, image.level))))
        if len(pending) == RECORDS_PER_BATCH:
            yield build_batch(pending, base_offset=offset, partition_leader_epoch=epoch)
            offset += len(pending)
            pending = []
    if pending:
        yield build_batch(pending, base_offset=offset, partition_leader_epoch=epoch)
        offset += len(pending)
    yield control_batch([snapshot_footer()], offset, epoch, now_ms)


def expendable(
    snapshots: Sequence[SnapshotId],
    sizes_bytes: Sequence[int],
    ages_ms: Sequence[float],
    log_bytes: int,
    policy: SnapshotPolicy,
) -> list[SnapshotId]:
    """The oldest snapshots, which retention does not keep; never the newest one. All sequences are oldest first."""
    total_bytes = log_bytes + sum(sizes_bytes)
    gone = []
    for snapshot, size_bytes, age_ms in list(zip(snapshots, sizes_bytes, ages_ms, strict=True))[:-1]:
        too_much = 0 <= policy.retention_bytes < total_bytes
        too_old = 0 <= policy.retention_ms < age_ms
        if not too_much and not too_old:
            break
        gone.append(snapshot)
        total_bytes -= size_bytes
    return gone
