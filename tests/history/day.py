"""Samples of a day, and a node whose counters a test sets."""

from collections.abc import Callable, Iterator
from random import Random
from types import SimpleNamespace
from typing import Any

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.monitoring.history.file import HistoryFile
from kpybroker.monitoring.history.recorder import HistoryRecorder
from kpybroker.monitoring.history.samples import FINE_MS, MEASURES, KeptSample, SampledLag, sample_of
from kpybroker.runtime.counters import BUCKETS, ApiCounters
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpystorage.directory import LogDirectory
from kpystorage.log_config import LogConfig
from kpystorage.memory_disk import MemoryDisk
from kpywire import api

START_MS = 1_700_000_000_000 // 60_000 * 60_000
PLACE = "/data/.kpybroker_history"


def samples(count: int, groups: int = 3, since_ms: int = START_MS) -> Iterator[KeptSample]:
    """Samples ten seconds apart, each with its number as every value."""
    before = None
    for number in range(1, count + 1):
        lags = {f"group-{each}": SampledLag(number, each) for each in range(groups)}
        before = sample_of(since_ms + number * FINE_MS, dict.fromkeys(MEASURES, float(number)), lags, before)
        yield before


def directory(disk: MemoryDisk) -> LogDirectory:
    """A log directory on this disk."""
    if disk.status("/data") is None:
        disk.make_directory("/data")
    return LogDirectory("/data", disk, Random(1), print, LogConfig())


class CountingNode:
    """A node that is only a controller: its counters are what a test sets."""

    def __init__(self, disk: MemoryDisk | None, now_ms: int = START_MS) -> None:
        self.scheduler = ManualScheduler(now_ms)
        self.image = MetadataImage("a-cluster")
        self.role = SimpleNamespace(node_id=1, image=self.image, is_controller_role=True, unready=None)
        self.watch = SimpleNamespace(late_ns=0, gc_ns=0, lateness=[0] * BUCKETS)
        self.produce = ApiCounters().prepare()
        self.subscribers: list[Callable[[MetadataImage, MetadataDelta], None]] = []
        self.file = None if disk is None else HistoryFile(directory(disk))
        counters: Any = SimpleNamespace(
            role=self.role,
            broker=None,
            dispatcher=SimpleNamespace(counters={api.PRODUCE: self.produce}),
            watch=self.watch,
            held_topics=tuple,
        )
        self.recorder = HistoryRecorder(counters, self.scheduler, self.subscribers.append, now_ms, self.file)

    def serve(self, requests: int, took_ns: int = 1_000_000) -> None:
        """Count some requests."""
        self.produce.total[(took_ns * took_ns).bit_length()] += requests

    def change(self, *records: Any) -> None:
        """Apply committed records of the metadata."""
        delta = MetadataDelta(self.image.next_offset)
        for record in records:
            self.image.apply(record, self.image.next_offset, delta)
        for call in self.subscribers:
            call(self.image, delta)
