"""The audit's map step: a walk over batches in the page cache, beside a bare loop of reads and checksums; then whole
audits with one process and with two."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from struct import Struct
from time import perf_counter, time

from benchmarks.micro.clock import Operation
from benchmarks.raw import frames
from kpybroker.machines.audit.running import AuditScope, audit
from kpybroker.machines.audit.work import Mapped
from kpybroker.pipeline.audit.directories import AuditedDirectories
from kpybroker.pipeline.audit.mapping import in_processes
from kpybroker.pipeline.audit.segment_reading import WINDOW_BYTES
from kpystorage import names
from kpywire.batch import ATTRIBUTES_POSITION, HEADER, HEADER_BYTES, LENGTH_END, stamp_offset_and_epoch
from kpywire.crc import crc32c

RECORDS = 130
RECORD_BYTES = 1000
BATCHES = 2000
COPIES = 64
ENTRY = Struct(">ii")


def operations() -> Iterator[Operation]:
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home) / "t-0"
        directory.mkdir()
        path = directory / f"{0:020d}.log"
        size = write(path)
        source = AuditedDirectories([home])
        (replica,) = source.replicas(())
        (task,) = source.tasks(replica, 0, deep=False)
        (deep,) = source.tasks(replica, 0, deep=True)
        megabytes = size // 1_000_000
        descriptor = os.open(path, os.O_RDONLY)
        name = f"batches of {size // BATCHES // 1000} KB"
        yield Operation(f"reads and CRCs alone, {name}", lambda: bare(descriptor, size), per=megabytes, unit="MB")
        yield Operation(f"audit, {name}", lambda: source.read(task), per=megabytes, unit="MB")
        yield Operation(f"audit --deep, {name}", lambda: source.read(deep), per=megabytes, unit="MB")
        os.close(descriptor)
    yield from over_processes()


def over_processes() -> Iterator[Operation]:
    """Whole audits with one process and with two, by the clock on the wall: second names of one file are its pieces.

    The broker has shut down, so indexes are compared too.
    """
    with tempfile.TemporaryDirectory() as home:
        logs = [Path(home) / f"t-{number}" / f"{0:020d}.log" for number in range(COPIES)]
        for name in logs:
            name.parent.mkdir()
        size = write(logs[0])
        for name in logs[1:]:
            name.hardlink_to(logs[0])
            index_of(name).hardlink_to(index_of(logs[0]))
        (Path(home) / names.CLEAN_SHUTDOWN).touch()
        source = AuditedDirectories([home])
        megabytes = COPIES * size // 1_000_000
        for processes in (1, 2):
            mapped = in_processes(processes)

            def whole(mapped: Mapped = mapped) -> None:
                result = audit(source, AuditScope(), mapped, lambda _: None, lambda _: None)
                assert result.partitions == COPIES

            title = f"audit with {processes} process{'es' if processes > 1 else ''}, wall"
            yield Operation(title, whole, per=megabytes, unit="MB", clock=perf_counter)


def write(path: Path) -> int:
    """Write a log of equal batches, and its offset index. Return the size of the log."""
    batch = bytearray(frames.batch([os.urandom(RECORD_BYTES) for _ in range(RECORDS)], int(time() * 1000)))
    entries = bytearray()
    with path.open("wb") as file:
        for number in range(BATCHES):
            entries += ENTRY.pack((number + 1) * RECORDS - 1, file.tell())
            stamp_offset_and_epoch(batch, 0, number * RECORDS, 0)
            file.write(batch)
    index_of(path).write_bytes(entries[ENTRY.size :])  # a first batch gets no entry
    return path.stat().st_size


def index_of(path: Path) -> Path:
    """The offset index of a segment."""
    return path.with_suffix(names.OFFSET_INDEX)


def bare(descriptor: int, size: int) -> None:
    """Read all batches and compare their checksums."""
    position = 0
    while position < size:
        window = memoryview(os.pread(descriptor, WINDOW_BYTES, position))
        at = 0
        while at + HEADER_BYTES <= len(window):
            fields = HEADER.unpack_from(window, at)
            end = at + fields[1] + LENGTH_END
            if end > len(window):
                break
            assert crc32c(window[at + ATTRIBUTES_POSITION : end]) == fields[4]
            at = end
        position += at
