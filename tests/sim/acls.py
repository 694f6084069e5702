"""ACLs as Kafka's documentation describes them: the decision by reading all of them, one after the other.

It shares no code with the authorizer of the nodes, which has indexes and remembers decisions.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

TOPIC, CLUSTER = 2, 4
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, ALTER_CONFIGS = 2, 3, 4, 5, 6, 7, 8, 11
DENY, ALLOW = 2, 3
CLUSTER_NAME = "kafka-cluster"


class Acl(NamedTuple):
    """One ACL, with Kafka's codes."""

    kind: int
    name: str
    pattern: int
    principal: str
    host: str
    operation: int
    permission: int

    @classmethod
    def of(cls, record: Any) -> "Acl":
        """The ACL of a metadata record. (One that was not decoded yet has enumerations.)"""
        return cls(
            int(record.resource_type),
            record.resource_name,
            int(record.pattern_type),
            record.principal,
            record.host,
            int(record.operation),
            int(record.permission_type),
        )

    def _concerns(self, user: str, host: str, kind: int, name: str) -> bool:
        if self.kind != kind or self.principal not in (user, "User:*") or self.host not in (host, "*"):
            return False
        if self.pattern == PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, "*")


class Need(NamedTuple):
    """An operation on a resource."""

    operation: int
    kind: int
    name: str


def is_allowed(acls: Iterable[Acl], user: str, host: str, need: Need) -> bool:
    """Whether a principal may do something, by its text and its address."""
    about = [each for each in acls if each._concerns(user, host, need.kind, need.name)]
    if any(each.permission == DENY and each.operation in (need.operation, ALL) for each in about):
        return False
    implying = (READ, WRITE, DELETE, ALTER) if need.operation == DESCRIBE else ()
    return any(each.permission == ALLOW and each.operation in (need.operation, ALL, *implying) for each in about)
