"""A request that an ordinary client might send, for each API that is served. An API that is not here is asked for by
the first request of its paths (`first_of_its_paths`)."""

from typing import Any

from kpywire import api
from kpywire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResource
from kpywire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from kpywire.messages.api_versions import ApiVersionsRequest
from kpywire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kpywire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kpywire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from kpywire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kpywire.messages.describe_cluster import DescribeClusterRequest
from kpywire.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kpywire.messages.describe_log_dirs import DescribeLogDirsRequest
from kpywire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest, TopicRequest
from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterConfigsResource as IncrementalResource,
)
from kpywire.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kpywire.messages.metadata import MetadataRequest, MetadataRequestTopic
from kpywire.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.admin_requests import plausible_admin
from support.envelopes import envelope_of
from support.group_requests import plausible_group
from support.share_group_requests import plausible_share_group
from support.share_requests import plausible_share
from support.transaction_requests import plausible_transaction

TOPIC_RESOURCE = 2


def plausible(key: int, version: int, topic: str) -> Any:
    """A request that an ordinary client might send; None for keys this suite does not know."""
    batch = build_batch([Record(timestamp=1_700_000_000_000, key=b"k", value=b"v")])
    by_id = bytes(range(16))
    produced = TopicProduceData(partition_data=[PartitionProduceData(index=0, records=batch)])
    fetched = FetchTopic(partitions=[FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)])
    for sent, first_by_id in ((produced, 13), (fetched, 13)):
        if version >= first_by_id:
            sent.topic_id = by_id
        elif isinstance(sent, TopicProduceData):
            sent.name = topic
        else:
            sent.topic = topic
    alteration = AlterConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[])
    incremental = IncrementalResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configs=[])
    new = CreatableTopic(name=topic, num_partitions=1, replication_factor=1, assignments=[], configs=[])
    listed = ListOffsetsPartition(partition_index=0, timestamp=-1)
    deletion = DeleteTopicsRequest(timeout_ms=1000)
    if version >= 6:
        deletion.topics = [DeleteTopicState(name="no-such-topic")]
    else:
        deletion.topic_names = ["no-such-topic"]
    requests = {
        api.PRODUCE: ProduceRequest(acks=1, timeout_ms=1000, topic_data=[produced]),
        api.FETCH: FetchRequest(max_wait_ms=0, min_bytes=0, topics=[fetched]),
        api.LIST_OFFSETS: ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[listed])]),
        api.METADATA: MetadataRequest(topics=[MetadataRequestTopic(name=topic)]),
        api.FIND_COORDINATOR: FindCoordinatorRequest(coordinator_keys=["g"])
        if version >= 4
        else FindCoordinatorRequest(key="g"),
        api.API_VERSIONS: ApiVersionsRequest(client_software_name="raw", client_software_version="1")
        if version >= 3
        else ApiVersionsRequest(),
        api.CREATE_TOPICS: CreateTopicsRequest(topics=[new], timeout_ms=1000, validate_only=True),
        api.DELETE_TOPICS: deletion,
        api.DELETE_RECORDS: DeleteRecordsRequest(
            topics=[DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=0)])],
            timeout_ms=1000,
        ),
        api.INIT_PRODUCER_ID: InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=1000),
        api.OFFSET_FOR_LEADER_EPOCH: OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(topic=topic, partitions=[OffsetForLeaderPartition(partition=0, leader_epoch=0)])
            ]
        ),
        api.DESCRIBE_CONFIGS: DescribeConfigsRequest(
            resources=[
                DescribeConfigsResource(resource_type=TOPIC_RESOURCE, resource_name=topic, configuration_keys=None)
            ],
            include_synonyms=True,
        ),
        api.ENVELOPE: envelope_of(DeleteTopicsRequest(timeout_ms=1000, topics=[]), 6),
        api.ALTER_CONFIGS: AlterConfigsRequest(resources=[alteration], validate_only=True),
        api.ALTER_REPLICA_LOG_DIRS: AlterReplicaLogDirsRequest(
            dirs=[AlterReplicaLogDir(path="/nowhere", topics=[AlterReplicaLogDirTopic(name=topic, partitions=[0])])]
        ),
        api.DESCRIBE_LOG_DIRS: DescribeLogDirsRequest(topics=None),
        api.CREATE_PARTITIONS: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=topic, count=4, assignments=None)], timeout_ms=1000, validate_only=True
        ),
        api.INCREMENTAL_ALTER_CONFIGS: IncrementalAlterConfigsRequest(resources=[incremental], validate_only=True),
        api.DESCRIBE_CLUSTER: DescribeClusterRequest(include_cluster_authorized_operations=True),
        api.DESCRIBE_TOPIC_PARTITIONS: DescribeTopicPartitionsRequest(topics=[TopicRequest(name=topic)]),
    }
    others = plausible_admin(version, topic) | plausible_group(version, topic) | plausible_transaction(version, topic)
    others |= plausible_share() | plausible_share_group(topic)
    return (requests | others).get(key)
