"""ACLs, users and listeners. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys


@dataclass(frozen=True, slots=True)
class AclRow:
    """One ACL."""

    principal: str
    host: str
    permission: str
    operation: str
    resource_type: str
    resource: str
    pattern: str


@dataclass(frozen=True, slots=True)
class UserRow:
    """A user with SCRAM credentials."""

    name: str
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListenerRow:
    """A listener of this node."""

    name: str
    address: str
    protocol: str


@dataclass(frozen=True, slots=True)
class SecurityPage:
    """The protection of this cluster. Parts that the viewer may not see are empty, and ``hidden`` says why."""

    has_authorizer: bool
    you: str
    listeners: tuple[ListenerRow, ...]
    acls: tuple[AclRow, ...]
    users: tuple[UserRow, ...]
    hidden: tuple[str, ...]


LISTENER_KEYS: Final[Keys[ListenerRow]] = {
    "name": lambda row: row.name,
    "address": lambda row: row.address,
    "protocol": lambda row: row.protocol,
}
ACL_KEYS: Final[Keys[AclRow]] = {
    "principal": lambda row: row.principal,
    "host": lambda row: row.host,
    "may": lambda row: row.permission,
    "operation": lambda row: row.operation,
    "resource": lambda row: (row.resource_type, row.resource, row.pattern),
}
USER_KEYS: Final[Keys[UserRow]] = {
    "user": lambda row: row.name,
    "mechanisms": lambda row: row.mechanisms,
}
"""The columns of the three lists by which a viewer sorts them."""
