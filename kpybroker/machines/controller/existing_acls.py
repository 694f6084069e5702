"""The contents of all ACLs of the metadata, so that none is written twice: Kafka cannot load two equal ones."""

from collections.abc import Mapping
from typing import NamedTuple

from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord


class AclContent(NamedTuple):
    """An ACL without its id (``StandardAcl``)."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int

    @classmethod
    def of(cls, acl: AccessControlEntryRecord) -> "AclContent":
        """The content of a record."""
        return cls(
            acl.resource_type,
            acl.resource_name,
            acl.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )


class ExistingAcls:
    """The contents by id. A foreign log may hold the same content under two ids."""

    def __init__(self, acls: Mapping[bytes, AccessControlEntryRecord]) -> None:
        self._by_id: dict[bytes, AclContent] = {}
        self._counts: dict[AclContent, int] = {}
        for acl_id, acl in acls.items():
            self.changed(acl_id, acl)

    def __contains__(self, content: AclContent) -> bool:
        return content in self._counts

    def changed(self, acl_id: bytes, acl: AccessControlEntryRecord | None) -> None:
        """Note an ACL that came or changed, or went (None)."""
        before = self._by_id.pop(acl_id, None)
        if before is not None:
            self._counts[before] -= 1
            if not self._counts[before]:
                del self._counts[before]
        if acl is not None:
            content = self._by_id[acl_id] = AclContent.of(acl)
            self._counts[content] = self._counts.get(content, 0) + 1
