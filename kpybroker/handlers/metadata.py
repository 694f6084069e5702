"""Metadata (3), versions 0-13: brokers, topics, who leads which partition.

- v0: no topics means all; from v1 null means all and an empty list none. v4: whether to create unknown topics.
- An unknown topic is UNKNOWN_TOPIC_OR_PARTITION, also while it is being created; a name that can't be one is
  INVALID_TOPIC_EXCEPTION; an unknown id is UNKNOWN_TOPIC_ID (v12: asking by id, KIP-516). A request with any id is
  one by ids: topics that have only a name are left out. Each topic is answered once.
- v10-11 have ids in the schema only: a request that uses one fails as a whole, without brokers.
- Addresses are those of the listener that the request came in by.
- v8: authorized operations, answered only when asked for (KIP-430).
"""

from collections.abc import Sequence

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.internal_topics import auto_create
from kpybroker.metadata.topic import Partition, Topic
from kpybroker.metadata.topic_name import INTERNAL, reason_invalid
from kpywire import error_codes
from kpywire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from kpywire.uuid import ZERO_UUID

ALL_FROM_NULL = 1
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
    code = _why_malformed(wanted or [], version)
    if code:
        return _refused(wanted or [], code)
    if wanted is None or (not wanted and version < ALL_FROM_NULL):
        topics = [_topic(broker, topic, version) for topic in image.topics.values()]
    elif any(one.topic_id != ZERO_UUID for one in wanted):
        ids = dict.fromkeys(one.topic_id for one in wanted if one.topic_id != ZERO_UUID)
        topics = [_by_id(broker, topic_id, version) for topic_id in ids]
    else:
        create = request.allow_auto_topic_creation and bool(broker.config["auto.create.topics.enable"])
        names = dict.fromkeys(one.name for one in wanted if one.name is not None)
        topics = [_by_name(broker, name, version) for name in names]
        if create:
            unknown = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            auto_create(broker, [answer.name for answer in topics if answer.name and answer.error_code == unknown])
    if request.include_topic_authorized_operations:
        for answer in topics:
            if answer.name is not None:
                answer.topic_authorized_operations = TOPIC_OPERATIONS
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


def _why_malformed(topics: Sequence[MetadataRequestTopic], version: int) -> int:
    """Kafka's error for topics without a name, or with an id before ids were allowed; 0 when there are none."""
    if version < ID_ONLY_FROM and any(one.name is None or one.topic_id != ZERO_UUID for one in topics):
        return error_codes.INVALID_REQUEST
    if any(one.name is None and one.topic_id == ZERO_UUID for one in topics):
        return error_codes.UNKNOWN_SERVER_ERROR
    return error_codes.NONE


def _refused(topics: Sequence[MetadataRequestTopic], code: int) -> MetadataResponse:
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[],
        cluster_id=None,
        controller_id=-1,
        topics=[
            MetadataResponseTopic(error_code=code, name=one.name or "", topic_id=one.topic_id, partitions=[])
            for one in topics
        ],
        error_code=code,
    )


def _by_id(broker: Context, topic_id: bytes, version: int) -> MetadataResponseTopic:
    topic = broker.image.topics_by_id.get(topic_id)
    if topic is None:
        return MetadataResponseTopic(
            error_code=error_codes.UNKNOWN_TOPIC_ID, name=None, topic_id=topic_id, partitions=[]
        )
    return _topic(broker, topic, version)


def _by_name(broker: Context, name: str, version: int) -> MetadataResponseTopic:
    topic = broker.image.topics.get(name)
    if topic is not None:
        return _topic(broker, topic, version)
    code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
    if reason_invalid(name) is not None:
        code = error_codes.INVALID_TOPIC_EXCEPTION
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
