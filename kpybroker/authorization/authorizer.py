"""The decisions of ``StandardAuthorizer``: may a principal at an address do this with a resource?

Super users may do everything. Of the ACLs whose pattern covers the resource, those count that name the principal, the
address and the operation. A DENY among them denies, else an ALLOW allows. Where no ACL covers the resource at all,
``allow.everyone.if.no.acl.found`` decides.
"""

from collections.abc import Iterable, Mapping

from kpybroker.authorization.resources import IMPLIED_BY, WILDCARD, Operation, PatternType, Permission, ResourceType
from kpybroker.calls.principal import EVERYONE, USER, Principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord as Acl


class Authorizer:
    """The ACLs of the committed metadata, with the super users of this node."""

    def __init__(self, super_users: frozenset[Principal], *, allows_without_acl: bool) -> None:
        """``allows_without_acl``: ``allow.everyone.if.no.acl.found``."""
        self.super_users = super_users
        self.allows_without_acl = allows_without_acl
        self._acls: Mapping[bytes, Acl] = {}

    def acls_changed(self, acls: Mapping[bytes, Acl], changed: Iterable[bytes]) -> None:
        """Decide by these ACLs from now on; ``changed`` are the ids of those that came, went or changed."""
        del changed
        self._acls = acls

    def allows(self, principal: Principal, host: str, operation: Operation, kind: ResourceType, name: str) -> bool:
        """Whether a principal at an address may do this with the resource of this type and name."""
        if principal in self.super_users:
            return True
        covering = [acl for acl in self._acls.values() if acl.resource_type == kind and _covers(acl, name)]
        if not covering:
            return self.allows_without_acl
        about = [acl for acl in covering if _names(acl, principal, host)]
        if any(acl.permission_type == Permission.DENY and acl.operation in (operation, Operation.ALL) for acl in about):
            return False
        enough = (operation, Operation.ALL, *IMPLIED_BY.get(operation, ()))
        return any(acl.permission_type == Permission.ALLOW and acl.operation in enough for acl in about)


def _covers(acl: Acl, name: str) -> bool:
    if acl.pattern_type == PatternType.PREFIXED:
        return name.startswith(acl.resource_name)
    return acl.resource_name in (name, WILDCARD)


def _names(acl: Acl, principal: Principal, host: str) -> bool:
    if acl.host not in (host, WILDCARD):
        return False
    return acl.principal == str(principal) or (acl.principal == EVERYONE and principal.principal_type == USER)
