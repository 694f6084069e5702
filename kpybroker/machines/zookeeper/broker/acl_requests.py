"""CreateAcls and DeleteAcls at an ``AclAuthorizer`` (with ``AclApis`` in front of it), as changes of resources. Pure.

The ACLs of a resource are one znode. So all that a request says of one resource succeeds or fails together.
"""

from collections.abc import Collection, Mapping

from kpybroker.machines.authorization.filters import AclFilter, filter_of, only_filters_have
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.zookeeper.tree.acls import AclEntry, ResourcePattern
from kpywire import error_codes
from kpywire.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from kpywire.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)

Acls = tuple[AclEntry, ...]


class Creation:
    """One CreateAcls request."""

    def __init__(self, request: CreateAclsRequest) -> None:
        """Raises KafkaError if the whole request fails."""
        if any(only_filters_have(each) for each in request.creations):
            raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)  # Kafka cannot even make ACLs of them
        self._refusals: list[KafkaError | None] = []
        self._resources: list[ResourcePattern | None] = []
        self.added: dict[ResourcePattern, list[AclEntry]] = {}
        """The ACLs to add to each resource."""
        for each in request.creations:
            try:
                _check(each)
            except KafkaError as error:
                self._refusals.append(error)
                self._resources.append(None)
                continue
            kind, pattern = ResourceType(each.resource_type), PatternType(each.resource_pattern_type)
            resource = ResourcePattern(kind, each.resource_name, pattern)
            entry = AclEntry(each.principal, Permission(each.permission_type), each.host, AclOperation(each.operation))
            self.added.setdefault(resource, []).append(entry)
            self._refusals.append(None)
            self._resources.append(resource)

    def changed(self, resource: ResourcePattern, present: Acls) -> Acls:
        """The ACLs of a resource after the request. Raises UNKNOWN_SERVER_ERROR, as Kafka does, for a principal without
        a type."""
        added = self.added[resource]
        if not all(_is_principal(each.principal) for each in added):
            raise KafkaError(error_codes.UNKNOWN_SERVER_ERROR)
        return tuple(dict.fromkeys((*present, *added)))

    def response(self, failures: Mapping[ResourcePattern, KafkaError]) -> CreateAclsResponse:
        """The answer. ``failures`` are the resources that could not be written."""
        outcomes = zip(self._refusals, self._resources, strict=True)
        errors = (refusal or failures.get(resource) for refusal, resource in outcomes)  # type: ignore[arg-type]
        results = [
            AclCreationResult(error_code=error_codes.NONE, error_message="")
            if error is None
            else AclCreationResult(error_code=error.code, error_message=error.message)
            for error in errors
        ]
        return CreateAclsResponse(throttle_time_ms=0, results=results)


class AclDeletion:
    """One DeleteAcls request. An ACL that matches several filters is reported with the first one."""

    def __init__(self, request: DeleteAclsRequest) -> None:
        self._filters = [filter_of(each) for each in request.filters]
        self.named = [resource for each in self._filters for resource in _named(each)]
        """The resources that filters name exactly, whether there are ACLs of them or not."""
        self._deleted: dict[ResourcePattern, dict[AclEntry, int]] = {}
        """The deleted ACLs, each with the index of its filter."""

    def concerns(self, resource: ResourcePattern) -> bool:
        """Whether a filter is about a resource."""
        return any(_covers(each, resource) for each in self._filters)

    def changed(self, resource: ResourcePattern, present: Acls) -> Acls:
        """The ACLs of a resource after the request."""
        deleted = self._deleted.setdefault(resource, {})
        for entry in present:
            found = self._first(resource, entry)
            if found is not None:
                deleted.setdefault(entry, found)
        return tuple(each for each in present if self._first(resource, each) is None)

    def response(self, failures: Mapping[ResourcePattern, KafkaError]) -> DeleteAclsResponse:
        """The answer. ``failures`` are the resources that could not be written."""
        matching: list[list[DeleteAclsMatchingAcl]] = [[] for _ in self._filters]
        for resource, entries in self._deleted.items():
            error = failures.get(resource)
            for entry, index in entries.items():
                acl = _described(resource, entry)
                if error is not None:
                    acl.error_code, acl.error_message = error.code, error.message
                matching[index].append(acl)
        results = [
            DeleteAclsFilterResult(error_code=error_codes.NONE, error_message=None, matching_acls=each)
            for each in matching
        ]
        return DeleteAclsResponse(throttle_time_ms=0, filter_results=results)

    def _first(self, resource: ResourcePattern, entry: AclEntry) -> int | None:
        acl = _described(resource, entry)
        return next((index for index, each in enumerate(self._filters) if each.matches(acl)), None)


def _described(resource: ResourcePattern, entry: AclEntry) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_code=error_codes.NONE,
        error_message=None,
        resource_type=resource.kind,
        resource_name=resource.name,
        pattern_type=resource.pattern,
        principal=entry.principal,
        host=entry.host,
        operation=entry.operation,
        permission_type=entry.permission,
    )


def _check(creation: AclCreation) -> None:
    """Raise an error for an ACL that cannot be created."""
    kind, name = creation.resource_type, creation.resource_name
    if kind == ResourceType.CLUSTER and name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not name:
        raise _invalid("Invalid empty resource name")
    elements: Collection[int] = (
        ResourceType.of(kind),
        PatternType.of(creation.resource_pattern_type),
        AclOperation.of(creation.operation),
        Permission.of(creation.permission_type),
    )
    if 0 in elements or "/" in name:
        raise _invalid("Failed to create ACL")


def _is_principal(text: str) -> bool:
    kind, colon, _ = text.partition(":")
    return bool(kind and colon)


def _named(wanted: AclFilter) -> list[ResourcePattern]:
    """The resource that a filter names exactly."""
    if wanted.resource_name is None or wanted.resource_type in (ResourceType.ANY, ResourceType.UNKNOWN):
        return []
    if wanted.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
        return [ResourcePattern(wanted.resource_type, wanted.resource_name, wanted.pattern_type)]
    return []


def _covers(wanted: AclFilter, resource: ResourcePattern) -> bool:
    everything = wanted._replace(principal=None, host=None, operation=AclOperation.ANY, permission_type=Permission.ANY)
    entry = AclEntry("", Permission.ALLOW, "", AclOperation.ALL)
    return everything.matches(_described(resource, entry))


def _invalid(message: str) -> KafkaError:
    return KafkaError(error_codes.INVALID_REQUEST, message)
