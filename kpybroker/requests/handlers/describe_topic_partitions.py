"""DescribeTopicPartitions (75), version 0: topics page by page (KIP-966).

- Topics are in the order of their names; no names means all topics. An answer has at most
  ``max.request.partition.size.limit`` partitions, and its cursor is where the next one continues. A request's cursor
  must be at one of the requested topics.
- Unlike Metadata, it never creates a topic.
- With an authorizer, topics without DESCRIBE are left out of all topics. Those that were named come last, as
  TOPIC_AUTHORIZATION_FAILED, whether they exist or not.
- The answer is made in steps, of parts that are kept encoded: topics with few partitions as a whole, others by
  partition.
"""

from bisect import bisect_left
from collections.abc import Generator, Sequence

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.metadata.topic_name import INTERNAL, reason_invalid
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.offline_replicas import offline_replicas
from kpybroker.requests.serving.permissions import allowed_operations, denied_among
from kpybroker.requests.serving.topic_answers import EncodedTopics
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import distinct, in_blocks, in_order
from kpywire import error_codes
from kpywire.codec import EncodedStructs, encode_struct
from kpywire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from kpywire.uuid import ZERO_UUID

STEP_PARTITIONS = 64
"""The number of partitions encoded in one step. A topic with more of them is encoded by partition."""

Answer = DescribeTopicPartitionsResponseTopic | DescribeTopicPartitionsResponsePartition


def handle(
    broker: Context, request: DescribeTopicPartitionsRequest, call: Call
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    """Answer with one page of topics."""
    image = broker.image
    every = not request.topics
    named = image.topics if every else (yield from distinct(topic.name for topic in request.topics))
    names = yield from in_order(list(named))
    first_index = 0
    cursor = request.cursor
    if cursor is not None:
        del names[: bisect_left(names, cursor.topic_name)]
        at_cursor = names[:1] == [cursor.topic_name]
        if cursor.partition_index < 0 or not (every or at_cursor):
            return (yield from _refused(request))
        first_index = cursor.partition_index if at_cursor else 0
    left = min(max(request.response_partition_limit, 1), int(broker.config["max.request.partition.size.limit"]))
    topics = EncodedStructs()
    page = TopicPartitionsPage(broker, call)
    denied = yield from denied_among(
        broker, call, AclOperation.DESCRIBE, ResourceType.TOPIC, names, logs_denial=not every
    )
    next_cursor = None
    for name in names:
        if name in denied:
            continue
        if left == 0:
            next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=0)
            break
        topic = image.topics.get(name)
        if topic is None:
            if not every:
                topics.append(page.unknown(name))
        elif first_index or len(topic.partitions) > min(left, STEP_PARTITIONS):
            answer, described, following = yield from page.part(topic, first_index, left)
            topics.append(answer)
            left -= described
            if following is not None:
                next_cursor = DescribeTopicPartitionsResponseCursor(topic_name=name, partition_index=following)
                break
        else:
            topics.append(page.whole(topic))
            left -= len(topic.partitions)
        first_index = 0
        if page.is_due():
            yield
    if not every and denied:
        refused = yield from in_blocks(names, lambda name: page.refused(name) if name in denied else None)
        topics += [each for each in refused if each is not None]
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics, next_cursor=next_cursor)


def _refused(
    request: DescribeTopicPartitionsRequest,
) -> Generator[None, None, DescribeTopicPartitionsResponse]:
    def refused(topic: TopicRequest) -> DescribeTopicPartitionsResponseTopic:
        return DescribeTopicPartitionsResponseTopic(
            error_code=error_codes.INVALID_REQUEST, name=topic.name, topic_id=ZERO_UUID, partitions=[]
        )

    topics = yield from in_blocks(request.topics, refused)
    return DescribeTopicPartitionsResponse(throttle_time_ms=0, topics=topics)


