"""The decisions of Kafka's ``AclAuthorizer``, with which clusters in ZooKeeper work.

They are those of ``StandardAuthorizer``, but for the question whether somebody may do something with any resource of a
type. No resource is probed for it, and with ``allow.everyone.if.no.acl.found`` only a DENY of everything denies it.
Networks in ACLs mean nothing, as to Kafka 3.9, with which a cluster in ZooKeeper may share its ACLs.
"""

from typing import Final

from kpybroker.machines.authorization.authorizer import EVERYTHING, Authorizer, MatchingRule
from kpybroker.machines.authorization.resources import AclOperation, Permission, ResourceType
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.runtime.calls.principal import Principal

ALLOWED: Final = MatchingRule(name="", allows=True)
DENIED: Final = MatchingRule(name="", allows=False)
"""Kafka's log does not say which ACL decides."""


class AclAuthorizer(Authorizer):
    """The ACLs of ZooKeeper, with the super users of this node."""

    def __init__(
        self, super_users: frozenset[Principal], *, allows_without_acl: bool, awaits_acls: bool = False
    ) -> None:
        super().__init__(
            super_users, allows_without_acl=allows_without_acl, awaits_acls=awaits_acls, reads_networks=False
        )

    def allows_any(self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType) -> bool:
        """Whether a principal at an address may do this with any resource of a type."""
        if principal in self.super_users:
            return True
        if self.awaits_acls:
            raise AuthorizerNotReady
        if self.allows_without_acl:
            allows = EVERYTHING not in self._patterns(principal, host, operation, kind, Permission.DENY)
        else:
            allows = self._allows_any(principal, host, operation, kind)
        if allows:
            self.allowed_count += 1
        else:
            self.denied_count += 1
        return allows

    def _decided(
        self, principal: Principal, host: str, operation: AclOperation, kind: ResourceType, name: str
    ) -> MatchingRule:
        return ALLOWED if super()._decided(principal, host, operation, kind, name).allows else DENIED
