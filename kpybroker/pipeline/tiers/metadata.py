"""The copies that a reader of partitions gets, found over Kafka's protocol: ``__remote_log_metadata`` says which there
are, and the leaders' epochs which of them belong to their logs.

Not here: objects. Invariant: a record that is read from these copies is the one that the leader's log has.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress

from kpybroker.client import tier_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.epoch_requests import epoch_histories
from kpybroker.hosts.remote_log.metadata_values import read_value
from kpybroker.machines.remote_log.cache import RemoteSegments
from kpybroker.machines.remote_log.lineage import copies
from kpybroker.machines.remote_log.metadata import RemoteLogMetadata
from kpybroker.machines.scan.ranges import OffsetRange
from kpybroker.pipeline.tiers.copied import CopiedPartition, CopiedPartitions, bounds_of, copied_partition
from kpywire.errors import Malformed
from kpywire.remote_log_record import partition_of


class TierMetadata:
    """The segments in the store, as far as ``__remote_log_metadata`` was read. A later call reads on."""

    def __init__(self) -> None:
        self._metadata = RemoteLogMetadata()
        self._positions: dict[int, int] = {}
        self._partitions = 0

    def segments_of(self, client: Client, wanted: Mapping[Spot, bytes]) -> dict[Spot, RemoteSegments]:
        """The segments of partitions, by the ids of their topics; without those that have none. Raises KafkaError."""
        if not self._partitions:
            self._partitions = tier_requests.metadata_partitions(client)
        if not self._partitions:
            return {}
        needed = {partition_of(topic_id, spot.partition, self._partitions) for spot, topic_id in wanted.items()}
        positions = {number: self._positions.get(number, 0) for number in needed}
        for spot, offset, value in tier_requests.metadata_values(client, positions):
            self._positions[spot.partition] = offset + 1
            with suppress(Malformed):  # of a newer version
                self._metadata.apply(read_value(value or b""))
        found = {spot: self._metadata.segments_of(topic_id, spot.partition) for spot, topic_id in wanted.items()}
        return {spot: segments for spot, segments in found.items() if segments}


def copied(
    client: Client, metadata: TierMetadata, parts: Iterable[OffsetRange], *, only_remote: bool, committed_only: bool
) -> CopiedPartitions:
    """The copies that hold these ranges, as far as they are copied; with ``only_remote``, as far as no broker has them
    on its disk. Raises KafkaError, Unreachable."""
    ranges = list(parts)
    ids = {Spot(*part.spot): part.topic_id for part in ranges}
    bounds = {Spot(*spot): each for spot, each in bounds_of(ranges).items()}
    if only_remote:
        borders = client.list_offsets(dict.fromkeys(bounds, tier_requests.EARLIEST_LOCAL_TIMESTAMP))
        bounds = {spot: (start, min(end, borders[spot])) for spot, (start, end) in bounds.items()}
    bounds = {spot: (start, end) for spot, (start, end) in bounds.items() if start < end}
    segments = metadata.segments_of(client, {spot: ids[spot] for spot in bounds}) if bounds else {}
    histories = epoch_histories(client, {spot: bounds[spot][0] for spot in segments}) if segments else {}
    found: dict[tuple[str, int], CopiedPartition] = {}
    for spot, history in histories.items():
        start, end = bounds[spot]
        partition = copied_partition(copies(segments[spot], history, start), end, committed_only=committed_only)
        if partition is not None:
            found[spot] = partition
    return CopiedPartitions(found)
