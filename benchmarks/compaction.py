"""``python -m benchmarks.compaction``: one pass over a log by Apache Kafka's cleaner and by ours, on the same machine.

Both compact fresh copies of the same log in turns, a JVM with the options of a broker that has been warmed up by whole
passes and this Python. It says nothing of a broker beside: that is a row of the table.
"""

import os
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import click
from rich.console import Console
from rich.table import Table

from kpystorage.compaction.cleaner import clean
from kpystorage.compaction.task import Cleaned, CleanerConfig, LogToClean
from kpystorage.disk import Disk
from kpystorage.log_config import LogConfig
from kpystorage.names import parse_segment_file
from kpystorage.real_disk import RealDisk
from kpystorage.segment import Segment
from kpywire.batch import parse_header
from kpywire.compression import NAMES
from kpywire.record import Record, build_batch
from oracle.cleaner import KafkaCleaner

NOW_MS: Final = 1_700_000_000_000
SEGMENT_BYTES: Final = 64 << 20
MAP_BYTES: Final = 128 << 20
LOAD_FACTOR: Final = 0.9
IO_BYTES: Final = 512 << 10
BROKER_JVM: Final = ("-Xmx1g", "-Xms1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20")
DRAWN: Final = 1000
"""How many different values there are."""


class Load(NamedTuple):
    """The contents of a log."""

    record_bytes: int
    records: int
    keys: int
    codec: int = 0
    batch_bytes: int = 16_000
    clean_share: float = 0
    """How much of it counts as compacted before: its records are sought in the map."""

    @property
    def name(self) -> str:
        batches = "" if self.batch_bytes > self.record_bytes else ", one to a batch"
        dirty = f", {self.clean_share:.0%} clean" if self.clean_share else ""
        return f"{self.record_bytes} B, {self.keys} keys, {NAMES[self.codec]}{batches}{dirty}"

    @property
    def first_dirty_offset(self) -> int:
        return int(self.records * self.clean_share)


LOADS = [
    *(
        Load(size, records, records // share, codec)
        for size, records in ((100, 600_000), (1000, 200_000))
        for share in (2, 600)
        for codec in (0, 3, 4)
    ),
    Load(100, 300_000, 1000, batch_bytes=0),
    Load(100, 300_000, 150_000, batch_bytes=0),
    Load(100, 600_000, 300_000, clean_share=0.5),
    Load(1000, 200_000, 100_000, clean_share=0.5),
]


def config() -> LogConfig:
    return LogConfig(segment_bytes=SEGMENT_BYTES, cleanup_compact=True, cleanup_delete=False)


def fill(disk: Disk, directory: Path, load: Load) -> int:
    """Write a log; the offset it ends at."""
    rng = random.Random(load.records)
    values = [words(rng, load.record_bytes - 30) for _ in range(DRAWN)]
    directory.mkdir(parents=True)
    segment = Segment.create(disk, str(directory), 0, NOW_MS, config())
    offset = 0
    per_batch = max(load.batch_bytes // load.record_bytes, 1)
    while offset < load.records:
        records = [
            Record(timestamp=NOW_MS + offset, key=b"key-%012d" % rng.randrange(load.keys), value=rng.choice(values))
            for _ in range(per_batch)
        ]
        batch = build_batch(records, base_offset=offset, partition_leader_epoch=0, codec=load.codec)
        if segment.size + len(batch) > SEGMENT_BYTES:
            segment.seal()
            segment.release()
            segment = Segment.create(disk, str(directory), offset, NOW_MS, config())
        segment.append([parse_header(batch)], batch)
        offset += per_batch
    segment.seal()
    segment.release()
    active = Segment.create(disk, str(directory), offset, NOW_MS, config())
    active.seal()
    active.release()
    return offset


def words(rng: random.Random, size: int) -> bytes:
    """Something that compresses to about half."""
    return b"".join(b"%06x-name " % rng.randrange(1 << 24) for _ in range(size // 12 + 1))[:size]


def task_of(directory: Path, first_dirty_offset: int, end_offset: int) -> LogToClean:
    parsed = [parse_segment_file(each.name) for each in directory.iterdir()]
    bases = sorted(found[0] for found in parsed if found is not None and found[1] == ".log")
    return LogToClean(
        str(directory), "t-0", tuple(bases[:-1]), first_dirty_offset, end_offset, end_offset, {}, config()
    )


def ours(disk: Disk, directory: Path, first_dirty_offset: int, end_offset: int) -> Cleaned:
    """A pass of ours, as the process beside a broker does it."""
    cleaner = CleanerConfig(MAP_BYTES, LOAD_FACTOR, IO_BYTES // 2)
    cleaning = clean(
        disk, task_of(directory, first_dirty_offset, end_offset), cleaner, NOW_MS, lambda _size_bytes: None
    )
    while True:
        try:
            next(cleaning)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def kafkas(cleaner: KafkaCleaner, directory: Path, first_dirty_offset: int, end_offset: int) -> float:
    """A pass of Kafka's; milliseconds."""
    settings: dict[str, object] = {"cleanup.policy": "compact", "segment.bytes": SEGMENT_BYTES}
    figures, _ = cleaner.compact(
        directory,
        settings,
        first_dirty_offset=first_dirty_offset,
        first_uncleanable_offset=end_offset,
        high_watermark=end_offset,
        now_ms=NOW_MS,
        map_bytes=MAP_BYTES,
        load_factor=LOAD_FACTOR,
        buffer_bytes=IO_BYTES // 2,
    )
    return figures.took_ns / 1e6


def copies(source: Path, target: Path) -> Iterator[Path]:
    """The same log again and again, each time as if nobody had touched it."""
    while True:
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(source, target)
        os.sync()
        yield target


@click.command()
@click.option("--rounds", default=5, show_default=True)
@click.option("--warm", default=3, show_default=True, help="Passes of Kafka's that are not counted.")
@click.option("--only", default="", help="The loads whose name contains this text.")
@click.option("--directory", type=click.Path(path_type=Path, file_okay=False), help="Where the logs are written.")
def main(rounds: int, warm: int, only: str, directory: Path | None) -> None:
    """Compact the same logs by Apache Kafka's cleaner and by ours."""
    disk = RealDisk()
    table = Table("log", "Kafka, M records/s", "ours, M records/s", "ours / Kafka", title_justify="left")
    with TemporaryDirectory(dir=directory) as scratch, KafkaCleaner(*BROKER_JVM) as cleaner:
        for number, load in enumerate(each for each in LOADS if only in each.name):
            source = Path(scratch, f"source-{number}")
            end_offset = fill(disk, source, load)
            fresh = copies(source, Path(scratch, "t-0"))
            for _ in range(warm):
                kafkas(cleaner, next(fresh), load.first_dirty_offset, end_offset)
            took: tuple[list[float], list[float]] = ([], [])
            for _ in range(rounds):
                took[0].append(kafkas(cleaner, next(fresh), load.first_dirty_offset, end_offset))
                passed = ours(disk, next(fresh), load.first_dirty_offset, end_offset)
                took[1].append(passed.stats.elapsed_ms)
            rates = [end_offset / median(each) / 1000 for each in took]
            table.add_row(load.name, *(f"{rate:.2f}" for rate in rates), f"{rates[1] / rates[0]:.2f}")
            shutil.rmtree(source)
    Console().print(table)


if __name__ == "__main__":
    main(prog_name="python -m benchmarks.compaction")
