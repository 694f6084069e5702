"""The guards of requests that the controller decides topic by topic (``ControllerApis``)."""

from collections.abc import Collection, Generator, Iterable
from itertools import chain
from typing import Any, TypeVar

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.metadata.topic_name import CLUSTER_METADATA
from kpybroker.requests.guards.parts import parted, with_only
from kpybroker.requests.guards.verdict import InSteps, Reduced, Verdict
from kpybroker.requests.serving.permissions import GuardedImage, denied_among, may_on_cluster
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.scattered import Scattered
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
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

T = TypeVar("T")
_DENIED = error_codes.TOPIC_AUTHORIZATION_FAILED


def create_topics(node: GuardedImage, request: CreateTopicsRequest, call: Call) -> InSteps:
    """CreateTopics: CREATE on the cluster or on each topic. The configs of a new topic are shown with DESCRIBE_CONFIGS.

    A name that occurs twice, and the metadata's own, are left to the controller's decision.
    """
    names = yield from _named_once(topic.name if topic.name != CLUSTER_METADATA else None for topic in request.topics)
    denied: Collection[str] = ()
    if not may_on_cluster(node, call, AclOperation.CREATE, logs_denial=False):
        denied = yield from denied_among(node, call, AclOperation.CREATE, ResourceType.TOPIC, names)
    shown = (None if name in denied else name for name in names)
    without_configs = yield from denied_among(
        node, call, AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC, shown, logs_denial=False
    )
    if not denied and not without_configs:
        return None
    out, rest = yield from parted(request.topics, lambda topic: topic.name in denied)

    def complete(response: CreateTopicsResponse) -> Generator[None, None, CreateTopicsResponse]:
        for nth, result in enumerate(response.topics, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            if result.name in without_configs and result.error_code == error_codes.NONE:
                result.configs, result.num_partitions, result.replication_factor = [], -1, -1
                result.topic_config_error_code = _DENIED
        answers = list(response.topics)
        for nth, topic in enumerate(out, 1):
            if nth % STEP_ELEMENTS == 0:
                yield
            answers.append(
                CreatableTopicResult(name=topic.name, error_code=_DENIED, error_message="Authorization failed.")
            )
        response.topics = answers
        return response

    return Reduced(with_only(request, "topics", rest), complete)


def create_partitions(node: GuardedImage, request: CreatePartitionsRequest, call: Call) -> InSteps:
    """CreatePartitions: ALTER on each topic. A name that occurs twice is left to the controller's decision."""
    names = yield from _named_once(topic.name for topic in request.topics)
    denied = yield from denied_among(node, call, AclOperation.ALTER, ResourceType.TOPIC, names)
    if not denied:
        return None
    out, rest = yield from parted(request.topics, lambda topic: topic.name in denied)
    refusals: list[CreatePartitionsTopicResult] = []
    for nth, topic in enumerate(out, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        refusals.append(CreatePartitionsTopicResult(name=topic.name, error_code=_DENIED))

    def complete(response: CreatePartitionsResponse) -> CreatePartitionsResponse:
        response.results = [*refusals, *response.results]
        return response

    return Reduced(with_only(request, "topics", rest), complete)


def _counted(elements: Iterable[T | None]) -> Generator[None, None, Scattered[T, int]]:
    """Return how often each element but None occurs, in steps."""
    times: Scattered[T, int] = Scattered()
    for nth, element in enumerate(elements, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        if element is not None:
            times[element] = times.get(element, 0) + 1
    return times


def _named_once(names: Iterable[str | None]) -> Generator[None, None, list[str]]:
    """Return the names that occur once, in their order and in steps."""
    times = yield from _counted(names)
    _, once = yield from parted(times, lambda name: times[name] > 1)
    yield from times.emptied()
    return once


def delete_topics(node: GuardedImage, request: DeleteTopicsRequest, call: Call) -> Verdict | InSteps:
    """DeleteTopics: DELETE on the cluster or on each topic. Without DESCRIBE a sender that knows only a topic's id does
    not learn its name, and a name that exists looks like one that does not."""
    if may_on_cluster(node, call, AclOperation.DELETE, logs_denial=False):
        return None
    return _deleted(node, request, call)


def _deleted(node: GuardedImage, request: DeleteTopicsRequest, call: Call) -> InSteps:
    names = yield from _counted(chain(request.topic_names, (each.name for each in request.topics)))
    ids = yield from _counted(each.topic_id if each.name is None else None for each in request.topics)
    known: Scattered[bytes, str] = Scattered()
    for nth, topic_id in enumerate(ids, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        found = node.image.topics_by_id.get(topic_id)
        if found is not None:
            known[topic_id] = found.name
    everything = chain((name if times == 1 else None for name, times in names.items()), known.values())
    undeletable = yield from denied_among(node, call, AclOperation.DELETE, ResourceType.TOPIC, everything)
    if not undeletable:
        return None
    hidden = yield from denied_among(node, call, AclOperation.DESCRIBE, ResourceType.TOPIC, undeletable)
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

    _, rest_topics = yield from parted(request.topics, lambda each: is_refused(each.name, each.topic_id))
    rest: Any = with_only(request, "topics", rest_topics)
    _, rest.topic_names = yield from parted(request.topic_names, lambda name: is_refused(name, ZERO_UUID))
    for each in (names, ids, known, undeletable, hidden):
        yield from each.emptied()

    def complete(response: DeleteTopicsResponse) -> DeleteTopicsResponse:
        response.responses = [*response.responses, *refusals]
        return response

    return Reduced(rest, complete)


def _refusal(name: str | None, topic_id: bytes) -> DeletableTopicResult:
    message = error_codes.message(_DENIED)
    return DeletableTopicResult(name=name, topic_id=topic_id, error_code=_DENIED, error_message=message)
