"""Appending to a log and reading its tail, with real files in a temporary directory."""

import random
import tempfile
from collections.abc import Iterator
from time import time

from benchmarks.micro.clock import Operation
from benchmarks.raw import frames
from kpystorage.directory import LogDirectory
from kpystorage.log import Log
from kpystorage.log_config import LogConfig
from kpystorage.real_disk import RealDisk
from kpystorage.real_file import Descriptors
from kpywire.batch import parse_header, stamp_offset_and_epoch

OPEN_FILES = 512
FETCH_BYTES = 1 << 20


def operations() -> Iterator[Operation]:
    now_ms = int(time() * 1000)
    config = LogConfig()
    with tempfile.TemporaryDirectory(prefix="kpymicro-") as path:
        directory = LogDirectory(path, RealDisk(Descriptors(OPEN_FILES)), random.Random(1), lambda _: None, config)
        directory.open(now_ms)
        for number, (name, batch) in enumerate(batches(now_ms)):
            log = directory.create_log("micro", number, bytes(16), config, now_ms)
            yield appending(name, log, bytearray(batch), now_ms)
            yield reading_the_tail(name, log, bytearray(batch), now_ms)
        directory.abandon()


def batches(now_ms: int) -> Iterator[tuple[str, bytes]]:
    yield "a batch of 213 B", frames.batch_of_bytes(213, now_ms)
    yield "a batch of 16 KB", frames.batch([b"x" * 100] * 150, now_ms)


def append(log: Log, batch: bytearray, now_ms: int) -> None:
    stamp_offset_and_epoch(batch, 0, log.end.offset, 0)
    log.append([parse_header(batch)], batch, now_ms)


def appending(name: str, log: Log, batch: bytearray, now_ms: int) -> Operation:
    return Operation(f"stamp, parse and append {name}", lambda: append(log, batch, now_ms))


def reading_the_tail(name: str, log: Log, batch: bytearray, now_ms: int) -> Operation:
    def append_and_read() -> None:
        before = log.end.offset
        append(log, batch, now_ms)
        found = log.read(before, FETCH_BYTES, log.end, min_one_batch=True)
        assert found is not None

    return Operation(f"the same, and read {name} at the tail", append_and_read)
