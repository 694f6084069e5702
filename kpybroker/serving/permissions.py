"""May the sender of a request do this? Without an authorizer everything is allowed."""

from typing import Protocol

from kpybroker.authorization.authorizer import Authorizer
from kpybroker.authorization.resources import CLUSTER_NAME, Operation, ResourceType
from kpybroker.calls.address import java_address
from kpybroker.calls.call import Call


class Guarded(Protocol):
    """A broker or a controller."""

    @property
    def authorizer(self) -> Authorizer | None: ...


def may(node: Guarded, call: Call, operation: Operation, kind: ResourceType, name: str) -> bool:
    """Whether the sender of a request may do this with the resource of this type and name."""
    authorizer = node.authorizer
    if authorizer is None:
        return True
    return authorizer.allows(call.principal, java_address(call.host), operation, kind, name)


def may_on_cluster(node: Guarded, call: Call, operation: Operation) -> bool:
    """Like `may`, with the cluster as a whole."""
    return may(node, call, operation, ResourceType.CLUSTER, CLUSTER_NAME)
