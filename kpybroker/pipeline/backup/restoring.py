"""A log directory of a single node, written from a run: logs with their indexes, committed offsets, the metadata.

The logs are written by the code that brokers append with, so indexes, producer snapshots, aborted transactions and
leader epochs come from the batches. ``meta.properties`` is written last: an interrupted restore is no formatted
directory.
"""

import random
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

from kpybroker.config.broker import BrokerConfig
from kpybroker.config.topic import effective
from kpybroker.hosts.coordinators.placement import partition_for
from kpybroker.hosts.quorum.first_start import controller_endpoints
from kpybroker.hosts.quorum.formatter import (
    Formatting,
    bootstrap_records,
    format_directories,
    is_empty,
    make_directories,
    new_uuid,
)
from kpybroker.hosts.quorum.metadata_log import MetadataLog
from kpybroker.hosts.quorum.snapshotting import snapshot_batches
from kpybroker.machines.backup.manifest import PartitionAtCut, RunManifest, StoredPiece, TopicAtCut, partitions_of
from kpybroker.machines.backup.restoring import (
    BROKER_EPOCH,
    FIRST_LEADER_EPOCH,
    OFFSETS_CONFIGS,
    RestoredNode,
    commit_records,
    metadata_records,
    runs_around,
)
from kpybroker.machines.backup.time_cut import Extension, TimedStretch, extensions, manifest_at
from kpybroker.machines.metadata.chosen_levels import FormatRefused, choose_levels
from kpybroker.machines.metadata.image import KRAFT_VERSION, image_of
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.machines.mirror.planning import carried
from kpybroker.machines.raft.voters import BOOTSTRAP_OFFSET, Voter, VoterHistory, voter_set
from kpybroker.pipeline.backup.store import BackupStore, DamagedPiece
from kpybroker.pipeline.scan.ahead import ahead
from kpystorage.directory import METADATA_TOPIC, LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.snapshot import SnapshotId
from kpywire import uuid
from kpywire.batch import BatchHeader, batch_headers, check_crc
from kpywire.control_record import marker_batch
from kpywire.errors import Malformed
from kpywire.record import Record, build_batch
from kpywire.varint import Buffer

EPOCH: Final = 1
"""The epoch of the metadata snapshot."""
APPENDED_BYTES: Final = 4 << 20
COMMITS_PER_BATCH: Final = 500
COORDINATOR_EPOCH: Final = 0


class RestoreTarget(NamedTuple):
    """The directory to write, and the configs of its node."""

    directory: str
    config: BrokerConfig


def restore(
    store: BackupStore,
    manifest: RunManifest,
    target: RestoreTarget,
    now_ms: int,
    report: Callable[[str], None],
    progress: Callable[[int], object],
) -> None:
    """Write the directory. ``progress`` gets numbers of bytes. Raises FormatRefused, StoreFailed, DamagedPiece,
    DiskFailure, OSError."""
    disk, rng = RealDisk(), random.SystemRandom()
    if not is_empty(disk, target.directory):
        raise FormatRefused(f"{target.directory} is not empty: a backup is restored into an empty directory")
    make_directories(disk, target.directory)
    node = RestoredNode(target.config.node_id, new_uuid(rng), new_uuid(rng), new_uuid(rng))
    directory = LogDirectory(target.directory, disk, rng, report, LogConfig())
    directory.open(now_ms)
    try:
        for topic, index, part in partitions_of(manifest):
            log = _restored_log(store, directory, target.config, (topic, index, part), now_ms, progress)
            _finish(log, part, now_ms)
            directory.high_watermarks[topic.name, index] = log.end.offset
        _write_groups(directory, target.config, manifest, node, now_ms)
        voters = voter_set([Voter(node.node_id, node.directory_id, controller_endpoints(target.config)[:1])])
        levels = choose_levels(None, {}, dynamic_quorum=True)
        records = list(metadata_records(manifest, node, bootstrap_records(levels)))
        history = VoterHistory()
        history.add_kraft_version(BOOTSTRAP_OFFSET, levels[KRAFT_VERSION])
        history.add_voters(BOOTSTRAP_OFFSET, voters)
        _write_metadata(directory, manifest.cluster_id, records, history, now_ms)
    except BaseException:
        directory.abandon()
        raise
    directory.close(BROKER_EPOCH)
    directories = [target.directory]
    formatting = Formatting(manifest.cluster_id, node.node_id, directories, target.directory, levels, voters)
    format_directories(disk, formatting, rng, now_ms)


