"""The requests of ``kpybroker tiers``: what brokers say about the tiers of partitions. Errors as KafkaError."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot, raise_for
from kpybroker.client.connection import Unreachable
from kpybroker.client.reader import RecordReader
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kpywire.remote_log_record import TOPIC

EARLIEST_LOCAL_TIMESTAMP: Final = -4
LATEST_TIERED_TIMESTAMP: Final = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP: Final = -6
TOPIC_RESOURCE: Final = 2
POLICY: Final = "cleanup.policy"
CONFIGS: Final = ("remote.storage.enable", "remote.log.copy.disable", POLICY)
_NOT_KNOWN: Final = (error_codes.UNSUPPORTED_VERSION, error_codes.INVALID_REQUEST)


class TierOffsets(NamedTuple):
    """The offsets at which the tiers of a partition begin and end; -1 where a tier has no record."""

    log_start: int
    local_start: int
    last_tiered: int
    """The last offset that is copied."""
    pending: int | None
    """The first offset that is to be copied; None if the brokers do not say (before Kafka 4.2)."""
    end: int


class TopicTier(NamedTuple):
    """The configs of a topic that say whether it is tiered."""

    name: str
    is_tiered: bool
    is_copy_disabled: bool
    is_compacted: bool = False


def topic_tiers(client: Client, names: Iterable[str] = ()) -> list[TopicTier]:
    """Topics of these names, or all that are tiered. Raises KafkaError."""
    wanted = list(names)
    for name in wanted:
        client.topic(name)
    resources = [
        DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=list(CONFIGS))
        for name in wanted or client.topic_names()
    ]
    if not resources:
        return []
    found = []
    for answer in client.retrying(lambda: client.call(DescribeConfigsRequest(resources=resources))).results:
        raise_for(answer.error_code, f"topic {answer.resource_name}", answer.error_message)
        values = {each.name: each.value for each in answer.configs}
        is_tiered, is_disabled = (values.get(config) == "true" for config in CONFIGS[:2])
        is_compacted = "compact" in (values.get(POLICY) or "")
        found.append(TopicTier(answer.resource_name, is_tiered, is_disabled, is_compacted))
    return [each for each in found if wanted or each.is_tiered]


def boundaries(client: Client, spots: Iterable[Spot]) -> dict[Spot, TierOffsets]:
    """The offsets of partitions. Raises KafkaError."""
    wanted = list(spots)
    starts, locals_, tiered, ends = (
        client.list_offsets(dict.fromkeys(wanted, timestamp))
        for timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, LATEST_TIMESTAMP)
    )
    try:
        pending: Mapping[Spot, int] = client.list_offsets(dict.fromkeys(wanted, EARLIEST_PENDING_UPLOAD_TIMESTAMP))
    except KafkaError as error:
        if error.code not in _NOT_KNOWN:
            raise
        pending = {}
    return {
        spot: TierOffsets(starts[spot], locals_[spot], tiered[spot], pending.get(spot), ends[spot]) for spot in wanted
    }


def local_bytes(client: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    """The bytes on the disk of each partition's leader; without those of brokers that do not say."""
    found: dict[Spot, int] = {}
    for node_id, led in client.by_leader(spots).items():
        topics: dict[str, DescribableLogDirTopic] = {}
        for spot in led:
            topic = topics.setdefault(spot.topic, DescribableLogDirTopic(topic=spot.topic, partitions=[]))
            topic.partitions.append(spot.partition)
        try:
            answer = client.call_node(node_id, DescribeLogDirsRequest(topics=list(topics.values())))
        except (KafkaError, Unreachable):
            continue
        for directory in answer.results:
            for each in directory.topics:
                sizes = ((Spot(each.name, part.partition_index), part) for part in each.partitions)
                found |= {spot: part.partition_size for spot, part in sizes if not part.is_future_key}
    return found


def metadata_values(
    client: Client, positions: Mapping[int, int] | None = None
) -> Iterator[tuple[Spot, int, bytes | None]]:
    """The values of ``__remote_log_metadata`` from its start to its present end, with their partitions and offsets;
    nothing if the topic does not exist. With ``positions``: of these partitions alone, from these offsets on. Raises
    KafkaError."""
    count = metadata_partitions(client)
    spots = [Spot(TOPIC, number) for number in range(count) if positions is None or number in positions]
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
    if positions is not None:
        starts = {spot: max(start, positions[spot.partition]) for spot, start in starts.items()}
    left = {spot: start for spot, start in starts.items() if start < ends[spot]}
    while left:
        reader = RecordReader(client, left)
        for spot, record, _ in reader.poll():
            if record.offset < ends[spot]:
                yield spot, record.offset, record.value
        left = {spot: offset for spot, offset in reader.positions.items() if offset < ends[spot]}


def metadata_partitions(client: Client) -> int:
    """The number of partitions of ``__remote_log_metadata``, 0 if the topic does not exist. Raises KafkaError."""
    (topic,) = client.topics([TOPIC])
    if topic.error_code == error_codes.UNKNOWN_TOPIC_OR_PARTITION:
        return 0
    raise_for(topic.error_code, f"topic {TOPIC}")
    client.remember([topic])
    return len(topic.partitions)
