"""CreateAcls and DeleteAcls (Kafka's ``AclControlManager``, and ``AclApis`` in front of it).

An ACL that exists already is created with success, and nothing is written. A host with a slash must be a network
(KIP-1276). Other hosts and principals are not examined, as in Kafka: an ACL may name what nobody can be.
"""

from typing import Final

from kpybroker.machines.authorization.filters import AclFilter, filter_of, only_filters_have
from kpybroker.machines.authorization.networks import InvalidNetwork, is_network, parse_network
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.controller.existing_acls import AclContent
from kpybroker.machines.controller.state import LAST_OF_STEP, STEP, ControllerRequest, ControllerState, Steps
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpywire import error_codes
from kpywire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kpywire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord
from kpywire.metadata_records.remove_access_control_entry_record import RemoveAccessControlEntryRecord

MOST_AT_ONCE: Final = 10_000
"""The number of ACLs that one request may create, and that one may delete."""
_COMPARED_AT_ONCE: Final = 1_000


def create_acls(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Create ACLs; each succeeds or fails by itself."""
    message: CreateAclsRequest = request.message
    if any(only_filters_have(creation) for creation in message.creations):
        raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)  # Kafka cannot even make an ACL of it
    added: dict[AclContent, AccessControlEntryRecord] = {}
    results = []
    for number, creation in enumerate(message.creations):
        if number % STEP == LAST_OF_STEP:
            yield
        try:
            content = _checked(creation, state.image.level)
        except KafkaError as error:
            results.append(AclCreationResult(error_code=error.code, error_message=error.message))
            continue
        if content not in state.existing_acls and content not in added:
            if len(added) >= MOST_AT_ONCE:
                raise KafkaError(error_codes.POLICY_VIOLATION, "Unable to perform excessively large batch operation.")
            added[content] = AccessControlEntryRecord(id=state.new_acl_id(), **content._asdict())
        results.append(AclCreationResult(error_code=error_codes.NONE, error_message=""))
    return list(added.values()), CreateAclsResponse(throttle_time_ms=0, results=results)


def delete_acls(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Steps:
    """Delete all ACLs that match a filter. An ACL that matches several filters is reported with each."""
    message: DeleteAclsRequest = request.message
    removed: dict[bytes, RemoveAccessControlEntryRecord] = {}
    results = []
    compared = 0
    for one in message.filters:
        compared += 1
        wanted = filter_of(one)
        reason = _why_unknown(wanted)
        if reason is not None:
            results.append(
                DeleteAclsFilterResult(error_code=error_codes.INVALID_REQUEST, error_message=reason, matching_acls=[])
            )
            continue
        matching = []
        for acl_id, acl in state.image.acls.items():
            compared += 1
            if compared % _COMPARED_AT_ONCE == 0:
                yield
            if wanted.matches(acl):
                if len(removed) >= MOST_AT_ONCE:
                    text = f"Cannot remove more than {MOST_AT_ONCE} acls in a single delete operation."
                    raise KafkaError(error_codes.INVALID_REQUEST, text)
                removed[acl_id] = RemoveAccessControlEntryRecord(id=acl_id)
                matching.append(_matching(acl))
        results.append(DeleteAclsFilterResult(error_code=error_codes.NONE, error_message=None, matching_acls=matching))
    return list(removed.values()), DeleteAclsResponse(throttle_time_ms=0, filter_results=results)


def _checked(creation: AclCreation, level: int) -> AclContent:
    """The ACL to create at a level of ``metadata.version``. Raises INVALID_REQUEST, UNSUPPORTED_VERSION."""
    name, principal = creation.resource_name, creation.principal
    kind, pattern_type = ResourceType.of(creation.resource_type), PatternType.of(creation.resource_pattern_type)
    operation, permission_type = AclOperation.of(creation.operation), Permission.of(creation.permission_type)
    if kind == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    elements = {
        "resourceType": kind,
        "patternType": pattern_type,
        "operation": operation,
        "permissionType": permission_type,
    }
    for element, value in elements.items():
        if value == 0:
            raise _invalid(f"Invalid {element} {value.name}")
    if ":" not in principal:
        raise _invalid(
            f"Could not parse principal from `{principal}` (no colon is present separating the principal type from the "
            "principal name)"
        )
    _check_host(creation.host, level)
    return AclContent(kind, name, pattern_type, principal, creation.host, operation, permission_type)


def _check_host(host: str, level: int) -> None:
    if not host:
        raise _invalid("Host pattern cannot be null or empty")
    if not is_network(host):
        return
    if level < metadata_version.NETWORKS_IN_ACLS:
        text = "CIDR-based ACL host patterns require metadata version 4.4-IV1 or higher."
        raise KafkaError(error_codes.UNSUPPORTED_VERSION, text)
    try:
        parse_network(host)
    except InvalidNetwork as error:
        raise _invalid(f"Invalid CIDR notation '{host}': {error}") from None


def _invalid(message: str) -> KafkaError:
    return KafkaError(error_codes.INVALID_REQUEST, message)


def _why_unknown(wanted: AclFilter) -> str | None:
    if 0 in (wanted.resource_type, wanted.pattern_type):
        return "Unknown patternFilter."
    if 0 in (wanted.operation, wanted.permission_type):
        return "Unknown entryFilter."
    return None


def _matching(acl: AccessControlEntryRecord) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(error_code=error_codes.NONE, error_message=None, **AclContent.of(acl)._asdict())
