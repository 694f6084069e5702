"""The descriptions of groups of one kind, for the handlers ConsumerGroupDescribe, ShareGroupDescribe and
StreamsGroupDescribe.

These hold for each kind:

- Every group is UNSUPPORTED_VERSION while the kind is not served.
- A group without a name is INVALID_GROUP_ID; one that is of another kind or unknown, what its coordinator says.
- A group with a topic that the sender may not describe is TOPIC_AUTHORIZATION_FAILED.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.group_requests import coordinator_error, group_request
from kpybroker.requests.serving.permissions import allowed_operations, denied_topics
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work, asked_once
from kpywire import error_codes


class DescribedKind(NamedTuple):
    """A kind of groups, as its describe request has it."""

    response: Callable[..., Any]
    """The class of the response."""
    is_served: Callable[[Context], bool]
    event: Callable[[str], Any]
    """The message to the coordinator, from the id of a group."""
    not_described: Callable[..., Any]
    """A group that is not described, from its id, an error code and perhaps a text."""
    topics: Callable[[Any], Collection[str]]
    """The topics that a description names."""
    denied: str
    """The text to a sender who may not describe one of them."""


def described_groups(broker: Context, request: Any, call: Call, kind: DescribedKind) -> Work:
    """Ask the coordinator of each group."""
    operations = request.include_authorized_operations
    return (
        yield from asked_once(
            request.group_ids,
            lambda group_id: _ask(broker, group_id, call, kind, with_operations=operations),
            lambda groups: kind.response(throttle_time_ms=0, groups=groups),
        )
    )


def _ask(broker: Context, group_id: str, call: Call, kind: DescribedKind, *, with_operations: bool) -> Any:
    if not kind.is_served(broker):
        return kind.not_described(group_id, error_codes.UNSUPPORTED_VERSION)
    if not group_id:
        return kind.not_described(group_id, error_codes.INVALID_GROUP_ID)

    def answer(group: Any) -> Any:
        if group.error_code != error_codes.NONE:
            return group
        if denied_topics(broker, call, AclOperation.DESCRIBE, kind.topics(group)):
            return kind.not_described(group_id, error_codes.TOPIC_AUTHORIZATION_FAILED, kind.denied)
        if with_operations:
            group.authorized_operations = allowed_operations(broker, call, ResourceType.GROUP, group_id)
        return group

    return broker.groups.submit(
        group_id,
        group_request(broker, kind.event(group_id), call),
        lambda code: kind.not_described(group_id, coordinator_error(code)),
        answer=answer,
        writes=False,
    )
