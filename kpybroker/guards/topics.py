"""The guards of requests about topics and their partitions."""

from typing import Any

from kpybroker.authorization.resources import Operation
from kpybroker.calls.call import Call
from kpybroker.guards.parts import by_topic, with_only
from kpybroker.guards.verdict import Reduced, Verdict
from kpybroker.metadata.topic_name import reason_invalid
from kpybroker.serving.permissions import GuardedImage, denied_topics, may_on_cluster
from kpywire import error_codes
from kpywire.messages.describe_producers import DescribeProducersRequest, PartitionResponse, TopicResponse

list_offsets = by_topic(Operation.DESCRIBE)
"""ListOffsets: DESCRIBE on each topic."""
delete_records = by_topic(Operation.DELETE)
"""DeleteRecords: DELETE on each topic."""
_describe_epochs = by_topic(Operation.DESCRIBE, lambda topic: topic.topic)


def offset_for_leader_epoch(node: GuardedImage, request: Any, call: Call) -> Verdict:
    """OffsetForLeaderEpoch: CLUSTER_ACTION for other brokers, else DESCRIBE on each topic."""
    if may_on_cluster(node, call, Operation.CLUSTER_ACTION):
        return None
    return _describe_epochs(node, request, call)


def describe_producers(node: GuardedImage, request: DescribeProducersRequest, call: Call) -> Verdict:
    """DescribeProducers: READ on each topic. They are answered in the order of the request; an invalid name comes
    first."""
    names = [topic.name for topic in request.topics if reason_invalid(topic.name) is None]
    denied = denied_topics(node, call, Operation.READ, names)
    if not denied:
        return None
    allowed = [topic for topic in request.topics if topic.name not in denied]
    code = error_codes.TOPIC_AUTHORIZATION_FAILED

    def complete(response: Any) -> Any:
        answered = iter(response.topics)
        response.topics = [
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=index,
                        error_code=code,
                        error_message=error_codes.message(code),
                        active_producers=[],
                    )
                    for index in topic.partition_indexes
                ],
            )
            if topic.name in denied
            else next(answered)
            for topic in request.topics
        ]
        return response

    return Reduced(with_only(request, "topics", allowed), complete)