def at_time(store: BackupStore, time_ms: int, *, by_timestamps: bool) -> RunManifest | None:
    """The manifest of the cluster at a time: that of the last run before, or with ``by_timestamps`` what the run after
    it has up to the time, too. None if no run is early enough. Raises StoreFailed, BadManifest, DamagedPiece."""
    cuts = {run: store.manifest(run).cut_ms for run in store.runs()}
    before, after = runs_around(cuts, time_ms)
    earlier = None if before is None else store.manifest(before)
    if not by_timestamps or after is None:
        return earlier
    later = store.manifest(after)
    return manifest_at(
        time_ms, earlier, later, [_read_up_to(store, each, time_ms) for each in extensions(earlier, later)]
    )


def _read_up_to(store: BackupStore, extension: Extension, time_ms: int) -> tuple[Extension, TimedStretch]:
    timed = extension.stretch()
    for _, batches in checked_batches(store, extension.following):
        timed.take(batches, time_ms)
        if timed.is_over:
            break
    return extension, timed


# Logs.


def _restored_log(
    store: BackupStore,
    directory: LogDirectory,
    config: BrokerConfig,
    place: tuple[TopicAtCut, int, PartitionAtCut],
    now_ms: int,
    progress: Callable[[int], object],
) -> Log:
    """The log of a partition, with all its batches. The next bytes are read while the last ones are written."""
    topic, index, part = place
    log_config = effective(carried(topic.configs), config).log()
    overturned = frozenset(marker.offset for marker in part.overturned)
    limit = min(log_config.segment_bytes, APPENDED_BYTES)
    # A cleaner does not touch the active segment: gaps before it are known as its own once it has run.
    gap_end = max((piece.gap_end for piece in part.pieces), default=-1) if log_config.cleanup_compact else -1
    log: Log | None = None

    def created(first_offset: int) -> Log:
        topic_id = uuid.from_string(topic.topic_id)
        return directory.create_log(topic.name, index, topic_id, log_config, now_ms, start_offset=first_offset)

    with closing(ahead(checked_batches(store, part.pieces))) as pieces:
        for headers, found in pieces:
            if log is None:  # the first batch may begin before the log start, if that is inside it
                log = created(min(headers[0].base_offset, part.pieces[0].start_offset))
            if headers[-1].base_offset >= part.end_offset:
                headers = [header for header in headers if header.base_offset < part.end_offset]
            batches = _overturned(headers, found, overturned, now_ms) if overturned else found
            for some, stretch in _parts(headers, batches, limit, gap_end):
                if some[0].base_offset == gap_end:
                    log.roll(now_ms, gap_end)
                log.append(some, stretch, now_ms)
            progress(len(found))
            if log.end.offset >= part.end_offset:
                break
    return log or created(part.start_offset)


def checked_batches(
    store: BackupStore, pieces: Sequence[StoredPiece]
) -> Generator[tuple[list[BatchHeader], Buffer], None, None]:
    """The batches of pieces, some at a time, each compared with its CRC. Raises DamagedPiece, StoreFailed."""
    for piece in pieces:
        rest = b""
        for found in store.read(piece):
            stretch = rest + bytes(found) if rest else found
            headers, size = _checked(piece, stretch)
            rest = bytes(memoryview(stretch)[size:])
            if headers:
                yield headers, memoryview(stretch)[:size]
        if rest:
            raise DamagedPiece(f"{piece.key}: its last {len(rest)} bytes are no batch")


def _checked(piece: StoredPiece, stretch: Buffer) -> tuple[list[BatchHeader], int]:
    headers, size = [], 0
    try:
        for position, header in batch_headers(stretch):
            if not check_crc(stretch, header, position):
                raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
            headers.append(header)
            size = position + header.size
    except Malformed as error:
        raise DamagedPiece(f"{piece.key}: {error}") from None
    return headers, size