class TopicPartitionsPage:
    """The topics of one answer, each encoded. Those without errors are kept for later answers."""

    def __init__(self, broker: Context, call: Call) -> None:
        self.broker = broker
        self.call = call
        if broker.authorizer is None:
            self._kept = broker.topic_answers.of(DescribeTopicPartitionsResponse, call.api_version)
        else:
            self._kept = EncodedTopics({}, {})  # not for others, who may do other things
        self._elements = 0

    def is_due(self) -> bool:
        """Count one more element. Return whether the step is over."""
        self._elements += 1
        if self._elements < STEP_PARTITIONS:
            return False
        self._elements = 0
        return True

    def whole(self, topic: Topic) -> bytes:
        """The encoded answer for a topic with few partitions."""
        kept = self._kept.topics.get(topic.id)
        if kept is not None:
            return kept
        self._elements += len(topic.partitions)
        partitions = [_partition(self.broker, topic, index) for index in sorted(topic.partitions)]
        answer = self._known(topic, partitions)
        if not self._count_errors(partitions):
            self._kept.topics[topic.id] = answer
        return answer

    def part(self, topic: Topic, first_index: int, limit: int) -> Generator[None, None, tuple[bytes, int, int | None]]:
        """Encode at most ``limit`` partitions from ``first_index`` on. Return them, their number, and the first index
        of the next page."""
        indexes = sorted(topic.partitions)
        del indexes[: bisect_left(indexes, first_index)]
        page = indexes[:limit]
        kept = self._kept.partitions.setdefault(topic.id, {})
        partitions = EncodedStructs()
        for index in page:
            known = kept.get(index)
            if known is None:
                partition = _partition(self.broker, topic, index)
                known = self._encoded(partition)
                if not self._count_errors([partition]):
                    kept[index] = known
                if self.is_due():
                    yield
            partitions.append(known)
        return self._known(topic, partitions), len(page), indexes[limit] if len(indexes) > limit else None

    def unknown(self, name: str) -> bytes:
        """The encoded answer for a topic that does not exist."""
        code = error_codes.UNKNOWN_TOPIC_OR_PARTITION
        if reason_invalid(name) is not None:
            code = error_codes.INVALID_TOPIC_EXCEPTION
        answer = DescribeTopicPartitionsResponseTopic(
            error_code=code,
            name=name,
            topic_id=ZERO_UUID,
            is_internal=name in INTERNAL,
            partitions=[],
            topic_authorized_operations=self._operations(name),
        )
        self._count_errors([answer])
        return self._encoded(answer)

    def refused(self, name: str) -> bytes:
        """The encoded answer for a topic that the sender may not describe."""
        answer = DescribeTopicPartitionsResponseTopic(
            error_code=error_codes.TOPIC_AUTHORIZATION_FAILED, name=name, topic_id=ZERO_UUID, partitions=[]
        )
        self._count_errors([answer])
        return self._encoded(answer)

    def _operations(self, name: str) -> int:
        return allowed_operations(self.broker, self.call, ResourceType.TOPIC, name)

    def _known(self, topic: Topic, partitions: list[DescribeTopicPartitionsResponsePartition]) -> bytes:
        return self._encoded(
            DescribeTopicPartitionsResponseTopic(
                error_code=error_codes.NONE,
                name=topic.name,
                topic_id=topic.id,
                is_internal=topic.name in INTERNAL,
                partitions=partitions,
                topic_authorized_operations=self._operations(topic.name),
            )
        )

    def _encoded(self, struct: object) -> bytes:
        return encode_struct(struct, DescribeTopicPartitionsResponse, self.call.api_version)

    def _count_errors(self, answers: Sequence[Answer]) -> int:
        """Count the errors, and return their number. They cannot be found in the encoded answer later."""
        codes = [answer.error_code for answer in answers if answer.error_code]
        for code in codes:
            self.call.counters.count_error(code)
        return len(codes)


def _partition(broker: Context, topic: Topic, index: int) -> DescribeTopicPartitionsResponsePartition:
    partition = topic.partitions[index]
    alive = broker.alive_brokers
    leads = partition.leader in alive
    return DescribeTopicPartitionsResponsePartition(
        error_code=error_codes.NONE if leads else error_codes.LEADER_NOT_AVAILABLE,
        partition_index=index,
        leader_id=partition.leader if leads else -1,
        leader_epoch=partition.leader_epoch,
        replica_nodes=list(partition.replicas),
        isr_nodes=list(partition.isr),
        eligible_leader_replicas=list(partition.elr),
        last_known_elr=list(partition.last_known_elr),
        offline_replicas=offline_replicas(broker, partition),
    )
