"""The cluster that is backed up: its topics, and the reads of a cut in their order. Errors as KafkaError."""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from kpybroker.client import config_requests, mirrored_groups, transaction_requests
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot, raise_for
from kpybroker.client.group_listing import list_groups
from kpybroker.client.transaction_requests import TransactionFilter
from kpybroker.machines.backup.manifest import GroupPosition
from kpybroker.machines.backup.planning import SourceBounds
from kpybroker.machines.backup.stretch import CutOffsets
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic_name import GROUP_OFFSETS_TOPIC
from kpybroker.machines.mirror.mirror import Mirror
from kpywire import error_codes
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.uuid import ZERO_UUID

COMMITTING: Final = "PrepareCommit"
SET_ON_TOPIC: Final = 1
OFFSETS_PARTITIONS: Final = 50
"""The default of ``offsets.topic.num.partitions``."""


class BackedUpTopic(NamedTuple):
    """A topic of the source."""

    name: str
    topic_id: bytes
    leader_epochs: Mapping[int, int]
    """By partition."""
    configs: Mapping[str, str]

    @property
    def spots(self) -> list[Spot]:
        """The partitions."""
        return [Spot(self.name, index) for index in sorted(self.leader_epochs)]


class SourceTopics(NamedTuple):
    """The topics to back up, and the number of partitions of ``__consumer_offsets``."""

    cluster_id: str
    topics: list[BackedUpTopic]
    offsets_partitions: int


class SourceCut(NamedTuple):
    """The reads of a cut."""

    groups: Mapping[str, tuple[GroupPosition, ...]]
    offsets: Mapping[Spot, CutOffsets]
    bounds: Mapping[Spot, SourceBounds]
    committing: frozenset[int]
    """The producers whose transaction was being committed at both looks."""


def read_topics(client: Client, patterns: Iterable[str]) -> SourceTopics:
    """The topics that patterns take, without those that Kafka keeps for itself."""
    wanted = Mirror("", patterns)
    found = client.topics()
    offsets_partitions = OFFSETS_PARTITIONS
    chosen = []
    for topic in found:
        name = topic.name or ""
        if name == GROUP_OFFSETS_TOPIC and topic.partitions:
            offsets_partitions = len(topic.partitions)
        if wanted.takes(name) and not topic.is_internal:
            raise_for(topic.error_code, f"topic {name}")
            if topic.topic_id == ZERO_UUID:
                text = f"topic {name} has no id: the source has to be of Kafka 2.8 or later"
                raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
            chosen.append(topic)
    client.remember(chosen)
    configs = dict(config_requests.describe_topics(client, [topic.name or "" for topic in chosen], ()))
    topics = [
        BackedUpTopic(
            topic.name or "",
            topic.topic_id,
            {each.partition_index: each.leader_epoch for each in topic.partitions},
            {
                each.name: each.value
                for each in configs[topic.name]
                if each.config_source == SET_ON_TOPIC and each.value is not None
            },
        )
        for topic in sorted(chosen, key=lambda each: each.name or "")
        if topic.name in configs
    ]
    cluster = client.call(DescribeClusterRequest(include_cluster_authorized_operations=False))
    raise_for(cluster.error_code, "cluster")
    return SourceTopics(cluster.cluster_id, topics, offsets_partitions)


def read_cut(client: Client, topics: Iterable[BackedUpTopic]) -> SourceCut:
    """The reads of a cut, in the order that `kpybroker.machines.backup.cut` needs."""
    spots = [spot for topic in topics for spot in topic.spots]
    names = {spot.topic for spot in spots}
    groups = {
        group: tuple(
            GroupPosition(topic, partition, each.offset, each.leader_epoch, each.metadata)
            for (topic, partition), each in sorted(commits.items())
        )
        for group, commits in mirrored_groups.offsets_of_groups(client, list_groups(client), names.__contains__).items()
    }
    marks_from = _ends(client, spots)
    first_look = _committing(client)
    known_at = _ends(client, spots)
    second_look = _committing(client)
    ends = _ends(client, spots)
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    return SourceCut(
        groups,
        {spot: CutOffsets(marks_from[spot], known_at[spot], ends[spot]) for spot in spots},
        {spot: SourceBounds(min(starts[spot], ends[spot]), ends[spot]) for spot in spots},
        frozenset(producer_id for producer_id, began in first_look.items() if second_look.get(producer_id) == began),
    )


def _ends(client: Client, spots: Iterable[Spot]) -> dict[Spot, int]:
    return client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))


def _committing(client: Client) -> dict[int, int | None]:
    """The producers whose transaction is being committed, with the time of its begin. Empty before Kafka 3.0, where
    coordinators do not list transactions."""
    found = {}
    try:
        for listed in transaction_requests.transactions(client, TransactionFilter(states=(COMMITTING,))):
            try:
                each = transaction_requests.describe(client, listed.transactional_id)
            except KafkaError as error:
                if error.code != error_codes.TRANSACTIONAL_ID_NOT_FOUND:
                    raise
                continue
            if each.state == COMMITTING:
                found[each.producer_id] = each.started_ms
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
    return found
