"""ACLs, users and listeners. Pure."""

from dataclasses import dataclass


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
