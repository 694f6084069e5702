"""Guards that divide a request: its allowed elements go to the handler, the others are refused in Kafka's form."""

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.calls.call import Call
from kpybroker.failed_response import failed_response
from kpybroker.guards.verdict import Guard, Reduced, Verdict
from kpybroker.serving.permissions import Guarded, GuardedImage, denied_topics, may
from kpywire import error_codes


def with_only(request: Any, field: str, elements: Sequence[Any]) -> Any:
    """A request with only these elements."""
    part = copy(request)
    setattr(part, field, list(elements))
    return part


def divided(request: Any, call: Call, fields: tuple[str, str], is_denied: Callable[[Any], bool], code: int) -> Verdict:
    """The verdict on a request whose elements are allowed one by one. ``fields``: the list in the request, and that of
    the response, where the refusals come last."""
    asked, answered = fields
    elements = getattr(request, asked)
    denied = [element for element in elements if is_denied(element)]
    if not denied:
        return None
    refusals = getattr(failed_response(with_only(request, asked, denied), call.api_version, code), answered)
    rest = [element for element in elements if not is_denied(element)]

    def complete(response: Any) -> Any:
        setattr(response, answered, [*getattr(response, answered), *refusals])
        return response

    return Reduced(with_only(request, asked, rest), complete)


def by_topic(operation: Operation, name_of: Callable[[Any], str] = lambda topic: topic.name) -> Guard:
    """A guard of requests with a list ``topics``, which are answered in such a list: TOPIC_AUTHORIZATION_FAILED for
    each partition of the others."""

    def guard(node: GuardedImage, request: Any, call: Call) -> Verdict:
        denied = denied_topics(node, call, operation, map(name_of, request.topics))
        if not denied:
            return None
        code = error_codes.TOPIC_AUTHORIZATION_FAILED
        return divided(request, call, ("topics", "topics"), lambda topic: name_of(topic) in denied, code)

    return guard


def denied_names(
    node: Guarded, call: Call, operation: Operation, kind: ResourceType, names: Iterable[str]
) -> frozenset[str]:
    """The resources among ``names`` with which the sender of a request may not do this."""
    return frozenset(name for name in set(names) if not may(node, call, operation, kind, name))
