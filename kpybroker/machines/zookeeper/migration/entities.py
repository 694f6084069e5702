"""Quotas, SCRAM credentials and ACLs: as the contents of znodes, and as records."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.config_def import java_double
from kpybroker.machines.controller.client_quotas import DOUBLE, SMALLEST_FRACTION
from kpybroker.machines.metadata.image import MetadataImage, QuotaEntity
from kpybroker.machines.quotas.client_quotas import USER
from kpybroker.machines.sasl.scram import MECHANISMS
from kpybroker.machines.zookeeper.tree import configs
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpybroker.machines.zookeeper.tree.as_records import acl_record, credential_record, credential_text
from kpybroker.machines.zookeeper.tree.client_quotas import decode_quota, quota_entity
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData

_FRACTIONS: Final = ("request_percentage", "controller_mutation_rate")
"""The quotas that are no whole numbers."""


# Quotas and SCRAM credentials


def quota_records(entity: ConfigEntity, values: Mapping[str, str]) -> list[Any]:
    """The quotas and SCRAM credentials in the znode of an entity. Raises InvalidZnode."""
    owner = quota_entity(entity)
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in owner]
    records: list[Any] = []
    for key, text in values.items():
        if key in MECHANISMS:
            name = dict(owner).get(USER)
            if entity.kind != configs.USERS or entity.client_id is not None or name is None:
                raise InvalidZnode(entity.path, f"{key} is not of a user")
            try:
                records.append(credential_record(entity.path, name, key, text))
            except InvalidZnode:
                raise InvalidZnode(entity.path, f"its {key} credential is damaged") from None
            continue
        value = decode_quota(entity, key, text, DOUBLE)  # as in Kafka, whatever type a broker reads it by
        records.append(ClientQuotaRecord(entity=parts, key=key, value=value, remove=False))
    return records


def quota_values(image: MetadataImage, entity: QuotaEntity) -> dict[str, str]:
    """The configs in the znode of an entity: its quotas, and the credentials of a user."""
    values = {key: _quota(key, value) for key, value in image.client_quotas.get(entity, {}).items()}
    if len(entity) == 1 and entity[0][0] == USER and entity[0][1] is not None:
        for name, mechanism in MECHANISMS.items():
            record = image.scram_credentials.get((mechanism.code, entity[0][1]))
            if record is not None:
                values[name] = credential_text(record)
    return values


def _quota(key: str, value: float) -> str:
    return java_double(value) if key in _FRACTIONS else str(int(value + SMALLEST_FRACTION))


# ACLs


def acl_records(resource: ResourcePattern, entries: Iterable[AclEntry], new_id: Callable[[], bytes]) -> list[Any]:
    """The ACLs of a resource."""
    return [acl_record(resource, each, new_id()) for each in dict.fromkeys(entries)]


def acls_by_resource(records: Iterable[AccessControlEntryRecord]) -> dict[ResourcePattern, list[AclEntry]]:
    """The ACLs of each resource."""
    found: dict[ResourcePattern, list[AclEntry]] = {}
    for record in records:
        found.setdefault(resource_of(record), []).append(
            AclEntry(record.principal, Permission(record.permission_type), record.host, AclOperation(record.operation))
        )
    return found


def resource_of(record: AccessControlEntryRecord) -> ResourcePattern:
    """The resource of an ACL."""
    return ResourcePattern(ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type))
