"""Decisions about quotas and SCRAM credentials in ZooKeeper (Kafka's ``ZkAdminManager``). Pure.

They differ from those of a KRaft controller: a quota may be 0, both mechanisms of a user may change in one request, and
an entity with a config that is not known is not written.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.quotas.client_quotas import CLIENT_ID, IP, USER
from kpybroker.machines.sasl import scram
from kpybroker.machines.zookeeper.tree import configs
from kpybroker.machines.zookeeper.tree.client_quotas import config_entity, keys_of, quota_text
from kpybroker.machines.zookeeper.tree.configs import ConfigEntity
from kpybroker.machines.zookeeper.tree.credentials import encode_credential
from kpywire import error_codes
from kpywire.messages.alter_client_quotas import OpData
from kpywire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)

Names = Mapping[str, str | None]
"""The name of each type of an entity; None is the default."""
_UNKNOWN_MECHANISM = KafkaError(error_codes.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")


def entity_of(names: Names) -> ConfigEntity:
    """The owner of the quotas of an entity. Raises INVALID_REQUEST."""
    if not names:
        raise _invalid("Invalid empty client quota entity")
    for kind, name in sorted(names.items()):  # Java's order too, of the types that there are
        if kind not in (USER, CLIENT_ID, IP):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
    entity = config_entity(names)
    if entity is None:
        raise _invalid("Invalid quota entity combination, IP entity should not be used with user/client ID entity.")
    if entity.kind == configs.ADDRESSES and entity.name != configs.DEFAULT_NAME:
        _check_address(entity.name)
    return entity


def with_quotas(entity: ConfigEntity, values: Mapping[str, str], operations: Sequence[OpData]) -> dict[str, str]:
    """The configs of an entity after these operations. Raises KafkaError."""
    changed = dict(values)
    kinds = keys_of(entity)
    for each in operations:
        if each.remove:
            changed.pop(each.key, None)
            continue
        if each.key not in kinds:
            raise _invalid(f"Invalid configuration key {each.key}")
        text = quota_text(kinds[each.key], each.value)
        if text is None:
            raise _invalid(f"Configuration {each.key} must be a {kinds[each.key]} value")
        changed[each.key] = text
    return changed


def check_configs(entity: ConfigEntity, values: Mapping[str, str]) -> None:
    """Raise UNKNOWN_SERVER_ERROR, as Kafka does, for configs that this entity cannot have (``DynamicConfig``)."""
    known = set(keys_of(entity))
    if entity.kind == configs.USERS and entity.client_id is None and entity.name != configs.DEFAULT_NAME:
        known |= scram.MECHANISMS.keys()
    is_negative = entity.kind == configs.ADDRESSES and any(text.startswith("-") for text in values.values())
    if not values.keys() <= known or is_negative:
        raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)


def faults(request: AlterUserScramCredentialsRequest) -> dict[str, KafkaError]:
    """The users that cannot be altered like this, with the reasons, whatever they have now."""
    found: dict[str, KafkaError] = {}
    for deletion in request.deletions:
        fault = _fault(deletion.name, deletion.mechanism)
        if fault is not None:
            found[deletion.name] = fault
    for upsertion in request.upsertions:
        fault = _fault(upsertion.name, upsertion.mechanism) or _fault_of_credential(upsertion)
        if fault is not None:
            found[upsertion.name] = fault
    alterations: list[ScramCredentialUpsertion | ScramCredentialDeletion] = [*request.upsertions, *request.deletions]
    times = Counter((each.name, each.mechanism) for each in alterations if each.name not in found)
    for (name, _), count in times.items():
        if count > 1:
            text = "A user credential cannot be altered twice in the same request"
            found[name] = KafkaError(error_codes.DUPLICATE_RESOURCE, text)
    return found


def with_credentials(request: AlterUserScramCredentialsRequest, user: str, values: Mapping[str, str]) -> dict[str, str]:
    """The configs of a user after the request. Raises RESOURCE_NOT_FOUND."""
    changed = dict(values)
    for deletion in request.deletions:
        if deletion.name == user and changed.pop(scram.BY_CODE[deletion.mechanism].name, None) is None:
            text = "Attempt to delete a user credential that does not exist"
            raise KafkaError(error_codes.RESOURCE_NOT_FOUND, text)
    for each in request.upsertions:
        if each.name == user:
            mechanism = scram.BY_CODE[each.mechanism]
            credential = mechanism.credential(each.salted_password, each.salt, each.iterations)
            changed[mechanism.name] = encode_credential(credential)
    return changed


def _fault(name: str, mechanism: int) -> KafkaError | None:
    if not name:
        return KafkaError(error_codes.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    return None if mechanism in scram.BY_CODE else _UNKNOWN_MECHANISM


def _fault_of_credential(upsertion: ScramCredentialUpsertion) -> KafkaError | None:
    why = scram.why_unacceptable(upsertion.iterations, upsertion.salted_password)
    return KafkaError(error_codes.UNACCEPTABLE_CREDENTIAL, why) if why else None


def _check_address(name: str) -> None:
    from ipaddress import ip_address

    try:
        ip_address(name)  # as it stands in a path, where an address with colons is none, as in Kafka
    except ValueError:
        raise _invalid(f"{name} is not a valid IP or resolvable host.") from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(error_codes.INVALID_REQUEST, message)
