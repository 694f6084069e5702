"""Readers at the tail while others read what is not in memory."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.figures import Figure
from benchmarks.raw import frames, load
from benchmarks.raw.load import Load
from benchmarks.rows.requesting import P50, P99, P999, RawRow, percentiles, tail
from benchmarks.rows.row import Effort, RoundError
from benchmarks.sides import Side

COLD_RATE = Figure("cold readers together", "MB/s", True)
READERS = 2
BATCH_BYTES = 100_000
BATCHES_PER_FETCH = 10
COLD_SHARE = 2 / 3
"""The share of the effort's megabytes that lies in the cold partition."""
FORGET_EVERY_S = 0.1
TAIL_PERIOD_US = 2_000
"""Both sides have as many records at the tail to serve: the sooner one would else have less time for the cold ones."""


class TailBesideCold(RawRow):
    """A record every two milliseconds to a waiting Fetch, while two connections read a partition from the disk.

    Ten times a second the kernel drops that partition's files from its cache.
    """

    key = "tail-beside-cold"
    title = "end to end while two others read cold data"
    figures = (P50, P99, P999, COLD_RATE)

    def __init__(self, effort: Effort) -> None:
        super().__init__(effort)
        self.cold: dict[Side, str] = {}

    @property
    def batches(self) -> int:
        return max(BATCHES_PER_FETCH * READERS * 4, int(self.effort.produced_mb * COLD_SHARE * 1e6 / BATCH_BYTES))

    def open(self, side: Side) -> None:
        super().open(side)
        topic = self.cold[side] = side.create_topic("cold", 1)
        produce = frames.produce(topic, [0], frames.batch_of_bytes(BATCH_BYTES, int(time.time() * 1000)))
        while side.record_count(topic, 1) < self.batches:
            load.requests(side.address, [produce], connections=1, seconds=0.3)
        if not list(self.files(side)):
            raise RoundError(f"{side.program}: the files of {topic} are not found")

    def files(self, side: Side) -> Iterator[Path]:
        return (side.directory / "broker").glob(f"**/{self.cold[side]}-0/*.log")

    def play(self, side: Side) -> dict[str, float]:
        readers = [Reader(self, side, number) for number in range(READERS)]
        with forgetting(list(self.files(side))):
            for reader in readers:
                reader.start()
            time.sleep(FORGET_EVERY_S)
            seen = self.last[side] = tail(side, self.topics[side], self.effort.load_s, TAIL_PERIOD_US)
            for reader in readers:
                reader.join()
        rates = [reader.seen.received_bytes / reader.seen.seconds / 1e6 for reader in readers if reader.seen]
        if len(rates) < READERS:
            raise RoundError(f"{side.program}: a cold reader failed: {[reader.problem for reader in readers]}")
        return {**percentiles(seen), COLD_RATE.name: sum(rates)}

    def close(self, side: Side) -> None:
        super().close(side)
        side.delete_topic(self.cold.pop(side))


class Reader(threading.Thread):
    """Runs a load generator that reads its own half of the cold partition again and again."""

    def __init__(self, row: TailBesideCold, side: Side, number: int) -> None:
        super().__init__(name=f"cold reader {number}")
        self.row, self.side, self.number = row, side, number
        self.seen: Load | None = None
        self.problem: Exception | None = None

    def run(self) -> None:
        size = BATCH_BYTES * BATCHES_PER_FETCH
        fetch = frames.fetch(self.row.cold[self.side], 0, 0, max_bytes=size, min_bytes=1, max_wait_ms=500)
        each = self.row.batches // READERS
        offsets = range(self.number * each, (self.number + 1) * each - BATCHES_PER_FETCH, BATCHES_PER_FETCH)
        try:
            self.seen = load.drain(self.side.address, fetch, offsets, seconds=self.row.effort.load_s + FORGET_EVERY_S)
        except (load.LoadError, OSError) as problem:
            self.problem = problem


@contextmanager
def forgetting(paths: list[Path]) -> Iterator[None]:
    """Keeps the files out of the page cache."""
    over = threading.Event()
    for path in paths:
        forget(path, flush=True)

    def again() -> None:
        while not over.wait(FORGET_EVERY_S):
            for path in paths:
                forget(path, flush=False)

    thread = threading.Thread(target=again, name="forgetting")
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def forget(path: Path, *, flush: bool) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if flush:
            os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)
