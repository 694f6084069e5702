"""May the sender of a request do this? Without an authorizer everything is allowed."""

from collections.abc import Generator, Iterable
from typing import Final, Protocol

from kpybroker.machines.authorization import audit
from kpybroker.machines.authorization.authorizer import Authorizer, MatchingRule
from kpybroker.machines.authorization.resources import CLUSTER_NAME, SUPPORTED_OPERATIONS, AclOperation, ResourceType
from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.scattered import Scattered
from kpybroker.runtime.calls.steps import STEP_ELEMENTS

_EVERYTHING: Final = {kind: sum(1 << each for each in operations) for kind, operations in SUPPORTED_OPERATIONS.items()}
"""The bit masks of all operations, by type."""
NONE_DENIED: Final[frozenset[str]] = frozenset()


class Guarded(Protocol):
    """A broker or a controller."""

    @property
    def authorizer(self) -> Authorizer | None: ...


class GuardedImage(Guarded, Protocol):
    """A broker or a controller, with its committed metadata."""

    @property
    def image(self) -> MetadataImage: ...


def may(
    node: Guarded, call: Call, operation: AclOperation, kind: ResourceType, name: str, *, logs_denial: bool = True
) -> bool:
    """Whether the sender of a request may do this with the resource of this type and name.

    ``logs_denial`` is false where what is denied is only left out of an answer (``Action.logIfDenied``).
    """
    authorizer = node.authorizer
    if authorizer is None:
        return True
    host = java_address(call.host)
    rule = authorizer.decide(call.principal, host, operation, kind, name)
    if (rule.allows or logs_denial) and audit.is_logged(rule):
        _note(rule, call, host, operation, kind, name)
    return rule.allows


def _note(rule: MatchingRule, call: Call, host: str, operation: AclOperation, kind: ResourceType, name: str) -> None:
    """Log a decision, if not too many of the same request were logged before."""
    answered_ns = call.peer.answered_ns
    if call.audited_ns != answered_ns:
        call.audited_ns, call.audited = answered_ns, 0
    call.audited += 1
    if call.audited <= audit.MOST_LINES:
        audit.note(rule, call.principal, host, operation, kind, name, call.api_key)
    elif call.audited == audit.MOST_LINES + 1:
        audit.note_more(call.principal, host, call.api_key)


def may_on_cluster(node: Guarded, call: Call, operation: AclOperation, *, logs_denial: bool = True) -> bool:
    """Like `may`, with the cluster as a whole."""
    return may(node, call, operation, ResourceType.CLUSTER, CLUSTER_NAME, logs_denial=logs_denial)


def may_with_any(node: Guarded, call: Call, operation: AclOperation, kind: ResourceType) -> bool:
    """Whether the sender of a request may do this with any resource of a type (``authorizeByResourceType``)."""
    authorizer = node.authorizer
    return authorizer is None or authorizer.allows_any(call.principal, java_address(call.host), operation, kind)


def denied_topics(
    node: Guarded, call: Call, operation: AclOperation, names: Iterable[str], *, logs_denial: bool = True
) -> frozenset[str]:
    """The topics among ``names`` with which the sender of a request may not do this. For a few names: see
    `denied_among`."""
    if node.authorizer is None:
        return NONE_DENIED
    return frozenset(
        name
        for name in dict.fromkeys(names)
        if not may(node, call, operation, ResourceType.TOPIC, name, logs_denial=logs_denial)
    )


def denied_among(
    node: Guarded,
    call: Call,
    operation: AclOperation,
    kind: ResourceType,
    names: Iterable[str | None],
    *,
    logs_denial: bool = True,
) -> Generator[None, None, Scattered[str, bool]]:
    """Return the resources of a type among ``names`` with which the sender of a request may not do this, in steps. None
    is no name: an iterator that leaves out many names by itself would do that in one step."""
    denied: Scattered[str, bool] = Scattered()
    if node.authorizer is None:
        return denied
    allowed: Scattered[str, bool] = Scattered()
    for nth, name in enumerate(names, 1):
        if nth % STEP_ELEMENTS == 0:
            yield
        if name is not None and name not in allowed and name not in denied:
            is_allowed = may(node, call, operation, kind, name, logs_denial=logs_denial)
            (allowed if is_allowed else denied)[name] = is_allowed
    yield from allowed.emptied()
    return denied


def allowed_operations(node: Guarded, call: Call, kind: ResourceType, name: str) -> int:
    """The operations that the sender of a request may do with a resource, as a bit mask (KIP-430)."""
    if node.authorizer is None:
        return _EVERYTHING[kind]
    return sum(
        1 << operation
        for operation in SUPPORTED_OPERATIONS[kind]
        if may(node, call, operation, kind, name, logs_denial=False)
    )


def cluster_operations(node: Guarded, call: Call) -> int:
    """The operations that the sender of a request may do with the cluster, as a bit mask; 0 without DESCRIBE."""
    if not may_on_cluster(node, call, AclOperation.DESCRIBE, logs_denial=False):
        return 0
    return allowed_operations(node, call, ResourceType.CLUSTER, CLUSTER_NAME)
