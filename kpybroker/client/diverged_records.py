"""Exports of records that a mirror's source lacks: to a topic of the same cluster, or to files. Errors as KafkaError.

A topic gets the records with keys, values, headers and timestamps, in the partitions that they had, and with headers
that name the offset and the leader epoch that they had. Files get whole batches, byte for byte, under the names that
they would have in a log directory. So `kpybroker dump-log` shows them.

Invariant: when `export` returns, everything is acknowledged by all replicas in sync, or on disk.
"""

import os
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO, Final

from kpybroker.client import topic_requests, transactions
from kpybroker.client.appending import Appender
from kpybroker.client.client import Client, Spot
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.machines.mirror.divergence import ExportedPart
from kpywire.batch import CONTROL_MASK
from kpywire.record import Record, build_batch, read_batch

OFFSET_HEADER: Final = "kpybroker.diverged.offset"
EPOCH_HEADER: Final = "kpybroker.diverged.leader.epoch"
WAIT_MS: Final = 500
FOREVER: Final = -1
LARGEST_INT: Final = 0x7FFF_FFFF
LARGEST_LONG: Final = 0x7FFF_FFFF_FFFF_FFFF
CONFIGS: Final = {
    "cleanup.policy": "delete",
    "retention.ms": str(FOREVER),
    "retention.bytes": str(FOREVER),
    "message.timestamp.type": "CreateTime",
    "message.timestamp.after.max.ms": str(LARGEST_LONG),
    "max.message.bytes": str(LARGEST_INT),
}
"""The configs of a topic with exported records: none of them is refused, and none disappears."""


def free_name(client: Client, topic: str, date: str, directory: Path | None) -> str:
    """The topic, or the directory within ``directory``, for the records of a topic: one that does not exist yet."""
    taken = set(client.topic_names()) if directory is None else set(os.listdir(directory))
    name = wanted = f"{topic}.diverged-{date}"
    number = 1
    while name in taken:
        number += 1
        name = f"{wanted}-{number}"
    return name if directory is None else str(directory / name)


def export(client: Client, target: str, topic: str, parts: Iterable[ExportedPart]) -> list[ExportedPart]:
    """Copy these parts of a topic to a target of `free_name`. Return them with the numbers of their records."""
    wanted = {Spot(topic, each.partition): each for each in parts}
    if os.path.isabs(target):
        return _to_files(client, Path(target), wanted)
    count = len(client.topic(topic).partitions)
    topic_requests.create(client, target, count, -1, CONFIGS)
    return _to_topic(client, target, wanted)


def _reader(client: Client, wanted: dict[Spot, ExportedPart]) -> RecordReader:
    positions = {spot: part.first_offset for spot, part in wanted.items()}
    return RecordReader(client, positions, fetching=FetchSettings(max_wait_ms=WAIT_MS))


def _is_read(reader: RecordReader, wanted: dict[Spot, ExportedPart]) -> bool:
    """Return whether all parts are read. The reader does not ask again for those that are."""
    for spot in [spot for spot, position in reader.positions.items() if position >= wanted[spot].end_offset]:
        del reader.positions[spot]
    return not reader.positions


def _to_topic(client: Client, target: str, wanted: dict[Spot, ExportedPart]) -> list[ExportedPart]:
    appender = Appender(client, transactions.begin(client, None))
    counts = dict.fromkeys(wanted, 0)
    reader = _reader(client, wanted)
    while not _is_read(reader, wanted):
        copies: dict[Spot, list[bytes]] = {}
        for spot, header, batch in reader.poll_batches():
            if header.attributes & CONTROL_MASK:
                continue
            first = wanted[spot].first_offset
            records = [
                _named(record, header.partition_leader_epoch)
                for record in read_batch(batch, header)
                if record.offset >= first
            ]
            if records:
                copies.setdefault(Spot(target, spot.partition), []).append(build_batch(records, codec=header.codec))
                counts[spot] += len(records)
        appender.append(copies)
    return [part._replace(records=counts[spot]) for spot, part in wanted.items()]


def _named(record: Record, leader_epoch: int) -> Record:
    """The copy of a record, which takes the next offset."""
    added = ((OFFSET_HEADER, b"%d" % record.offset), (EPOCH_HEADER, b"%d" % leader_epoch))
    return record._replace(offset=-1, headers=(*record.headers, *added))


def _to_files(client: Client, directory: Path, wanted: dict[Spot, ExportedPart]) -> list[ExportedPart]:
    counts = dict.fromkeys(wanted, 0)
    directory.mkdir(parents=True)
    reader = _reader(client, wanted)
    with ExitStack() as closing:
        files: dict[Spot, BinaryIO] = {}
        for spot, part in wanted.items():
            (directory / str(spot)).mkdir()
            path = directory / str(spot) / f"{part.first_offset:020d}.log"
            files[spot] = closing.enter_context(path.open("xb"))
        while not _is_read(reader, wanted):
            for spot, header, batch in reader.poll_batches():
                files[spot].write(batch)
                if not header.attributes & CONTROL_MASK:
                    counts[spot] += header.record_count
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())
    for path in (*(directory / str(spot) for spot in wanted), directory, directory.parent):
        _fsync_directory(path)
    return [part._replace(records=counts[spot]) for spot, part in wanted.items()]


def _fsync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
