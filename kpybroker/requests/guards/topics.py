"""The guards of requests about topics and their partitions."""

from collections.abc import Generator
from typing import Any

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.metadata.topic_name import reason_invalid
from kpybroker.requests.guards.parts import by_topic, merged, parted, refused_topics, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced, Verdict
from kpybroker.requests.serving.permissions import GuardedImage, denied_among, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicResponse

list_offsets = by_topic(AclOperation.DESCRIBE)
"""ListOffsets: DESCRIBE on each topic."""
delete_records = by_topic(AclOperation.DELETE)
"""DeleteRecords: DELETE on each topic."""
_describe_epochs = by_topic(AclOperation.DESCRIBE, lambda topic: topic.topic)


def offset_for_leader_epoch(node: GuardedImage, request: Any, call: Call) -> Verdict | InSteps:
    """OffsetForLeaderEpoch: CLUSTER_ACTION for other brokers, else DESCRIBE on each topic."""
    if may_on_cluster(node, call, AclOperation.CLUSTER_ACTION):
        return None
    return _describe_epochs(node, request, call)


def describe_producers(node: GuardedImage, request: DescribeProducersRequest, call: Call) -> InSteps:
    """DescribeProducers: READ on each topic. They are answered in the order of the request; an invalid name comes
    first."""
    names = (topic.name if reason_invalid(topic.name) is None else None for topic in request.topics)
    denied = yield from denied_among(node, call, AclOperation.READ, ResourceType.TOPIC, names)
    if not denied:
        return None
    code = error_codes.TOPIC_AUTHORIZATION_FAILED
    is_denied = lambda topic: topic.name in denied  # noqa: E731
    out, allowed = yield from parted(request.topics, is_denied)
    message = error_codes.message(code)
    refusals = yield from refused_topics(
        out,
        lambda topic: topic.partition_indexes,
        lambda index: PartitionResponse(
            partition_index=index, error_code=code, error_message=message, active_producers=[]
        ),
        lambda topic, partitions: TopicResponse(name=topic.name, partitions=partitions),
    )

    def complete(response: Any) -> Generator[None, None, Any]:
        response.topics = yield from merged(request.topics, is_denied, refusals, response.topics)
        return response

    return Reduced(with_only(request, "topics", allowed), complete)
