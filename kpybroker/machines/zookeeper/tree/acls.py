"""ACLs of resources, and notices of their changes (Kafka's ``ZkAclStore``).

Literal names are below ``/kafka-acl``, prefixes below ``/kafka-acl-extended/prefixed``; each has notices of its own, in
different formats.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.zookeeper.tree import paths
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode, ZnodeFields, encode

CHANGE_PREFIX: Final = "acl_changes_"
RESOURCE_TYPES: Final = tuple(each for each in ResourceType if each > ResourceType.ANY)
"""Each has a znode below each store."""
_NAMES: Final = {each.pascal_name: each for each in RESOURCE_TYPES}
_OPERATIONS: Final = {each.pascal_name: each for each in AclOperation if each > AclOperation.ANY}
_PERMISSIONS: Final = {each.pascal_name: each for each in Permission if each > Permission.ANY}


class ResourcePattern(NamedTuple):
    """The pattern of names that ACLs are about."""

    kind: ResourceType
    name: str
    pattern: PatternType = PatternType.LITERAL

    @property
    def path(self) -> str:
        """The path of the znode with the ACLs."""
        return f"{store(self.pattern)}/{self.kind.pascal_name}/{self.name}"

    def encode_change(self) -> bytes:
        """The content of a notice that the ACLs of this resource have changed."""
        if self.pattern is PatternType.LITERAL:
            return f"{self.kind.name}:{self.name}".encode()
        fields = {"version": 1, "resourceType": self.kind.name, "name": self.name, "patternType": self.pattern.name}
        return encode(fields)


@dataclass(frozen=True, slots=True)
class AclEntry:
    """One ACL of a resource."""

    principal: str
    permission: Permission
    host: str
    operation: AclOperation


def store(pattern: PatternType) -> str:
    """The parent of all znodes of a kind of pattern."""
    return paths.ACLS if pattern is PatternType.LITERAL else f"{paths.EXTENDED_ACLS}/{pattern.name.lower()}"


def encode_acls(acls: list[AclEntry]) -> bytes:
    """The content of a resource's znode."""
    entries = [
        {
            "principal": each.principal,
            "permissionType": each.permission.pascal_name,
            "host": each.host,
            "operation": each.operation.pascal_name,
        }
        for each in acls
    ]
    return encode({"acls": entries, "version": 1})


def decode_acls(path: str, content: bytes | None) -> list[AclEntry]:
    """The ACLs in the znode ``path``. An empty znode has none."""
    if not content:
        return []
    fields = ZnodeFields.decode(path, content)
    if fields.integer("version") != 1:
        raise fields.fault("its version is not 1")
    return [_entry(each) for each in fields.objects("acls")]


def decode_literal_change(path: str, content: bytes | None) -> ResourcePattern:
    """The resource that a notice below ``/kafka-acl-changes`` names. A name without a type is a topic's."""
    kind, colon, name = _text(path, content).partition(":")
    if not colon:
        kind, name = ResourceType.TOPIC.name, kind
    if kind.upper() not in ResourceType.__members__:
        raise InvalidZnode(path, f"{kind[:40]!r} is no type of resource")
    return ResourcePattern(ResourceType[kind.upper()], name)


def decode_extended_change(path: str, content: bytes | None) -> ResourcePattern:
    """The resource that a notice below ``/kafka-acl-extended-changes`` names."""
    fields = ZnodeFields.decode(path, content)
    kind, pattern = fields.text("resourceType").upper(), fields.text("patternType").upper()
    if kind not in ResourceType.__members__ or pattern not in PatternType.__members__:
        raise fields.fault(f"{kind[:40]} with {pattern[:40]} names no resource")
    return ResourcePattern(ResourceType[kind], fields.text("name"), PatternType[pattern])


def resource_type(path: str, name: str) -> ResourceType:
    """The type with this name in a path, such as ``TransactionalId``."""
    if name not in _NAMES:
        raise InvalidZnode(path, f"{name[:40]!r} is no type of resource")
    return _NAMES[name]


def _entry(fields: ZnodeFields) -> AclEntry:
    permission, operation = fields.text("permissionType"), fields.text("operation")
    if permission not in _PERMISSIONS or operation not in _OPERATIONS:
        raise fields.fault(f"{permission[:40]} of {operation[:40]} is no permission")
    return AclEntry(fields.text("principal"), _PERMISSIONS[permission], fields.text("host"), _OPERATIONS[operation])


def _text(path: str, content: bytes | None) -> str:
    try:
        return (content or b"").decode()
    except UnicodeDecodeError:
        raise InvalidZnode(path, "it is not UTF-8") from None
