"""Metadata (3), versions 0-13: the brokers, the topics, and the leader of each partition.

- v0: no topics means all. From v1: null means all, an empty list none. v4: whether to create unknown topics.
- An unknown topic is UNKNOWN_TOPIC_OR_PARTITION, also while it is being created. An invalid name is
  INVALID_TOPIC_EXCEPTION. An unknown id is UNKNOWN_TOPIC_ID (v12: requests by id, KIP-516). If a request contains any
  id, topics that are given only by name are left out. Each topic is answered once.
- v10-11 have ids only in the schema: a request that uses one fails as a whole, without brokers.
- Addresses are those of the listener by which the request came.
- v8: authorized operations, only if asked for (KIP-430).
- With an authorizer, topics without DESCRIBE are left out of all topics. Else they are TOPIC_AUTHORIZATION_FAILED
  whether they exist or not: by name without an id, by id without a name. To create one, CREATE is needed.
"""

from collections.abc import Generator, Iterable, Sequence
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.machines.metadata.topic_name import INTERNAL, reason_invalid
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.internal_topics import auto_create
from kpybroker.requests.serving.offline_replicas import offline_replicas
from kpybroker.requests.serving.permissions import allowed_operations, cluster_operations, may, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS, distinct, each
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct
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
NOT_ASKED = -(2**31)
STEP_TOPICS = 64
"""The number of topics answered in one step from answers that were kept."""
STEP_ANSWERS = 4
"""The number of topics answered in one step if their answers must be encoded."""


def handle(broker: Context, request: MetadataRequest, call: Call) -> Generator[None, None, MetadataResponse]:
    """Answer from the committed metadata."""
    call.asker.requests += 1
    image = broker.image
    version = call.api_version
    wanted = request.topics
    code = error_codes.NONE
    by_id = False
    for start in range(0, len(wanted or ()), STEP_ELEMENTS):
        some = (wanted or [])[start : start + STEP_ELEMENTS]
        code = code or _why_malformed(some, version)
        by_id = by_id or any(one.topic_id != ZERO_UUID for one in some)
        yield
    if code:
        return _refused(wanted or [], code)
    topics = MetadataTopics(broker, call, with_operations=request.include_topic_authorized_operations)
    topics.creates = creates = request.allow_auto_topic_creation and broker.config["auto.create.topics.enable"]
    is_guarded = broker.authorizer is not None
    if wanted is None or (not wanted and version < ALL_FROM_NULL):
        answers = yield from topics.all((yield from topics.visible()) if is_guarded else image.topics.values())
    elif by_id:
        ids = yield from distinct(one.topic_id if one.topic_id != ZERO_UUID else None for one in wanted)
        answers = yield from each(ids, topics.by_id_if_allowed if is_guarded else topics.by_id)
    else:
        names = yield from distinct(one.name for one in wanted)
        if is_guarded:
            topics.may_create = not creates or may_on_cluster(broker, call, AclOperation.CREATE, logs_denial=False)
        answers = yield from each(names, topics.by_name_if_allowed if is_guarded else topics.by_name)
        if creates and topics.missing:
            _create(broker, topics.missing, call)
    asked = request.include_cluster_authorized_operations
    return MetadataResponse(
        throttle_time_ms=0,
        brokers=[
            MetadataResponseBroker(node_id=node.id, host=point.host, port=point.port, rack=node.rack)
            for node in image.brokers.values()
            if broker.is_listed(node.id) and (point := node.listeners.get(call.listener_name)) is not None
        ],
        cluster_id=image.cluster_id,
        controller_id=broker.random_alive_broker(),
        topics=EncodedStructs(answers),
        cluster_authorized_operations=cluster_operations(broker, call) if asked else NOT_ASKED,
        error_code=error_codes.NONE,
    )


def _create(broker: Context, names: list[str], call: Call) -> None:
    """Have topics created. A refusal is kept for the client's next request."""
    refused, scheduler = broker.refused_creations, broker.scheduler
    auto_create(broker, names, lambda made: refused.note(call.principal, made, scheduler.monotonic_ms()), call)


def _why_malformed(topics: Sequence[MetadataRequestTopic], version: int) -> int:
    """Kafka's error for topics without a name, or with an id in a version that does not allow ids; 0 without those."""
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


