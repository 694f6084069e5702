"""The contents of a log's small files: indexes, producer snapshots, checkpoints; also whether indexes fit their
segment.

Rows are dictionaries; `row_line` prints one as Kafka's DumpLogSegments does. Damage is a `FileTrouble` among the rows.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Any

from kpybroker.cli.log_dump import FileTrouble
from kpystorage import checkpoint, meta_properties, names, partition_metadata, producer_snapshot, quorum_state
from kpystorage.disk import Disk
from kpystorage.errors import CorruptFile
from kpystorage.scan import headers
from kpywire.uuid import to_string

_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")
_TRANSACTION_ENTRY = Struct(">hqqqq")

Row = dict[str, Any]
Rows = Iterator[Row | FileTrouble]


def row_line(row: Row) -> str:
    """A row as a line, such as ``offset: 5 position: 388``."""
    return " ".join(f"{key}: {value}" for key, value in row.items())


def offset_index(disk: Disk, path: str, base_offset: int, *, verify: bool) -> Rows:
    """The entries of an ``.index``; ``verify`` compares each with the segment beside it.

    The zeros that Kafka preallocates behind the entries of an active segment are not entries.
    """
    entries = list(_OFFSET_ENTRY.iter_unpack(_whole(disk.read(path), _OFFSET_ENTRY.size)))
    ends = _batch_ends(disk, path) if verify else None
    previous = -1
    for relative, position in entries:
        if relative == position == 0:
            return
        offset = base_offset + relative
        yield {"offset": offset, "position": position}
        if offset <= previous:
            yield FileTrouble(f"offset {offset} does not ascend")
        previous = offset
        if ends is not None and ends.get(position) != offset:
            yield FileTrouble(f"index offset {offset} at position {position}, where the log has {ends.get(position)}")


def time_index(disk: Disk, path: str, base_offset: int, *, verify: bool) -> Rows:
    """The entries of a ``.timeindex``."""
    previous = -1
    latest = _latest_until(disk, path) if verify else None
    for timestamp, relative in _TIME_ENTRY.iter_unpack(_whole(disk.read(path), _TIME_ENTRY.size)):
        if timestamp == relative == 0:
            return
        offset = base_offset + relative
        yield {"timestamp": timestamp, "offset": offset}
        if timestamp <= previous:
            yield FileTrouble(f"timestamp {timestamp} does not ascend")
        previous = timestamp
        if latest is not None and latest.get(offset) != timestamp:
            yield FileTrouble(f"index timestamp {timestamp} at offset {offset}, where the log has {latest.get(offset)}")


def transaction_index(disk: Disk, path: str, _base_offset: int, *, verify: bool) -> Rows:  # noqa: ARG001
    """The entries of a ``.txnindex``."""
    for entry in _TRANSACTION_ENTRY.iter_unpack(_whole(disk.read(path), _TRANSACTION_ENTRY.size)):
        keys = ("version", "producerId", "firstOffset", "lastOffset", "lastStableOffset")
        yield dict(zip(keys, entry, strict=True))


def producers(disk: Disk, path: str) -> Rows:
    """The producers of a ``.snapshot``."""
    try:
        found = producer_snapshot.parse(disk.read(path), path)
    except CorruptFile as error:
        yield FileTrouble(str(error))
        return
    for each in found:
        first = each.transaction_first_offset
        row: Row = {
            "producerId": each.producer_id,
            "producerEpoch": each.epoch,
            "coordinatorEpoch": each.coordinator_epoch,
            "currentTxnFirstOffset": "OptionalLong.empty" if first < 0 else f"OptionalLong[{first}]",
            "lastTimestamp": each.timestamp,
        }
        if each.last_offset >= 0:
            row |= {
                "firstSequence": (each.last_sequence - each.offset_delta) & 0x7FFF_FFFF,
                "lastSequence": each.last_sequence,
                "lastOffset": each.last_offset,
                "offsetDelta": each.offset_delta,
                "timestamp": each.timestamp,
            }
        yield row


def _epochs(data: bytes, path: str) -> list[Row]:
    return [{"epoch": epoch, "startOffset": start} for epoch, start in checkpoint.parse_epochs(data, path)]


def _offsets(data: bytes, path: str) -> list[Row]:
    found = checkpoint.parse_offsets(data, path)
    return [{"topic": spot[0], "partition": spot[1], "offset": offset} for spot, offset in found.items()]


def _partition_metadata(data: bytes, path: str) -> list[Row]:
    topic_id = partition_metadata.parse(data, path)
    return [{"topicId": None if topic_id is None else to_string(topic_id)}]


def _meta_properties(data: bytes, path: str) -> list[Row]:
    found = meta_properties.parse(data, path)
    directory_id = None if found.directory_id is None else to_string(found.directory_id)
    return [
        {
            "version": found.version,
            "clusterId": found.cluster_id,
            "nodeId": found.node_id,
            "directoryId": directory_id,
        }
    ]


def _quorum_state(data: bytes, path: str) -> list[Row]:
    found = quorum_state.parse(data, path)
    return [
        {
            "leaderId": found.leader_id,
            "leaderEpoch": found.leader_epoch,
            "votedId": found.voted_id,
            "votedDirectoryId": to_string(found.voted_directory_id),
            "version": found.version,
        }
    ]


SMALL_FILES: dict[str, Callable[[bytes, str], list[Row]]] = {
    names.LEADER_EPOCHS: _epochs,
    names.RECOVERY_POINTS: _offsets,
    names.LOG_STARTS: _offsets,
    names.HIGH_WATERMARKS: _offsets,
    names.CLEANER_OFFSETS: _offsets,
    names.PARTITION_METADATA: _partition_metadata,
    names.META_PROPERTIES: _meta_properties,
    "quorum-state": _quorum_state,
}
"""Files with a fixed name."""


def small_file(disk: Disk, path: str) -> Rows:
    """The contents of a checkpoint or a similar file."""
    try:
        yield from SMALL_FILES[path.rpartition("/")[2]](disk.read(path), path)
    except CorruptFile as error:
        yield FileTrouble(str(error))


def _whole(data: bytes, entry_bytes: int) -> bytes:
    return data[: len(data) // entry_bytes * entry_bytes]


def _batch_ends(disk: Disk, index_path: str) -> dict[int, int] | None:
    """The last offset of the batch at each position of the segment; None if the segment is not there."""
    log = index_path.rpartition(".")[0] + names.LOG
    if disk.status(log) is None:
        return None
    file = disk.file(log)
    found = {position: header.last_offset for position, header in headers(file, 0, file.size())}
    file.release()
    return found


def _latest_until(disk: Disk, index_path: str) -> dict[int, int] | None:
    """The largest timestamp up to the last offset of each batch; None if the segment is not there."""
    log = index_path.rpartition(".")[0] + names.LOG
    if disk.status(log) is None:
        return None
    file = disk.file(log)
    latest, found = -1, {}
    for _, header in headers(file, 0, file.size()):
        latest = max(latest, header.max_timestamp)
        found[header.last_offset] = latest
    file.release()
    return found
