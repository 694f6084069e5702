"""The sender of one request to the console, and what it may do."""

from http import HTTPStatus
from typing import NamedTuple

from kpybroker.machines.authorization.authorizer import Authorizer
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.content import visible
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.runtime.calls.address import java_address
from kpybroker.runtime.calls.principal import ANONYMOUS, Principal
from kpybroker.runtime.http.request import HttpRefused


class Viewer(NamedTuple):
    """A principal at a host. Without an authorizer it may do everything that the console offers."""

    principal: Principal
    host: str
    authorizer: Authorizer | None
    password: str | None = None
    """The password of its login, to log in at other nodes; None if it has not logged in."""

    def __repr__(self) -> str:
        return f"Viewer({self.principal}, {self.host!r})"

    @property
    def identity(self) -> str:
        """The viewer in the lines of the log: whatever is in its name, they stay one line."""
        return visible(f"{self.principal} at {self.host}").replace("\n", "<U+000A>").replace("\t", "<U+0009>")

    def may(self, operation: AclOperation, kind: ResourceType, name: str) -> bool:
        """Whether it may do this with a resource."""
        if self.authorizer is None:
            return True
        try:
            return self.authorizer.allows(self.principal, java_address(self.host), operation, kind, name)
        except AuthorizerNotReady:
            return False

    def must(self, operation: AclOperation, kind: ResourceType, name: str) -> None:
        """Raise Refused if it may not do this."""
        if not self.may(operation, kind, name):
            what = "the cluster" if kind == ResourceType.CLUSTER else f"{kind.name.lower()} {name}"
            hint = "; kpybroker.http.users=scram lets users log in" if self.principal == ANONYMOUS else ""
            raise HttpRefused(HTTPStatus.FORBIDDEN, f"{self.principal} lacks {operation.name} on {what}{hint}")

    def must_see_node(self) -> None:
        """Raise Refused if it may not see the node itself: that takes DESCRIBE on the cluster, as for metrics."""
        self.must(AclOperation.DESCRIBE, ResourceType.CLUSTER, CLUSTER_NAME)

    def may_see_topic(self, topic: str) -> bool:
        """Whether it may know that a topic exists."""
        return self.may(AclOperation.DESCRIBE, ResourceType.TOPIC, topic)
