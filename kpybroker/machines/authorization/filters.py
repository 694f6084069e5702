"""Filters of ACLs, as DescribeAcls and DeleteAcls have them (``AclBindingFilter``). Pure."""

from typing import NamedTuple, Protocol

from kpybroker.machines.authorization.resources import WILDCARD, AclOperation, PatternType, Permission, ResourceType


class StoredAcl(Protocol):
    """An ACL: a record of the metadata, or what a response says of one."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclFilterFields(Protocol):
    """The fields of DescribeAcls, or of one filter of DeleteAcls."""

    resource_type_filter: int
    resource_name_filter: str | None
    pattern_type_filter: int
    principal_filter: str | None
    host_filter: str | None
    operation: int
    permission_type: int


class Created(Protocol):
    """The fields of one ACL of CreateAcls."""

    resource_type: int
    resource_pattern_type: int
    operation: int
    permission_type: int


class AclFilter(NamedTuple):
    """The wanted ACLs. A field that is None, or ANY, excludes none."""

    resource_type: ResourceType
    resource_name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: AclOperation
    permission_type: Permission

    def matches(self, acl: StoredAcl) -> bool:
        """Whether an ACL is wanted."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (AclOperation.ANY, acl.operation)
            and self.permission_type in (Permission.ANY, acl.permission_type)
            and self._matches_pattern(acl)
        )

    def _matches_pattern(self, acl: StoredAcl) -> bool:
        """Whether the pattern of an ACL is wanted. MATCH wants all patterns that cover the name
        (``ResourcePatternFilter.matches``)."""
        name = self.resource_name
        if self.pattern_type != PatternType.MATCH:
            return self.pattern_type in (PatternType.ANY, acl.pattern_type) and name in (None, acl.resource_name)
        if name is None:
            return True
        if acl.pattern_type == PatternType.PREFIXED:
            return name.startswith(acl.resource_name)
        return acl.resource_name in (name, WILDCARD)


def filter_of(asked: AclFilterFields) -> AclFilter:
    """The filter of a request."""
    return AclFilter(
        ResourceType.of(asked.resource_type_filter),
        asked.resource_name_filter,
        PatternType.of(asked.pattern_type_filter),
        asked.principal_filter,
        asked.host_filter,
        AclOperation.of(asked.operation),
        Permission.of(asked.permission_type),
    )


def only_filters_have(created: Created) -> bool:
    """Whether an ACL that is to be created has an element that only filters may have."""
    return (
        created.resource_type == ResourceType.ANY
        or created.resource_pattern_type in (PatternType.ANY, PatternType.MATCH)
        or created.operation == AclOperation.ANY
        or created.permission_type == Permission.ANY
    )
