"""The store of a broker, for ``kpybroker tiers check`` and ``kpybroker check``: opened by its configs, and read."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import click

from kpybroker.cli.tier_proof import KeyedRecord
from kpybroker.config.remote_storage import LocalTieredSettings, RemoteStorageSettings
from kpybroker.hosts.remote_log.remote_storage import RemoteStorage, StoreFailed
from kpybroker.hosts.remote_log.segment_reads import SegmentFile
from kpybroker.machines.remote_log.segments import RemoteLogSegment
from kpybroker.pipeline.tiers.stores import BadStore, store_of_file
from kpystorage import scan
from kpystorage.errors import CorruptObject
from kpywire.batch import HEADER_BYTES, MAGIC, BatchHeader, check_crc, parse_header
from kpywire.errors import Malformed
from kpywire.record import read_batch

STEP_BYTES: Final = 4 << 20
"""The bytes that are read at once."""


@contextmanager
def opened_store(path: Path) -> Iterator[tuple[RemoteStorage, bool]]:
    """The store that a file configures, and whether logs are stored there as they are. Its errors become click's."""
    try:
        store = store_of_file(path)
        storage = store.opened()
    except BadStore as error:
        raise click.UsageError(str(error)) from None
    try:
        yield storage, _is_plain(store.settings)
    except StoreFailed as error:
        raise click.ClickException(str(error)) from None
    finally:
        store.close()


def _is_plain(settings: RemoteStorageSettings) -> bool:
    if isinstance(settings, LocalTieredSettings):
        return True
    return not settings.compresses and settings.encryption is None


def keys_of(storage: RemoteStorage, segment: RemoteLogSegment) -> Iterator[KeyedRecord]:
    """The keys of a segment, up to what cannot be read, which `problem_of` reports."""
    with suppress(StoreFailed, CorruptObject, Malformed):
        for _, header, data in scan.batches(SegmentFile(storage, segment), 0, segment.size_bytes):
            for record in () if header.is_control else read_batch(data, header):
                if record.key is not None:
                    yield KeyedRecord(record.offset, record.key)


def problem_of(storage: RemoteStorage, segment: RemoteLogSegment) -> str | None:
    """The first thing that is wrong with a segment: it is read as a whole, and each batch is compared with its CRC."""
    found, at, offset = b"", 0, segment.start_offset
    try:
        while at < segment.size_bytes:
            piece = storage.read(segment, at, min(at + STEP_BYTES, segment.size_bytes))
            if not piece:
                return f"its log ends at byte {at} of {segment.size_bytes}"
            at += len(piece)
            found, offset = _checked(found + piece, offset)
    except (StoreFailed, CorruptObject, Malformed) as error:
        return str(error)
    if found:
        return f"its last {len(found)} bytes are no batch"
    if offset > segment.next_offset:
        return f"its records end at offset {offset - 1}, the metadata say {segment.end_offset}"
    return None


def _checked(data: bytes, offset: int) -> tuple[bytes, int]:
    """The bytes of a last batch that is not whole, and the offset that follows those before it. Malformed."""
    position = 0
    while len(data) - position >= HEADER_BYTES:
        header = parse_header(data, position)
        if position + header.size > len(data):
            break
        _check(data, header, position, offset)
        position, offset = position + header.size, header.next_offset
    return data[position:], offset


def _check(data: bytes, header: BatchHeader, position: int, offset: int) -> None:
    if header.base_offset < offset:
        raise Malformed(f"a batch begins at offset {header.base_offset}, where {offset} or more should follow")
    if header.magic == MAGIC and not check_crc(data, header, position):
        raise Malformed(f"the batch at offset {header.base_offset} has a wrong CRC")
