"""Guards that divide a request: its allowed elements go to the handler, the others are refused in Kafka's form."""

from collections.abc import Callable, Generator, Iterable, Sequence
from copy import copy
from typing import Any, TypeVar

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.failed_response import failing
from kpybroker.requests.guards.verdict import Guard, InSteps, Reduced
from kpybroker.requests.serving.permissions import GuardedImage, denied_among
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import STEP_ELEMENTS
from kpywire import error_codes

T = TypeVar("T")


def with_only(request: Any, field: str, elements: Sequence[Any]) -> Any:
    """A request with only these elements."""
    part = copy(request)
    setattr(part, field, list(elements))
    return part


def parted(elements: Iterable[T], is_denied: Callable[[T], bool]) -> Generator[None, None, tuple[list[T], list[T]]]:
    """Return the denied elements and the others, in steps."""
    denied: list[T] = []
    rest: list[T] = []
    for nth, element in enumerate(elements, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        (denied if is_denied(element) else rest).append(element)
    return denied, rest


def merged(
    elements: Iterable[T], is_denied: Callable[[T], bool], refusals: Iterable[Any], answers: Iterable[Any]
) -> Generator[None, None, list[Any]]:
    """Return what answers the elements, in their order and in steps: a refusal or an answer, the next one of each."""
    refused, answered = iter(refusals), iter(answers)
    found: list[Any] = []
    for nth, element in enumerate(elements, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        found.append(next(refused if is_denied(element) else answered))
    return found


def refused_topics(
    topics: Iterable[Any],
    indexes_of: Callable[[Any], Iterable[int]],
    partition_of: Callable[[int], Any],
    topic_of: Callable[[Any, list[Any]], Any],
) -> Generator[None, None, list[Any]]:
    """Return the answers for topics that are denied, in steps: ``topic_of`` a topic and the answers for its
    partitions."""
    refusals: list[Any] = []
    passed = 0
    for topic in topics:
        partitions: list[Any] = []
        for index in indexes_of(topic):
            passed += 1
            if passed % STEP_ELEMENTS == 0:
                yield
            partitions.append(partition_of(index))
        passed += 1
        if passed % STEP_ELEMENTS == 0:
            yield
        refusals.append(topic_of(topic, partitions))
    return refusals


def divided(request: Any, call: Call, fields: tuple[str, str], is_denied: Callable[[Any], bool], code: int) -> InSteps:
    """The verdict on a request whose elements are allowed one by one. ``fields``: the list in the request, and that of
    the response, where the refusals come last."""
    asked, answered = fields
    denied, rest = yield from parted(getattr(request, asked), is_denied)
    if not denied:
        return None
    refusal = yield from failing(with_only(request, asked, denied), call.api_version, code)
    refusals = getattr(refusal, answered)

    def complete(response: Any) -> Any:
        setattr(response, answered, [*getattr(response, answered), *refusals])
        return response

    return Reduced(with_only(request, asked, rest), complete)


def by_topic(operation: AclOperation, name_of: Callable[[Any], str] = lambda topic: topic.name) -> Guard:
    """A guard of requests with a list ``topics``, which are answered in such a list: TOPIC_AUTHORIZATION_FAILED for
    each partition of the others."""

    def guard(node: GuardedImage, request: Any, call: Call) -> InSteps:
        denied = yield from denied_among(node, call, operation, ResourceType.TOPIC, map(name_of, request.topics))
        if not denied:
            return None
        code = error_codes.TOPIC_AUTHORIZATION_FAILED
        is_denied = lambda topic: name_of(topic) in denied  # noqa: E731
        verdict = yield from divided(request, call, ("topics", "topics"), is_denied, code)
        yield from denied.emptied()
        return verdict

    return guard
