"""The requests of ``kpybroker cluster`` and ``doctor``: brokers, features, log directories, the quorum."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from kpybroker.client.client import Client, Spot, raise_for
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from kpywire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from kpywire.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResult,
)
from kpywire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
)
from kpywire.messages.unregister_broker import UnregisterBrokerRequest
from kpywire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest, UpdateFeaturesResponse

METADATA_TOPIC = "__cluster_metadata"
UPGRADE, SAFE_DOWNGRADE = 1, 2


class ClusterFeature(NamedTuple):
    """A feature of the cluster; ``finalized`` is 0 where it is off."""

    name: str
    first_supported: int
    last_supported: int
    finalized: int


class LogDirDescription(NamedTuple):
    """A log directory of a broker. Sizes are -1 where the broker does not report them."""

    broker: int
    path: str
    error_code: int
    partitions: int
    used_bytes: int
    total_bytes: int
    usable_bytes: int


def describe(client: Client) -> DescribeClusterResponse:
    """The cluster's id and its brokers, with the fenced ones where the cluster reports them. Raises KafkaError."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=False, include_fenced_brokers=True)
    try:
        answer: DescribeClusterResponse = client.call(request)
    except KafkaError as error:
        if error.code != error_codes.UNSUPPORTED_VERSION:
            raise
        request.include_fenced_brokers = False
        answer = client.call(request)
    raise_for(answer.error_code, "cluster", answer.error_message)
    return answer


def features(client: Client) -> list[ClusterFeature]:
    """All features that a broker supports or that are finalised, by name."""
    answer: ApiVersionsResponse = client.call(
        ApiVersionsRequest(client_software_name="kpybroker", client_software_version="0")
    )
    raise_for(answer.error_code, "features")
    finalized = {each.name: each.max_version_level for each in answer.finalized_features}
    supported = {each.name: (each.min_version, each.max_version) for each in answer.supported_features}
    return [
        ClusterFeature(name, *supported.get(name, (0, 0)), finalized.get(name, 0))
        for name in sorted({*supported, *finalized})
    ]


def change_features(client: Client, levels: Mapping[str, int], *, lower: bool, validate_only: bool) -> None:
    """Raise the finalised levels of features, or lower them; all or none. Raises KafkaError."""
    request = UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=SAFE_DOWNGRADE if lower else UPGRADE)
            for name, level in levels.items()
        ],
        validate_only=validate_only,
    )
    answer: UpdateFeaturesResponse = client.call(request)
    raise_for(answer.error_code, "features", answer.error_message)
    for each in answer.results:
        raise_for(each.error_code, each.feature, each.error_message)


def log_directories(client: Client, *brokers: int) -> list[LogDirDescription]:
    """The log directories of brokers, of all by default. Raises KafkaError, Unreachable."""
    return [
        each
        for broker in _chosen(client, brokers)
        for each in described_directories(partial(client.call_node, broker), broker)
    ]


def described_directories(call: Callable[[Any], Any], broker: int) -> list[LogDirDescription]:
    """The log directories of the broker that ``call`` asks. Raises KafkaError, Unreachable."""
    answer = call(DescribeLogDirsRequest(topics=None))
    raise_for(answer.error_code, f"log directories of broker {broker}")
    found = []
    for each in answer.results:
        sizes = [part.partition_size for topic in each.topics for part in topic.partitions]
        found.append(
            LogDirDescription(
                broker, each.log_dir, each.error_code, len(sizes), sum(sizes), each.total_bytes, each.usable_bytes
            )
        )
    return found


def directories_with_replicas(
    client: Client, broker: int, spots: Iterable[Spot] | None = None
) -> list[DescribeLogDirsResult]:
    """The log directories of a live broker with its replicas, of all partitions or of some. Raises KafkaError,
    Unreachable."""
    topics: dict[str, DescribableLogDirTopic] = {}
    for spot in spots or ():
        topics.setdefault(spot.topic, DescribableLogDirTopic(topic=spot.topic, partitions=[])).partitions.append(
            spot.partition
        )
    answer = client.call_node(broker, DescribeLogDirsRequest(topics=None if spots is None else list(topics.values())))
    raise_for(answer.error_code, f"log directories of broker {broker}")
    results: list[DescribeLogDirsResult] = answer.results
    return results


