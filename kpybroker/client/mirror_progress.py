"""The progress log of a cluster's mirrors, as commands read it. Errors as KafkaError."""

import time
from collections.abc import Iterable
from typing import Final

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.mirror_requests import FETCHING, MirroredPartition, MirroredTopic
from kpybroker.client.reader import FetchSettings, RecordReader
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.mirror.progress import TOPIC, CutPart, MirrorWords, Progress
from kpywire import error_codes

LOG: Final = Spot(TOPIC, 0)
LOOK_EVERY_S: Final = 0.1
SHORT_WAIT_MS: Final = 50
COPYING: Final = "it is copied for the first time: a failover may tear transactions in it"
UNKNOWN: Final = "a failover may tear transactions in it"


class ProgressReader:
    """Reads the log of a cluster from its beginning on."""

    def __init__(self, client: Client) -> None:
        self.known = Progress()
        self._client = client
        self._reader: RecordReader | None = None

    @property
    def is_there(self) -> bool:
        """Whether the cluster has such a log."""
        return self._reader is not None

    def read(self) -> Progress:
        """Read what is new, and conclude from it."""
        if self._reader is None:
            if TOPIC not in self._client.topic_names():
                return self.known
            start = self._client.list_offsets({LOG: EARLIEST_TIMESTAMP})
            fetching = FetchSettings(max_wait_ms=SHORT_WAIT_MS, reset="earliest")
            self._reader = RecordReader(self._client, start, fetching=fetching)
        end = self._client.list_offsets({LOG: LATEST_TIMESTAMP})[LOG]
        while self._reader.positions[LOG] < end:
            for read in self._reader.poll():
                self.known.apply(read.record.value or b"")
        return self.known


def explained(each: MirroredPartition, topics: Iterable[MirroredTopic], known: Progress) -> MirroredPartition:
    """The state of a partition with what the log says of it, if nothing worse is known."""
    ids = {topic.name: topic.topic.topic_id for topic in topics}
    owners = {topic.name: topic.mirror for topic in topics}
    place = ids[each.spot.topic], each.spot.partition
    words = known.words.get(owners[each.spot.topic], MirrorWords())
    found = each._replace(is_whole=place in known.places)
    if not known.finders:
        return found  # of brokers of an earlier version
    if each.reason not in ("", FETCHING) or (found.is_whole and place not in words.waits):
        return found
    return found._replace(reason=words.waits.get(place, UNKNOWN if words.problem else COPYING), is_waiting=True)


def wait_until_cut(client: Client, topics: Iterable[MirroredTopic], within_s: float) -> dict[Spot, CutPart]:
    """Wait until the partitions of topics that are stopping are cut where every transaction is whole. Return where.
    REQUEST_TIMED_OUT; nothing if the cluster has no such log, since its brokers are of an earlier version."""
    spots = {(each.topic.topic_id, spot.partition): spot for each in topics for spot in each.spots}
    reader, deadline_s = ProgressReader(client), time.monotonic() + within_s
    while True:
        done = reader.read().done
        missing = [spot for place, spot in spots.items() if place not in done]
        if not missing or not reader.is_there:
            return {spot: done[place] for place, spot in spots.items() if place in done}
        if time.monotonic() > deadline_s:
            message = (
                f"{len(missing)} partitions are not cut after {within_s:.0f} s, {missing[0]} among them: they and "
                f"topic {TOPIC} need leaders, repeat this then (if that topic is deleted, transactions may be torn)"
            )
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, message)
        time.sleep(LOOK_EVERY_S)
