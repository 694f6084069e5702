"""Metadata (3), versions 0-13: brokers, topics, who leads which partition.

- v0: no topics means all; from v1 null means all and an empty list none. v4: whether to create unknown topics.
- An unknown topic is UNKNOWN_TOPIC_OR_PARTITION, also while it is being created; a name that can't be one is
  INVALID_TOPIC_EXCEPTION; an unknown id is UNKNOWN_TOPIC_ID (v12: asking by id, KIP-516).
- Addresses are those of the listener that the request came in by.
- v8: authorized operations, answered only when asked for (KIP-430).
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.internal_topics import auto_create
from kpybroker.metadata.topic import Partition, Topic
from kpybroker.metadata.topic_name import INTERNAL, reason_invalid
from kpywire import error_codes
from kpywire.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kpywire.uuid import ZERO_UUID

ALL_FROM_NULL = 1
OFFLINE_REPLICAS_FROM = 5
ID_ONLY_FROM = 12
TOPIC_OPERATIONS = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
"""READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS: all, without an authorizer."""
CLUSTER_OPERATIONS = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
"""CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE."""
NOT_ASKED = -(2**31)


def handle(broker: Context, request: MetadataRequest, call: Call) -> MetadataResponse:
    """Answer from the committed metadata."""
    image = broker.image
    version = call.api_version
    wanted = request.topics
    if wanted is None or (not wanted and version < ALL_FROM_NULL):
        topics = [_topic(broker, topic, version) for topic in image.topics.values()]
    else:
        topics = [_wanted(broker, request, one.name, one.topic_id, version) for one in wanted]
    if request.include_topic_authorized_operations:
        for topic in topics:
            if topic.error_code == error_codes.NONE:
                topic.topic_authorized_operations = TOPIC_OPERATIONS
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=point.host, port=point.port, rack=node.rack)
            for node in image.brokers.values()
            if not node.fenced and (point := node.listeners.get(call.listener_name)) is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=broker.random_alive_broker(),
        topics=topics,
        cluster_authorized_operations=CLUSTER_OPERATIONS if asked else NOT_ASKED,
        error_code=error_codes.NONE,
    )


def _wanted(
    broker: Context, request: MetadataRequest, name: str | None, topic_id: bytes, version: int
) -> MetadataResponseTopic:
    image = broker.image
    if topic_id != ZERO_UUID:
        topic = image.topics_by_id.get(topic_id)
        if topic is None:
            code = error_codes.UNKNOWN_TOPIC_ID if version >= ID_ONLY_FROM else error_codes.INVALID_REQUEST
            return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id, partitions=[])
        return _topic(broker, topic, version)
    if name is None:
        code = error_codes.INVALID_REQUEST
        return MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id, partitions=[])
    topic = image.topics.get(name)
    if topic is not None:
        return _topic(broker, topic, version)
    code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if reason_invalid(name) is not None:
        code = error_codes.INVALID_TOPIC_EXCEPTION
    elif request.allow_auto_topic_creation and broker.config["auto.create.topics.enable"]:
        auto_create(broker, name)
    return MetadataResponseTopic(
        error_code=code, name=name, topic_id=ZERO_UUID, is_internal=name in INTERNAL, partitions=[]
    )


def _topic(broker: Context, topic: Topic, version: int) -> MetadataResponseTopic:
    return MetadataResponseTopic(
        error_code=error_codes.NONE,
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL,
        partitions=[_partition(broker, index, partition, version) for index, partition in topic.partitions.items()],
    )


def _partition(broker: Context, index: int, partition: Partition, version: int) -> MetadataResponsePartition:
    alive = broker.alive_brokers
    offline = [replica for replica in partition.replicas if replica not in alive]
    code = error_codes.NONE
    leader = partition.leader
    if leader not in alive:
        code, leader = error_codes.LEADER_NOT_AVAILABLE, -1
    elif offline and version == 0:
        code = error_codes.REPLICA_NOT_AVAILABLE
    return MetadataResponsePartition(
        error_code=code,
        partition_index=index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        offline_replicas=offline,
    )
