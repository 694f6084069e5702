"""Log directories, logs and batches for the tests of storage."""

from collections.abc import Callable
from random import Random

from kpystorage.directory import LogDirectory
from kpystorage.disk import Disk
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire.batch import BatchHeader, parse_header
from kpywire.record import Record, build_batch
from kpywire.varint import Buffer

NOW_MS = 1_700_000_000_000
TOPIC_ID = bytes(range(16))
PATH = "/data"


def quiet(_line: str) -> None:
    """A report that nobody reads."""


def open_directory(
    disk: Disk | None = None,
    path: str = PATH,
    *,
    config: LogConfig | None = None,
    report: Callable[[str], None] = quiet,
    recover: bool = True,
    now_ms: int = NOW_MS,
) -> LogDirectory:
    """An opened log directory, on a disk in memory unless another is given; all its logs are recovered if need be."""
    if disk is None:
        disk = MemoryDisk()
        disk.make_directory(path)
    directory = LogDirectory(path, disk, Random(7), report, config or LogConfig())
    directory.open(now_ms)
    if recover:
        for _ in directory.recover():
            pass
    return directory


def make_log(config: LogConfig | None = None, topic: str = "t", partition: int = 0) -> Log:
    """A new log on a disk in memory."""
    return open_directory().create_log(topic, partition, TOPIC_ID, config or LogConfig(), NOW_MS)


def make_batch(
    base_offset: int,
    count: int = 1,
    *,
    value_bytes: int = 100,
    timestamp: int = NOW_MS,
    leader_epoch: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    transactional: bool = False,
) -> bytes:
    """A batch of ``count`` records, one ms apart, whose values begin with their offset."""
    records = [
        Record(timestamp=timestamp + number, value=f"{base_offset + number}".encode().ljust(value_bytes, b"."))
        for number in range(count)
    ]
    has_producer = producer_id >= 0
    return build_batch(
        records,
        base_offset=base_offset,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch if has_producer else -1,
        base_sequence=base_sequence if has_producer else -1,
        transactional=transactional,
    )


def make_marker(
    offset: int,
    producer_id: int,
    *,
    commit: bool,
    producer_epoch: int = 0,
    coordinator_epoch: int = 0,
    leader_epoch: int = 0,
    timestamp: int = NOW_MS,
) -> bytes:
    """A control batch that ends a transaction."""
    key = b"\0\0" + (1 if commit else 0).to_bytes(2, "big")
    value = b"\0\0" + coordinator_epoch.to_bytes(4, "big")
    return build_batch(
        [Record(timestamp=timestamp, key=key, value=value)],
        base_offset=offset,
        partition_leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=-1,
        transactional=True,
        control=True,
    )


def headers_of(data: Buffer) -> list[BatchHeader]:
    """The headers of the batches in ``data``."""
    headers = []
    position = 0
    while position < len(data):
        headers.append(parse_header(data, position))
        position += headers[-1].size
    return headers


def append(log: Log, *batches: bytes, now_ms: int = NOW_MS) -> None:
    """Append batches in one call."""
    data = b"".join(batches)
    log.append(headers_of(data), data, now_ms)


def append_records(log: Log, count: int, **batch: int) -> None:
    """Append one batch of ``count`` records at the log end."""
    append(log, make_batch(log.end.offset, count, **batch))


def all_bytes(log: Log) -> bytes:
    """Everything in a log from its start on, as a reader gets it piece by piece."""
    pieces = []
    offset = log.open().log_start_offset
    while offset < log.end.offset:
        part = log.read(offset, 1 << 20, log.end, min_one_batch=True)
        if part is None:
            break
        data = part.read()
        whole = 0
        for header in headers_of_whole(data):
            whole += header.size
            offset = header.next_offset
        pieces.append(data[:whole])
    return b"".join(pieces)


def headers_of_whole(data: bytes) -> list[BatchHeader]:
    """The headers of the batches that lie in ``data`` to their end."""
    headers = []
    position = 0
    while position + 61 <= len(data):
        header = parse_header(data, position)
        if position + header.size > len(data):
            break
        headers.append(header)
        position += header.size
    return headers
