"""Quotas, SCRAM credentials, ACLs and delegation tokens: as the contents of znodes, and as records."""

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any, Final

from kpybroker.authorization.resources import Operation, PatternType, Permission, ResourceType
from kpybroker.metadata.image import MetadataImage, QuotaEntity
from kpybroker.zookeeper.tree import configs, paths
from kpybroker.zookeeper.tree.acls import AclEntry, Resource
from kpybroker.zookeeper.tree.configs import ConfigEntity
from kpybroker.zookeeper.tree.contents import InvalidZnode
from kpybroker.zookeeper.tree.tokens import Token
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord

USER: Final = "user"
CLIENT_ID: Final = "client-id"
ADDRESS: Final = "ip"
SCRAM_MECHANISMS: Final = {"SCRAM-SHA-256": 1, "SCRAM-SHA-512": 2}
_FRACTIONS: Final = ("request_percentage", "controller_mutation_rate")
"""The quotas that are no whole numbers."""
_ROUNDING: Final = 1e-6


# Quotas and SCRAM credentials


def quota_entity(entity: ConfigEntity) -> QuotaEntity:
    """The entity of quotas whose configs a znode holds."""
    name = _name(entity.name)
    if entity.kind == configs.CLIENTS:
        return ((CLIENT_ID, name),)
    if entity.kind == configs.ADDRESSES:
        return ((ADDRESS, name),)
    if entity.client_id is None:
        return ((USER, name),)
    return ((CLIENT_ID, _name(entity.client_id)), (USER, name))


def config_entity(entity: QuotaEntity) -> ConfigEntity | None:
    """The znode that holds the quotas of an entity; None for an entity that ZooKeeper mode does not know."""
    names = dict(entity)
    if names.keys() == {USER}:
        return ConfigEntity(configs.USERS, _in_path(names[USER]))
    if names.keys() == {USER, CLIENT_ID}:
        return ConfigEntity(configs.USERS, _in_path(names[USER]), _in_path(names[CLIENT_ID]))
    if names.keys() == {CLIENT_ID}:
        return ConfigEntity(configs.CLIENTS, _in_path(names[CLIENT_ID]))
    if names.keys() == {ADDRESS}:
        return ConfigEntity(configs.ADDRESSES, _in_path(names[ADDRESS]))
    return None


def quota_records(entity: ConfigEntity, values: Mapping[str, str]) -> list[Any]:
    """The quotas and SCRAM credentials in the znode of an entity. Raises InvalidZnode."""
    owner = quota_entity(entity)
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in owner]
    records: list[Any] = []
    for key, text in values.items():
        if key in SCRAM_MECHANISMS:
            name = dict(owner).get(USER)
            if entity.kind != configs.USERS or entity.client_id is not None or name is None:
                raise InvalidZnode(entity.path, f"{key} is not of a user")
            records.append(_scram_record(entity.path, name, key, text))
            continue
        try:
            value = float(text)
        except ValueError:
            raise InvalidZnode(entity.path, f"the quota {key} is no number") from None
        if not isfinite(value):
            raise InvalidZnode(entity.path, f"the quota {key} is no number")
        records.append(ClientQuotaRecord(entity=parts, key=key, value=value, remove=False))
    return records


def quota_values(image: MetadataImage, entity: QuotaEntity) -> dict[str, str]:
    """The configs in the znode of an entity: its quotas, and the credentials of a user."""
    values = {key: _quota(key, value) for key, value in image.client_quotas.get(entity, {}).items()}
    if len(entity) == 1 and entity[0][0] == USER and entity[0][1] is not None:
        for mechanism, number in SCRAM_MECHANISMS.items():
            record = image.scram_credentials.get((number, entity[0][1]))
            if record is not None:
                values[mechanism] = _scram_text(record)
    return values


def _name(part: str) -> str | None:
    return None if part == configs.DEFAULT_NAME else paths.desanitize(part)


def _in_path(name: str | None) -> str:
    return configs.DEFAULT_NAME if name is None else paths.sanitize(name)


def _quota(key: str, value: float) -> str:
    return repr(float(value)) if key in _FRACTIONS else str(int(value + _ROUNDING))


def _scram_record(path: str, name: str, mechanism: str, text: str) -> UserScramCredentialRecord:
    fields = dict(part.partition("=")[::2] for part in text.split(","))
    try:
        return UserScramCredentialRecord(
            name=name,
            mechanism=SCRAM_MECHANISMS[mechanism],
            salt=b64decode(fields["salt"], validate=True),
            stored_key=b64decode(fields["stored_key"], validate=True),
            server_key=b64decode(fields["server_key"], validate=True),
            iterations=int(fields["iterations"]),
        )
    except (KeyError, ValueError):
        raise InvalidZnode(path, f"its {mechanism} credential is damaged") from None


def _scram_text(record: UserScramCredentialRecord) -> str:
    salt, stored, server = (b64encode(each).decode() for each in (record.salt, record.stored_key, record.server_key))
    return f"salt={salt},stored_key={stored},server_key={server},iterations={record.iterations}"


# ACLs


def acl_records(resource: Resource, entries: Iterable[AclEntry], new_id: Callable[[], bytes]) -> list[Any]:
    """The ACLs of a resource."""
    return [
        AccessControlEntryRecord(
            id=new_id(),
            resource_type=resource.kind,
            resource_name=resource.name,
            pattern_type=resource.pattern,
            principal=each.principal,
            host=each.host,
            operation=each.operation,
            permission_type=each.permission,
        )
        for each in dict.fromkeys(entries)
    ]


def acls_by_resource(records: Iterable[AccessControlEntryRecord]) -> dict[Resource, list[AclEntry]]:
    """The ACLs of each resource."""
    found: dict[Resource, list[AclEntry]] = {}
    for record in records:
        found.setdefault(resource_of(record), []).append(
            AclEntry(record.principal, Permission(record.permission_type), record.host, Operation(record.operation))
        )
    return found


def resource_of(record: AccessControlEntryRecord) -> Resource:
    """The resource of an ACL."""
    return Resource(ResourceType(record.resource_type), record.resource_name, PatternType(record.pattern_type))


# Delegation tokens


def token_record(token: Token) -> DelegationTokenRecord:
    """A token of ZooKeeper as a record."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiry_timestamp_ms,
        token_id=token.token_id,
    )


def token_of(record: DelegationTokenRecord) -> Token:
    """A token as its znode holds it."""
    return Token(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
    )
