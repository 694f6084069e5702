"""The figures of tiered storage: counters that only grow, by topic, and the state of each partition that is led here.

The parts of tiered storage count in place; metrics, the console and the command line read. All on the event loop.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from kpybroker.machines.remote_log.copying import CopyLag, Wait

NOTHING_BEHIND: Final = CopyLag(0, 0)


class TopicTierFigures:
    """The counters of one topic. Kafka's names of each are in `kpybroker.monitoring.metrics.tiering`."""

    __slots__ = (
        "aux_state_errors",
        "aux_states",
        "copied_bytes",
        "copies",
        "copy_errors",
        "delete_errors",
        "deletes",
        "fetch_errors",
        "fetched_bytes",
        "fetches",
    )

    def __init__(self) -> None:
        self.copied_bytes = 0
        """The bytes of log files that were copied completely."""
        self.copies = 0
        """The copies that began."""
        self.copy_errors = 0
        self.fetched_bytes = 0
        """The bytes of records that clients got from the store."""
        self.fetches = 0
        """The reads for clients that began."""
        self.fetch_errors = 0
        self.deletes = 0
        """The deletions of segments that began."""
        self.delete_errors = 0
        self.aux_states = 0
        """The logs that were made to begin in the middle, as begun."""
        self.aux_state_errors = 0

    def counts(self) -> tuple[int, ...]:
        """All counters, in the order of their names."""
        return tuple([getattr(self, name) for name in self.__slots__])


COUNTED: Final = TopicTierFigures.__slots__
"""The names of the counters, in the order of `TopicTierFigures.counts`."""


class PoolFigures:
    """The use of a pool of threads, of which some work and some tasks wait."""

    __slots__ = ("busy", "threads", "waiting")

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.busy = 0
        self.waiting = 0

    @property
    def idle_share(self) -> float:
        """The share of its threads that do nothing now, as Kafka counts it: 1.0 if all do nothing."""
        return max(0.0, 1 - self.busy / self.threads) if self.threads else 1.0


class ReadTimes:
    """The time that reads of the store took: how many, and milliseconds in all."""

    __slots__ = ("count", "total_ms")

    def __init__(self) -> None:
        self.count = 0
        self.total_ms = 0.0

    def add(self, took_ms: float) -> None:
        """Count one read."""
        self.count += 1
        self.total_ms += took_ms


class TierState(NamedTuple):
    """The state of one partition that this node leads. Offsets are those of the next record unless they say "last"."""

    topic: str
    partition: int
    log_start: int
    local_log_start: int
    end: int
    copied: int
    """The last offset that is copied, -1 if there is none."""
    local_bytes: int
    remote_bytes: int
    """The bytes of the log files in the store, of segments in every state but the last."""
    segments: int
    """The segments in the store, in every state but the last (RemoteLogMetadataCount)."""
    copy_lag: CopyLag
    delete_lag: CopyLag
    """The segments that retention has given up and the store still has."""
    wait: Wait | None
    """None if a copy may begin now, or if the metadata are still being read."""
    reason: str
    """Why no copy begins, in words; empty if one may."""
    until_ms: int | None
    """The time by the monotonic clock when the wait ends by itself."""
    last_error: str
    """The reason of the last failure of a copy, a deletion or a read; empty since the last success."""
    unfinished: int
    """The copies that began and have neither ended nor been given up."""
    is_ready: bool = True
    """Whether the metadata of the partition have been read to their end."""
    size_computation_ms: int = 0
    """The time that the last computation of the size took (RemoteLogSizeComputationTime)."""


class TierFigures:
    """The counters of all topics, and those of the node."""

    def __init__(self, reader_threads: int = 10, manager_threads: int = 10) -> None:
        self._topics: dict[str, TopicTierFigures] = {}
        self._gone = [0] * len(COUNTED)
        self.expired_fetches = 0
        """The Fetch requests that were answered because they had waited for as long as they may."""
        self.expired_list_offsets: dict[str, int] = {}
        """The lookups of offsets that took too long, by partition, such as orders-0."""
        self.readers = PoolFigures(reader_threads)
        self.managers = PoolFigures(manager_threads)
        self.read_ms = ReadTimes()

    def of(self, topic: str) -> TopicTierFigures:
        """The counters of a topic."""
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicTierFigures()
        return found

    def forget(self, topic: str) -> None:
        """Drop the counters of a topic that is deleted; the sums keep them."""
        found = self._topics.pop(topic, None)
        if found is not None:
            self._gone = [before + more for before, more in zip(self._gone, found.counts(), strict=True)]

    def by_topic(self) -> list[tuple[str, tuple[int, ...]]]:
        """The counters of each topic, by name."""
        return [(topic, found.counts()) for topic, found in sorted(self._topics.items())]

    def sums(self) -> tuple[int, ...]:
        """The counters over all topics, also deleted ones."""
        columns = zip(self._gone, *(found.counts() for found in self._topics.values()), strict=True)
        return tuple([sum(column) for column in columns])


class ThrottleTimes(NamedTuple):
    """The average and the longest time that the quotas made copies and reads wait lately, in ms."""

    copy_mean: float = 0.0
    copy_max: int = 0
    fetch_mean: float = 0.0
    fetch_max: int = 0


class TierView(Protocol):
    """The tiered storage of a broker, as metrics and the console see it."""

    @property
    def figures(self) -> TierFigures: ...

    @property
    def store(self) -> str:
        """The store in words without secrets, such as s3://bucket/prefix."""

    @property
    def store_error(self) -> str:
        """The reason why the last call to the store failed; empty if it did not."""

    def states(self) -> Iterator[TierState]:
        """The partitions of tiered topics that this node leads."""

    def throttle_times(self) -> ThrottleTimes: ...
