"""Quotas, credentials, ACLs and tokens of ZooKeeper as records of the metadata log, which an image can apply.

So the parts that follow them are the same in both modes. The id of an ACL, which ZooKeeper does not have, follows from
its content. Pure.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from hashlib import blake2b
from typing import Any

from kpybroker.machines.metadata.image import MetadataImage
from kpybroker.machines.sasl import scram
from kpybroker.machines.zookeeper.tree import configs, paths
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpybroker.machines.zookeeper.tree.as_records import acl_record, credential_record, token_record
from kpybroker.machines.zookeeper.tree.client_quotas import config_entity, decode_quotas, quota_entity
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.tokens import TokenContent
from kpywire.metadata_records.client_quota_record import ClientQuotaRecord, EntityData
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from kpywire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord
from kpywire.metadata_records.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from kpywire.uuid import UUID_BYTES

Records = list[Any]


def quotas(image: MetadataImage, entity: ConfigEntity, values: Mapping[str, str]) -> Records:
    """The records that make the quotas of an entity those among its configs. Raises InvalidZnode."""
    wanted, owner = decode_quotas(entity, values), quota_entity(entity)
    present = image.client_quotas.get(owner, {})
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in owner]
    changed = [
        ClientQuotaRecord(entity=parts, key=key, value=value, remove=False)
        for key, value in wanted.items()
        if present.get(key) != value
    ]
    gone = [ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True) for key in present if key not in wanted]
    return [*changed, *gone]


def credentials(image: MetadataImage, entity: ConfigEntity, values: Mapping[str, str]) -> Records:
    """The records that make the SCRAM credentials of a user those among its configs. Raises InvalidZnode."""
    if entity.kind != configs.USERS or entity.client_id is not None or entity.name == configs.DEFAULT_NAME:
        return []
    user = paths.desanitize(entity.name)
    records: Records = []
    for name, mechanism in scram.MECHANISMS.items():
        present = image.scram_credentials.get((mechanism.code, user))
        if name in values:
            record = credential_record(entity.path, user, name, values[name])
            if record != present:
                records.append(record)
        elif present is not None:
            records.append(RemoveUserScramCredentialRecord(name=user, mechanism=mechanism.code))
    return records


def acls(resource: ResourcePattern, before: Collection[AclEntry], wanted: Collection[AclEntry]) -> Records:
    """The records that make the ACLs of a resource these."""
    added = [acl_record(resource, each, acl_id(resource, each)) for each in wanted if each not in before]
    gone = [RemoveAccessControlEntryRecord(id=acl_id(resource, each)) for each in before if each not in wanted]
    return [*added, *gone]


def acl_id(resource: ResourcePattern, entry: AclEntry) -> bytes:
    """An id that only this ACL has."""
    parts = (resource.kind, resource.pattern, entry.permission, entry.operation)
    texts = (resource.name, entry.principal, entry.host)
    lengths = (len(each) for each in texts)
    content = "\0".join(map(str, (*map(int, parts), *lengths, *texts)))
    return blake2b(content.encode("utf-8", "surrogatepass"), digest_size=UUID_BYTES).digest()


def tokens(image: MetadataImage, token_id: str, token: TokenContent | None) -> Records:
    """The records that make a token what its znode says; None if it is gone."""
    present = image.delegation_tokens.get(token_id)
    if token is None:
        return [] if present is None else [RemoveDelegationTokenRecord(token_id=token_id)]
    record = token_record(replace(token, token_id=token_id))
    return [] if record == present else [record]


def gone_entities(image: MetadataImage, found: Iterable[ConfigEntity]) -> list[ConfigEntity]:
    """The entities with quotas or credentials in the image that are not among those that ZooKeeper has."""
    there = set(found)
    owners = [_owner(dict(names)) for names in image.client_quotas]
    owners += [ConfigEntity(configs.USERS, paths.sanitize(name)) for _, name in image.scram_credentials]
    return [each for each in dict.fromkeys(owners) if each not in there]


def _owner(names: Mapping[str, str | None]) -> ConfigEntity:
    entity = config_entity(names)
    assert entity is not None, "made of an entity of ZooKeeper"
    return entity
