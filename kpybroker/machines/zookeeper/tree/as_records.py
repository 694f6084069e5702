"""ACLs, SCRAM credentials and delegation tokens of znodes as records of the metadata log, and back. Pure."""

from kpybroker.machines.sasl.scram import MECHANISMS, ScramCredential
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpybroker.machines.zookeeper.tree.credentials import decode_credential, encode_credential
from kpybroker.machines.zookeeper.tree.tokens import TokenContent
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord


def acl_record(resource: ResourcePattern, entry: AclEntry, acl_id: bytes) -> AccessControlEntryRecord:
    """An ACL of a resource. ZooKeeper has no ids of ACLs."""
    return AccessControlEntryRecord(
        id=acl_id,
        resource_type=resource.kind,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def credential_record(path: str, user: str, mechanism: str, text: str) -> UserScramCredentialRecord:
    """The credential of a user in the config named after the mechanism. Raises InvalidZnode for the znode ``path``."""
    credential = decode_credential(path, text)
    return UserScramCredentialRecord(name=user, mechanism=MECHANISMS[mechanism].code, **credential._asdict())


def credential_text(record: UserScramCredentialRecord) -> str:
    """The value of that config."""
    return encode_credential(ScramCredential(record.salt, record.stored_key, record.server_key, record.iterations))


def token_record(token: TokenContent) -> DelegationTokenRecord:
    """A token."""
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=list(token.renewers),
        issue_timestamp=token.issue_timestamp_ms,
        max_timestamp=token.max_timestamp_ms,
        expiration_timestamp=token.expiry_timestamp_ms,
        token_id=token.token_id,
    )


def token_of(record: DelegationTokenRecord) -> TokenContent:
    """A token as its znode holds it."""
    return TokenContent(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=record.expiration_timestamp,
        max_timestamp_ms=record.max_timestamp,
    )