def _chosen(client: Client, brokers: Sequence[int]) -> list[int]:
    """The brokers that were named, or all. BROKER_NOT_AVAILABLE for one that is not there."""
    return [client.live_node(each) for each in brokers] or [node.node_id for node in client.nodes()]


def move_replicas(client: Client, broker: int, path: str, spots: Iterable[Spot]) -> None:
    """Let a broker move its replicas of partitions into one of its log directories. Raises KafkaError."""
    topics: dict[str, AlterReplicaLogDirTopic] = {}
    for spot in spots:
        topics.setdefault(spot.topic, AlterReplicaLogDirTopic(name=spot.topic, partitions=[])).partitions.append(
            spot.partition
        )
    wanted = AlterReplicaLogDir(path=path, topics=list(topics.values()))
    for topic in client.call_node(client.live_node(broker), AlterReplicaLogDirsRequest(dirs=[wanted])).results:
        for part in topic.partitions:
            raise_for(part.error_code, f"partition {topic.topic_name}-{part.partition_index} of broker {broker}")


def directory_of(client: Client, spot: Spot) -> tuple[int, str] | None:
    """The broker that leads a partition, and the log directory it is in; None if it is not reported. Raises
    KafkaError."""
    broker = client.leader(spot)
    for each in directories_with_replicas(client, broker, [spot]):
        if any(part.partition_index == spot.partition for topic in each.topics for part in topic.partitions):
            return broker, f"{each.log_dir.rstrip('/')}/{spot}"
    return None


class ServedApi(NamedTuple):
    """The versions of an API that a broker serves."""

    broker: int
    key: int
    first: int
    last: int


def served_apis(client: Client, *brokers: int) -> list[ServedApi]:
    """The APIs of brokers, of all by default. Raises KafkaError, Unreachable."""
    found = []
    for broker in _chosen(client, brokers):
        request = ApiVersionsRequest(client_software_name="kpybroker", client_software_version="0")
        answer: ApiVersionsResponse = client.call_node(broker, request)
        raise_for(answer.error_code, f"APIs of broker {broker}")
        found += [ServedApi(broker, each.api_key, each.min_version, each.max_version) for each in answer.api_keys]
    return found


def unregister_broker(client: Client, broker: int) -> None:
    """Let the cluster forget a broker that will not come back. Raises KafkaError."""
    answer = client.retrying(lambda: client.call(UnregisterBrokerRequest(broker_id=broker)))
    raise_for(answer.error_code, f"broker {broker}", answer.error_message)


def describe_quorum(client: Client) -> DescribeQuorumResponse:
    """The controllers' quorum: one partition, and the addresses of its nodes. Raises KafkaError."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    request = DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])]
    )
    answer: DescribeQuorumResponse = client.call(request)
    raise_for(answer.error_code, "quorum", answer.error_message)
    found = answer.topics[0].partitions[0]
    raise_for(found.error_code, "quorum", found.error_message)
    return answer


def quorum(client: Client) -> DescribeQuorumResponsePartitionData:
    """The controllers' quorum: leader, voters, observers. Raises KafkaError."""
    return describe_quorum(client).topics[0].partitions[0]


def leaders(client: Client) -> Mapping[int, tuple[int, int]]:
    """The number of partitions that each broker leads, and of its replicas."""
    counts: dict[int, tuple[int, int]] = {}
    for topic in client.topics():
        for each in topic.partitions:
            for replica in each.replica_nodes:
                led, held = counts.get(replica, (0, 0))
                counts[replica] = (led + (each.leader_id == replica), held + 1)
    return counts