class MetadataTopics:
    """The topics of one answer, each encoded. Those without errors are kept for later answers."""

    def __init__(self, broker: Context, call: Call, *, with_operations: bool) -> None:
        self.broker = broker
        self.call = call
        self.with_operations = with_operations
        self.missing: list[str] = []
        """The valid names of topics that do not exist."""
        self.may_create = True
        """Whether the sender may create any topic."""
        self.creates = False
        """Whether topics that do not exist are created."""
        if with_operations and broker.authorizer is not None:
            self._kept: dict[bytes, bytes] = {}  # not for others, who may do other things
        else:
            kept = broker.topic_answers.of(MetadataResponse, call.api_version, with_operations=with_operations)
            self._kept = kept.topics

    def all(self, known: Iterable[Topic]) -> Generator[None, None, list[Any]]:
        """The answers for these topics, made in steps."""
        topics, answers = list(known), list[Any]()
        for start in range(0, len(topics), STEP_TOPICS):
            some = topics[start : start + STEP_TOPICS]
            found: list[Any] = [self._kept.get(topic.id) for topic in some]
            if None in found:
                found = yield from each(some, self.known, STEP_ANSWERS)
            answers += found
            yield
        return answers

    # With an authorizer

    def visible(self) -> Generator[None, None, list[Topic]]:
        """The topics that the sender may describe."""
        found = []
        for number, topic in enumerate(list(self.broker.image.topics.values())):
            if number % STEP_TOPICS == STEP_TOPICS - 1:
                yield
            if self._may(AclOperation.DESCRIBE, topic.name, logs_denial=False):
                found.append(topic)
        return found

    def by_id_if_allowed(self, topic_id: bytes) -> bytes:
        topic = self.broker.image.topics_by_id.get(topic_id)
        if topic is None or self._may(AclOperation.DESCRIBE, topic.name):
            return self.by_id(topic_id)
        return self._denied(None, topic_id)

    def by_name_if_allowed(self, name: str) -> bytes:
        if not self._may(AclOperation.DESCRIBE, name):
            return self._denied(name, ZERO_UUID)
        is_missing = not self.may_create and name not in self.broker.image.topics and reason_invalid(name) is None
        if is_missing and not self._may(AclOperation.CREATE, name):
            return self._denied(name, ZERO_UUID)
        return self.by_name(name)

    def _may(self, operation: AclOperation, name: str, *, logs_denial: bool = True) -> bool:
        return may(self.broker, self.call, operation, ResourceType.TOPIC, name, logs_denial=logs_denial)

    def _denied(self, name: str | None, topic_id: bytes) -> bytes:
        code = error_codes.TOPIC_AUTHORIZATION_FAILED
        self.call.counters.count_error(code)
        answer = MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id, partitions=[])
        return encode_struct(answer, MetadataResponse, self.call.api_version)

    # Without one

    def by_id(self, topic_id: bytes) -> bytes:
        topic = self.broker.image.topics_by_id.get(topic_id)
        if topic is not None:
            return self.known(topic)
        code = error_codes.UNKNOWN_TOPIC_ID
        return self._encoded(MetadataResponseTopic(error_code=code, name=None, topic_id=topic_id, partitions=[]))

    def by_name(self, name: str) -> bytes:
        topic = self.broker.image.topics.get(name)
        if topic is not None:
            return self.known(topic)
        code = error_codes.INVALID_TOPIC_EXCEPTION
        if reason_invalid(name) is None:
            code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
            if self.creates and self._was_refused(name):
                code = error_codes.POLICY_VIOLATION
            else:
                self.missing.append(name)
        is_internal = name in INTERNAL
        return self._encoded(
            MetadataResponseTopic(
                error_code=code, name=name, topic_id=ZERO_UUID, is_internal=is_internal, partitions=[]
            )
        )

    def _was_refused(self, name: str) -> bool:
        now_ms = self.broker.scheduler.monotonic_ms()
        return self.broker.refused_creations.holds(self.call.principal, name, now_ms)

    def known(self, topic: Topic) -> bytes:
        """The answer for a topic that exists."""
        kept = self._kept.get(topic.id)
        if kept is not None:
            return kept
        broker, version = self.broker, self.call.api_version
        answer = MetadataResponseTopic(
            error_code=error_codes.NONE,
            name=topic.name,
            topic_id=topic.id,
            is_internal=topic.name in INTERNAL,
            partitions=[_partition(broker, index, partition, version) for index, partition in topic.partitions.items()],
        )
        encoded = self._encoded(answer)
        if not any(partition.error_code for partition in answer.partitions):
            self._kept[topic.id] = encoded
        return encoded

    def _encoded(self, answer: MetadataResponseTopic) -> bytes:
        """Encode an answer. Its errors are counted here, since they cannot be found in the encoded answer."""
        for code in (answer.error_code, *(partition.error_code for partition in answer.partitions)):
            if code:
                self.call.counters.count_error(code)
        if self.with_operations and answer.name is not None:
            answer.topic_authorized_operations = allowed_operations(
                self.broker, self.call, ResourceType.TOPIC, answer.name
            )
        return encode_struct(answer, MetadataResponse, self.call.api_version)


def _partition(broker: Context, index: int, partition: Partition, version: int) -> MetadataResponsePartition:
    alive = broker.alive_brokers
    offline = offline_replicas(broker, partition)
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
