"""A cluster as scans see it: which partitions there are, their offsets, and how large their records are."""

import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Final

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot, raise_for
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.scan import bounds, ranges
from kpybroker.machines.scan.bounds import Bound, LogRange
from kpybroker.machines.scan.errors import UnknownTopic
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.machines.scan.topics import Assigned, Matching, Subscribed, Topics
from kpybroker.pipeline.scan.fetching import ScanFetching, fetch
from kpywire import error_codes
from kpywire.batch import batch_headers
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.messages.metadata import MetadataResponseTopic

MOST_SAMPLES: Final = 8
SAMPLE: Final = ScanFetching(max_bytes=256 * 1024, max_wait_ms=0)
UNKNOWN_BYTES: Final = 1000.0
"""The size of an offset where nothing is known about it."""


class ScannedCluster:
    """The answers of a cluster about the topics of a scan."""

    def __init__(
        self, client: Client, topics: Topics, *, committed_only: bool, attempts: int = 1, pause_s: float = 0.0
    ) -> None:
        """``attempts``: how often a topic that does not exist is asked for, with pauses of ``pause_s``: it may be
        created in this moment, or be known to another broker."""
        self.client = client
        self._attempts = attempts
        self._pause_s = pause_s
        self._topics = topics
        self._committed_only = committed_only

    def partitions(self) -> dict[ranges.Spot, bytes]:
        """All partitions that are to be read now, with the ids of their topics. Raises ScanError, KafkaError,
        Unreachable."""
        for _ in range(1, self._attempts):
            with suppress(UnknownTopic):
                return self.client.retrying(self._partitions)
            time.sleep(self._pause_s)
        return self.client.retrying(self._partitions)

    def _partitions(self) -> dict[ranges.Spot, bytes]:
        match self._topics:
            case Subscribed(names):
                found = self.client.topics(names)
            case Assigned(partitions):
                found = self.client.topics(partitions)
            case Matching() as pattern:
                everything = self.client.topics()
                found = [each for each in everything if not each.is_internal and pattern.takes(each.name or "")]
        spots: dict[ranges.Spot, bytes] = {}
        for topic in found:
            self._check(topic)
            self.client.remember([topic])  # later requests have to know the same partitions
            name = topic.name or ""
            there = [part.partition_index for part in topic.partitions]
            chosen = self._topics.partitions[name] if isinstance(self._topics, Assigned) else there
            for partition in set(chosen) & set(there):
                spots[Spot(name, partition)] = topic.topic_id
        return spots

    def _check(self, topic: MetadataResponseTopic) -> None:
        if topic.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
            raise UnknownTopic(
                f"UNKNOWN_TOPIC_OR_PARTITION: topic {topic.name} does not exist. Reading creates no topics; "
                f"kpybroker topics create {topic.name} does."
            )
        raise_for(topic.error_code, f"topic {topic.name}")

    def firsts(self, spots: Iterable[ranges.Spot]) -> dict[ranges.Spot, int]:
        """The first offset of each partition."""
        return self._asked(dict.fromkeys(spots, EARLIEST_TIMESTAMP))

    def ends(self, spots: Iterable[ranges.Spot]) -> dict[ranges.Spot, int]:
        """The offset up to which each partition can be read."""
        return self._asked(dict.fromkeys(spots, LATEST_TIMESTAMP))

    def logs(self, spots: Iterable[ranges.Spot]) -> dict[ranges.Spot, LogRange]:
        """The offsets that each partition has."""
        wanted = list(spots)
        firsts, ends = self.firsts(wanted), self.ends(wanted)
        return {spot: LogRange(firsts[spot], ends[spot]) for spot in wanted}

    def resolved(self, bound: Bound, logs: Mapping[ranges.Spot, LogRange]) -> dict[ranges.Spot, int]:
        """The offset of a bound in each partition. Raises ScanError, KafkaError, Unreachable."""
        return bounds.resolved(bound, logs, self._asked(bounds.questions(bound, logs)))

    def at_times(self, times_ms: Mapping[ranges.Spot, int]) -> dict[ranges.Spot, int]:
        """The offset of the first record that is as late as the time, -1 where there is none."""
        return self._asked(times_ms)

    def _asked(self, times_ms: Mapping[ranges.Spot, int]) -> dict[ranges.Spot, int]:
        if not times_ms:
            return {}
        asked = {Spot(*spot): time_ms for spot, time_ms in times_ms.items()}
        return dict(self.client.list_offsets(asked, committed_only=self._committed_only).items())

    def offset_bytes(
        self, spots: Mapping[ranges.Spot, bytes], logs: Mapping[ranges.Spot, LogRange]
    ) -> dict[ranges.Spot, float]:
        """The mean size of an offset in each partition: from the sizes of logs where the cluster reports them, else
        from samples."""
        logs = {spot: log for spot, log in logs.items() if log.end > log.start}
        if not logs:
            return {}
        try:
            sizes = self.client.retrying(lambda: self._log_sizes(logs))
        except KafkaError:  # not permitted, or not known to this broker
            sizes = {}
        if len(sizes) == len(logs):
            return {spot: sizes[spot] / (log.end - log.start) for spot, log in logs.items()}
        return self._sampled(spots, logs)

    def _log_sizes(self, logs: Iterable[ranges.Spot]) -> dict[ranges.Spot, int]:
        sizes: dict[ranges.Spot, int] = {}
        for node_id, spots in self.client.by_leader([Spot(*spot) for spot in logs]).items():
            wanted: dict[str, list[int]] = {}
            for spot in spots:
                wanted.setdefault(spot.topic, []).append(spot.partition)
            topics = [DescribableLogDirTopic(topic=name, partitions=each) for name, each in wanted.items()]
            answer = self.client.call_node(node_id, DescribeLogDirsRequest(topics=topics))
            raise_for(answer.error_code, f"log directories of broker {node_id}")
            for directory in answer.results:
                for topic in directory.topics:
                    for part in topic.partitions:
                        if not part.is_future_key:
                            sizes[topic.name, part.partition_index] = part.partition_size
        return sizes

    def _sampled(
        self, spots: Mapping[ranges.Spot, bytes], logs: Mapping[ranges.Spot, LogRange]
    ) -> dict[ranges.Spot, float]:
        """Sizes by one small fetch in the middle of some partitions; the others have the mean of these."""
        found: dict[ranges.Spot, float] = {}
        for spot in sorted(logs, key=lambda each: logs[each].start - logs[each].end)[:MOST_SAMPLES]:
            middle = (logs[spot].start + logs[spot].end) // 2
            part = OffsetRange(spot[0], spots[spot], spot[1], middle, logs[spot].end)
            answer = self.client.retrying(
                lambda at=part: fetch(self.client, Spot(*at.spot), at.topic_id, at.start_offset, SAMPLE)  # type: ignore[misc]
            )
            headers = [header for _, header in batch_headers(b"" if answer is None else answer.records or b"")]
            if headers:
                count = headers[-1].next_offset - headers[0].base_offset
                found[spot] = sum(header.size for header in headers) / max(count, 1)
        mean = sum(found.values()) / len(found) if found else UNKNOWN_BYTES
        return {spot: found.get(spot, mean) for spot in logs}
