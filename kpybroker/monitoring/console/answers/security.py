"""The page of ACLs, users and listeners."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar

from kpybroker.machines.authorization.resources import AclOperation, PatternType, ResourceType
from kpybroker.machines.console.listing import Keys, sorted_rows
from kpybroker.machines.console.security import (
    ACL_KEYS,
    LISTENER_KEYS,
    USER_KEYS,
    AclRow,
    ListenerRow,
    SecurityPage,
    UserRow,
)
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_acls import DescribeAclsRequest
from kpywire.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest

T = TypeVar("T")
ANY: Final = 1
PERMISSIONS: Final = {2: "deny", 3: "allow"}
MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
MOST_ROWS: Final = 2_000


async def security(node: NodeParts, viewer: Viewer, query: Query) -> SecurityPage:
    """The page. Each part is asked for with the viewer's identity, and may be hidden from it."""
    hidden: list[str] = []
    sort = query.text("sort")

    async def part(what: str, request: Any, rows: Callable[[Any], Iterable[T]], keys: Keys[T]) -> tuple[T, ...]:
        try:
            answer = await node.ask(viewer, request)
            refuse(answer.error_code, what, answer.error_message)
        except HttpRefused as refused:
            hidden.append(str(refused))
            return ()
        found = await sorted_in_pieces([row async for row in paced(rows(answer))], keys, sort)
        if len(found) > MOST_ROWS:
            hidden.append(f"{len(found) - MOST_ROWS} more {what} are left out")
        return tuple(found[:MOST_ROWS])

    every_acl = DescribeAclsRequest(
        resource_type_filter=ANY,
        resource_name_filter=None,
        pattern_type_filter=ANY,
        principal_filter=None,
        host_filter=None,
        operation=ANY,
        permission_type=ANY,
    )
    has_authorizer = viewer.authorizer is not None
    listeners = [
        ListenerRow(each.name, f"{each.host}:{each.port}", each.protocol) for each in node.broker.config.listeners
    ]
    return SecurityPage(
        has_authorizer,
        str(viewer.principal),
        tuple(sorted_rows(listeners, LISTENER_KEYS, sort)),
        await part("ACLs", every_acl, _acls, ACL_KEYS) if has_authorizer else (),
        await part("users", DescribeUserScramCredentialsRequest(users=None), _users, USER_KEYS),
        tuple(hidden),
    )


def _acls(answer: Any) -> Iterator[AclRow]:
    return (
        AclRow(
            acl.principal,
            acl.host,
            PERMISSIONS.get(acl.permission_type, "unknown"),
            AclOperation.of(acl.operation).pascal_name,
            ResourceType.of(resource.resource_type).pascal_name,
            resource.resource_name,
            PatternType.of(resource.pattern_type).name.lower(),
        )
        for resource in answer.resources
        for acl in resource.acls
    )


def _users(answer: Any) -> Iterator[UserRow]:
    return (
        UserRow(each.user, tuple(MECHANISMS.get(info.mechanism, "unknown") for info in each.credential_infos))
        for each in answer.results
    )
