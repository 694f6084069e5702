"""The recorder of a node's history: a sample every ten seconds, whether somebody looks or not.

It reads counters that exist, in pieces between which clients are served. What it has is written once a minute, in a
thread.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from kpybroker.machines.metadata.delta import MetadataDelta
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.monitoring.history import samples
from kpybroker.monitoring.history.changes import STARTED, events_in
from kpybroker.monitoring.history.group_lags import GroupLags
from kpybroker.monitoring.history.node_counters import NodeCounters
from kpybroker.monitoring.history.readings import CounterReading, between, read_counters
from kpybroker.monitoring.history.samples import FINE_MS, HistoryEvent, KeptSample, Rings, sample_of
from kpybroker.runtime.io.scheduler import Scheduler, Timer

if TYPE_CHECKING:
    from kpybroker.monitoring.history.file import HistoryFile

log = logging.getLogger("kpybroker.history")

WRITTEN_EVERY: Final = 6
"""The samples between two writes."""
READINGS: Final = 7
"""The readings of the last minute."""
PER_PIECE: Final = 200
"""The partitions that are counted between two places to pause."""

Subscribe = Callable[[Callable[[MetadataImage, MetadataDelta], None]], None]


class HistoryRecorder:
    """Records from now on. ``file``: where the history is kept; without one it is in memory only."""

    def __init__(
        self,
        node: NodeCounters,
        scheduler: Scheduler,
        subscribe: Subscribe,
        started_ms: int,
        file: "HistoryFile | None" = None,
    ) -> None:
        self.rings = Rings()
        self.readings: deque[CounterReading] = deque(maxlen=READINGS)
        self.groups = None if node.broker is None else GroupLags(node.broker)
        self.is_read = False
        """Whether the file has been read. Before that there is nothing to show."""
        self._when_read: list[Callable[[], object]] = []
        self._node = node
        self._scheduler = scheduler
        self._file = file
        self._added: list[KeptSample | HistoryEvent] = []
        self._finished: list[KeptSample] = []
        self._is_sampling = self._is_writing = self._is_closed = False
        self._counts_are_old = True
        self._unwell = (0, 0)
        self._began_ms = started_ms
        self._samples = 0
        self._timer: Timer | None = None
        self.readings.append(read_counters(node, scheduler.monotonic_ms()))
        subscribe(self._changed)
        self._arm()
        if file is None:
            self._adopt(Rings(), None)
        else:
            self._is_writing = True
            scheduler.submit_upkeep(file.read, self._adopt)

    def when_read(self, call: Callable[[], object]) -> None:
        """Call this once the file has been read."""
        self._when_read.append(call)

    def last_minute(self) -> tuple[Mapping[str, float], float]:
        """The rates of the last minute until now, and how long that was in s."""
        before, now = self.readings[0], read_counters(self._node, self._scheduler.monotonic_ms())
        return between(before, now), (now.monotonic_ms - before.monotonic_ms) / 1000

    def close(self) -> None:
        """Write what is not written yet, and end."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._is_closed = True
        if self._file is not None and not self._is_writing:
            self._file.write(self.rings, self._added, self._finished)
            self._file.close()

    def _adopt(self, found: Rings | None, error: BaseException | None) -> None:
        """Go on with the history of the file, behind it what was seen meanwhile."""
        self._is_writing = False
        if error is not None:
            log.error("The history cannot be read: %s", error)
        seen, self.rings = self.rings, found or Rings()
        self._note(HistoryEvent(self._began_ms, STARTED, str(self._node.role.node_id)))
        for event in seen.events:
            self.rings.note(event)
        for sample in seen.fine:
            self.rings.add(sample)
        self.is_read = True
        for call in self._when_read:
            call()

    def _arm(self) -> None:
        """Take the next sample at the next multiple of ten seconds."""
        left_ms = FINE_MS - self._scheduler.now_ms() % FINE_MS
        too_soon = left_ms < FINE_MS / 2  # a timer may be early
        self._timer = self._scheduler.call_later(left_ms + (FINE_MS if too_soon else 0), self._due)

    def _due(self) -> None:
        self._arm()
        if not self._is_sampling:
            self._is_sampling = True
            self._scheduler.in_pieces(self._sample())

    def _sample(self) -> Iterator[None]:
        """Take a sample. Every step is a place to pause."""
        try:
            at_ms = round(self._scheduler.now_ms() / FINE_MS) * FINE_MS
            reading = read_counters(self._node, self._scheduler.monotonic_ms())
            values = between(self.readings[-1], reading)
            self.readings.append(reading)
            values[samples.LATE] *= 1000
            values[samples.COLLECTOR] *= 1000
            yield
            if self.groups is not None:
                yield from self.groups.round()
            if self._counts_are_old:
                yield from self._count()
            values[samples.WITHOUT_LEADER], values[samples.UNDER_REPLICATED] = self._unwell
            before = self.rings.fine[-1] if self.rings.fine else None
            lags = {} if self.groups is None else self.groups.lags
            self._add(sample_of(at_ms, values, lags, before))
        finally:
            self._is_sampling = False

    def _add(self, sample: KeptSample) -> None:
        finished = self.rings.add(sample)
        if self._is_closed or self._file is None:
            return
        self._added.append(sample)
        if finished is not None:
            self._finished.append(finished)
        self._samples += 1
        if self._samples % WRITTEN_EVERY == 0 and not self._is_writing:
            self._write(self._file)

    def _write(self, file: "HistoryFile") -> None:
        added, self._added = self._added, []
        finished, self._finished = self._finished, []
        self._is_writing = True
        self._scheduler.submit_upkeep(lambda: file.write(self.rings, added, finished), self._written)

    def _written(self, _: None, error: BaseException | None) -> None:
        self._is_writing = False
        if error is not None:
            log.error("The history cannot be written: %s", error)

    def _note(self, event: HistoryEvent) -> None:
        self.rings.note(event)
        if self._file is not None:
            self._added.append(event)

    def _changed(self, image: MetadataImage, delta: MetadataDelta) -> None:
        """Note a change of the metadata, unless this node only catches up with it, or stops."""
        if delta.partitions or delta.deleted_topics:
            self._counts_are_old = True
        if self._is_closed or self._node.role.unready is not None:
            return
        for event in events_in(self._scheduler.now_ms(), image, delta):
            self._note(event)

    def _count(self) -> Iterator[None]:
        """Count the partitions that are not well. Only where some have changed since."""
        self._counts_are_old = False
        without_leader = under_replicated = seen = 0
        for topic in list(self._node.role.image.topics.values()):
            for partition in list(topic.partitions.values()):
                if partition.leader < 0:
                    without_leader += 1
                elif len(partition.isr) < len(partition.replicas) - len(partition.adding_replicas):
                    under_replicated += 1
                seen += 1
                if seen % PER_PIECE == 0:
                    yield
        self._unwell = without_leader, under_replicated