def _parts(
    headers: list[BatchHeader], batches: Buffer, limit: int, begin_at: int
) -> Iterator[tuple[list[BatchHeader], Buffer]]:
    """The same batches, in parts that fit into a segment. The batch at offset ``begin_at`` begins a part."""
    some: list[BatchHeader] = []
    begin = end = 0
    for header in headers:
        if some and (end + header.size - begin > limit or header.base_offset == begin_at):
            yield some, memoryview(batches)[begin:end]
            some, begin = [], end
        some.append(header)
        end += header.size
    if some:
        yield some, memoryview(batches)[begin:end]


def _overturned(headers: list[BatchHeader], batches: Buffer, offsets: frozenset[int], now_ms: int) -> Buffer:
    """The same batches, with ABORT markers in place of the markers at these offsets. A marker has always one size."""
    if not any(header.base_offset in offsets for header in headers):
        return batches
    changed, position = bytearray(batches), 0
    for number, header in enumerate(headers):
        if header.base_offset in offsets:
            marker = marker_batch(
                header.base_offset,
                header.partition_leader_epoch,
                now_ms,
                commit=False,
                coordinator_epoch=COORDINATOR_EPOCH,
                producer_id=header.producer_id,
                producer_epoch=header.producer_epoch,
            )
            changed[position : position + header.size] = marker
            headers[number] = next(found for _, found in batch_headers(marker))
        position += header.size
    return changed


def _finish(log: Log, part: PartitionAtCut, now_ms: int) -> None:
    """End open transactions, and set the log's start and end."""
    if log.end.offset < part.end_offset:
        log.roll(now_ms, part.end_offset)  # the log ends with offsets that compaction has removed
    for end in part.ends:
        marker = marker_batch(
            max(log.end.offset, part.end_offset),
            max(part.leader_epoch, FIRST_LEADER_EPOCH),
            now_ms,
            commit=end.is_commit,
            coordinator_epoch=COORDINATOR_EPOCH,
            producer_id=end.producer_id,
            producer_epoch=end.epoch,
        )
        log.append([header for _, header in batch_headers(marker)], marker, now_ms)
    if part.start_offset > log.log_start_offset:
        log.advance_log_start(min(part.start_offset, log.end.offset))


# Groups and metadata.


def _write_groups(
    directory: LogDirectory, config: BrokerConfig, manifest: RunManifest, node: RestoredNode, now_ms: int
) -> None:
    """Write ``__consumer_offsets`` with the committed offsets of groups."""
    log_config = effective(OFFSETS_CONFIGS, config).log()
    logs = [
        directory.create_log(GROUP_OFFSETS_TOPIC, index, node.offsets_topic_id, log_config, now_ms)
        for index in range(manifest.offsets_partitions)
    ]
    for group, commits in groupby(commit_records(manifest, now_ms), key=lambda each: each.group_id):
        log = logs[partition_for(group, len(logs))]
        records = [
            Record(timestamp=now_ms, key=key, value=value) for key, value in (each.encoded() for each in commits)
        ]
        for begin in range(0, len(records), COMMITS_PER_BATCH):
            some = records[begin : begin + COMMITS_PER_BATCH]
            batch = build_batch(some, base_offset=log.end.offset, partition_leader_epoch=FIRST_LEADER_EPOCH)
            log.append([header for _, header in batch_headers(batch)], batch, now_ms)
    for index, log in enumerate(logs):
        directory.high_watermarks[GROUP_OFFSETS_TOPIC, index] = log.end.offset


def _write_metadata(
    directory: LogDirectory, cluster_id: str, records: Sequence[object], history: VoterHistory, now_ms: int
) -> None:
    """Write a snapshot of the metadata, and a log that goes on behind it."""
    next_offset = BROKER_EPOCH + len(records)
    image, _ = image_of(list(records), cluster_id, next_offset)
    image.epoch = EPOCH
    directory.create_log(METADATA_TOPIC, 0, uuid.ONE_UUID, LogConfig(), now_ms, start_offset=next_offset)
    log = MetadataLog(directory, LogConfig(), now_ms)
    log.write_snapshot(SnapshotId(next_offset, EPOCH), list(snapshot_batches(image, history, now_ms, now_ms)))


def config_of(properties: Path | None, directory: str) -> BrokerConfig:
    """The configs of the node that gets a directory. Raises ConfigError."""
    overrides = {"log.dirs": directory} | ({"metadata.log.dir": directory} if properties is not None else {})
    return BrokerConfig.load(properties, overrides)
