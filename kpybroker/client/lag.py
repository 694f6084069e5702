"""The lag of a group (`kpybroker.machines.lag`), as a client of any cluster sees it: from its commits to the log ends
that ListOffsets reports, and in time by the timestamp of the oldest record."""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kpybroker.client.client import LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.reader import RecordReader
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import lag_in_ms, lag_in_records


class GroupLag(NamedTuple):
    """The progress of a group in a partition; None where a value is unknown."""

    committed: int | None
    log_end: int | None
    oldest_unread_ms: int | None
    """The timestamp of the first record behind the committed offset; None if there is none."""
    left_records: int | None = None
    """For a share group: the records that it is not done with, which need not be the last ones."""

    @property
    def records(self) -> int | None:
        if self.left_records is not None:
            return self.left_records
        if self.committed is None or self.log_end is None:
            return None
        return lag_in_records(self.log_end, self.committed)

    def behind_ms(self, now_ms: int) -> int | None:
        """The lag in time; None if it is unknown."""
        return lag_in_ms(self.records, self.oldest_unread_ms, now_ms)


def measure(client: Client, committed: Mapping[Spot, int], spots: Iterable[Spot]) -> dict[Spot, GroupLag]:
    """The lag of each partition. Partitions whose topic or leader does not exist have only their committed offset."""
    ends = log_ends(client, spots)
    behind = {spot: committed[spot] for spot, end in ends.items() if spot in committed and committed[spot] < end}
    unread = first_timestamps(client, behind)
    return {spot: GroupLag(committed.get(spot), ends.get(spot), unread.get(spot)) for spot in sorted(spots)}


def log_ends(client: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    """The log ends of those partitions that have a leader."""
    wanted = set(spots)
    topics = client.topics({spot.topic for spot in wanted}) if wanted else []
    led = {
        Spot(topic.name or "", each.partition_index)
        for topic in topics
        for each in topic.partitions
        if each.leader_id >= 0
    }
    return client.list_offsets(dict.fromkeys(wanted & led, LATEST_TIMESTAMP)) if wanted & led else {}


def first_timestamps(client: Client, positions: Mapping[Spot, int]) -> dict[Spot, int]:
    """The timestamp of the first record at or behind each offset. Offsets that are gone or cannot be read are left
    out."""
    found: dict[Spot, int] = {}
    left = dict(positions)
    while left:
        before = len(left)
        try:
            for spot, record in RecordReader(client, left).poll_firsts().items():
                found[spot] = record.timestamp
                del left[spot]
        except KafkaError:
            # One offset is out of range: the others are asked one by one.
            if len(left) == 1:
                break
            for spot, offset in left.items():
                found |= first_timestamps(client, {spot: offset})
            break
        if len(left) == before:
            break
    return found
