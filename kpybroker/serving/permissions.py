"""May the sender of a request do this? Without an authorizer everything is allowed."""

from typing import Protocol

from kpybroker.authorization import audit
from kpybroker.authorization.authorizer import Authorizer
from kpybroker.authorization.resources import CLUSTER_NAME, Operation, ResourceType
from kpybroker.calls.address import java_address
from kpybroker.calls.call import Call


class Guarded(Protocol):
    """A broker or a controller."""

    @property
    def authorizer(self) -> Authorizer | None: ...


def may(
    node: Guarded, call: Call, operation: Operation, kind: ResourceType, name: str, *, logs_denial: bool = True
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
        audit.note(rule, call.principal, host, operation, kind, name, call.api_key)
    return rule.allows


def may_on_cluster(node: Guarded, call: Call, operation: Operation) -> bool:
    """Like `may`, with the cluster as a whole."""
    return may(node, call, operation, ResourceType.CLUSTER, CLUSTER_NAME)


def may_with_any(node: Guarded, call: Call, operation: Operation, kind: ResourceType) -> bool:
    """Whether the sender of a request may do this with any resource of a type (``authorizeByResourceType``)."""
    authorizer = node.authorizer
    return authorizer is None or authorizer.allows_any(call.principal, java_address(call.host), operation, kind)
