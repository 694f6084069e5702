"""The guards of requests that the controller decides topic by topic (``ControllerApis``)."""

from collections import Counter
from typing import Any

from kpybroker.authorization.resources import Operation
from kpybroker.calls.call import Call
from kpybroker.guards.parts import with_only
from kpybroker.guards.verdict import Reduced, Verdict
from kpybroker.metadata.topic_name import CLUSTER_METADATA
from kpybroker.serving.permissions import GuardedImage, denied_topics, may_on_cluster
from kpywire import error_codes
from kpywire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from kpywire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from kpywire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kpywire.uuid import ZERO_UUID

_DENIED = error_codes.TOPIC_AUTHORIZATION_FAILED


def create_topics(node: GuardedImage, request: CreateTopicsRequest, call: Call) -> Verdict:
    """CreateTopics: CREATE on the cluster or on each topic. The configs of a new topic are shown with DESCRIBE_CONFIGS.

    A name that occurs twice, and the metadata's own, are left to the controller's decision.
    """
    times = Counter(topic.name for topic in request.topics)
    names = [name for name, count in times.items() if count == 1 and name != CLUSTER_METADATA]
    denied: frozenset[str] = frozenset()
    if not may_on_cluster(node, call, Operation.CREATE, logs_denial=False):
        denied = denied_topics(node, call, Operation.CREATE, names)
    shown = [name for name in names if name not in denied]
    without_configs = denied_topics(node, call, Operation.DESCRIBE_CONFIGS, shown, logs_denial=False)
    if not denied and not without_configs:
        return None

    def complete(response: CreateTopicsResponse) -> CreateTopicsResponse:
        for result in response.topics:
            if result.name in without_configs and result.error_code == error_codes.NONE:
                result.configs, result.num_partitions, result.replication_factor = [], -1, -1
                result.topic_config_error_code = _DENIED
        response.topics = response.topics + [
            CreatableTopicResult(name=name, error_code=_DENIED, error_message="Authorization failed.")
            for name in names
            if name in denied
        ]
        return response

    return Reduced(
        with_only(request, "topics", [topic for topic in request.topics if topic.name not in denied]), complete
    )


def create_partitions(node: GuardedImage, request: CreatePartitionsRequest, call: Call) -> Verdict:
    """CreatePartitions: ALTER on each topic. A name that occurs twice is left to the controller's decision."""
    times = Counter(topic.name for topic in request.topics)
    denied = denied_topics(node, call, Operation.ALTER, [name for name, count in times.items() if count == 1])
    if not denied:
        return None

    def complete(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        refusals = [
            CreatePartitionsTopicResult(name=topic.name, error_code=_DENIED)
            for topic in request.topics
            if topic.name in denied
        ]
        response.results = [*refusals, *response.results]
        return response

    return Reduced(
        with_only(request, "topics", [topic for topic in request.topics if topic.name not in denied]), complete
    )


def delete_topics(node: GuardedImage, request: DeleteTopicsRequest, call: Call) -> Verdict:
    """DeleteTopics: DELETE on the cluster or on each topic. Without DESCRIBE a sender that knows only a topic's id does
    not learn its name, and a name that exists looks like one that does not."""
    if may_on_cluster(node, call, Operation.DELETE, logs_denial=False):
        return None
    names = Counter([*request.topic_names, *(each.name for each in request.topics if each.name is not None)])
    ids = Counter(each.topic_id for each in request.topics if each.name is None)
    known = {topic_id: topic.name for topic_id in ids if (topic := node.image.topics_by_id.get(topic_id)) is not None}
    everything = {name for name, count in names.items() if count == 1} | set(known.values())
    undeletable = denied_topics(node, call, Operation.DELETE, everything)
    if not undeletable:
        return None
    hidden = denied_topics(node, call, Operation.DESCRIBE, undeletable)
    refusals: list[DeletableTopicResult] = []

    def is_refused(name: str | None, topic_id: bytes) -> bool:
        if name is None:
            found = known.get(topic_id)
            if ids[topic_id] != 1 or found not in undeletable:
                return False
            refusals.append(_refusal(None if found in hidden else found, topic_id))
            return True
        there = node.image.topics.get(name)
        if topic_id != ZERO_UUID or names[name] != 1 or name not in undeletable:
            return False
        if there is None and name not in hidden:
            return False  # it may know that the topic does not exist
        refusals.append(_refusal(name, ZERO_UUID if there is None or name in hidden else there.id))
        return True

    rest: Any = with_only(
        request, "topics", [each for each in request.topics if not is_refused(each.name, each.topic_id)]
    )
    rest.topic_names = [name for name in request.topic_names if not is_refused(name, ZERO_UUID)]

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses = [*response.responses, *refusals]
        return response

    return Reduced(rest, complete)


def _refusal(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    message = error_codes.message(_DENIED)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=_DENIED, error_message=message)
