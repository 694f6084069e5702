"""The requests of ``kpybroker acls``: list ACLs by filters, create and delete them. Raises KafkaError.

Elements are Kafka's codes, as they are on the wire.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from kpybroker.client.client import Client, raise_for
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kpywire.messages.describe_acls import DescribeAclsRequest

ANY: Final = 1
MOST_AT_ONCE: Final = 5_000
"""The number of ACLs in one request; Kafka refuses more than twice as many."""


class AclBinding(NamedTuple):
    """An ACL."""

    resource_type: int
    resource_name: str
    pattern_type: int
    principal: str
    host: str
    operation: int
    permission_type: int


class AclBindingFilter(NamedTuple):
    """The wanted ACLs; what is ANY or None excludes none."""

    resource_type: int = ANY
    resource_name: str | None = None
    pattern_type: int = ANY
    principal: str | None = None
    host: str | None = None
    operation: int = ANY
    permission_type: int = ANY


def describe(client: Client, wanted: AclBindingFilter = AclBindingFilter()) -> list[AclBinding]:  # noqa: B008 - a tuple of constants
    """The ACLs that match, sorted."""
    request = DescribeAclsRequest(
        resource_type_filter=wanted.resource_type,
        resource_name_filter=wanted.resource_name,
        pattern_type_filter=wanted.pattern_type,
        principal_filter=wanted.principal,
        host_filter=wanted.host,
        operation=wanted.operation,
        permission_type=wanted.permission_type,
    )
    answer = client.call(request)
    raise_for(answer.error_code, "ACLs", answer.error_message)
    return sorted(
        AclBinding(
            each.resource_type,
            each.resource_name,
            each.pattern_type,
            acl.principal,
            acl.host,
            acl.operation,
            acl.permission_type,
        )
        for each in answer.resources
        for acl in each.acls
    )


def create(client: Client, wanted: Sequence[AclBinding]) -> None:
    """Create ACLs; those that exist already are left alone."""
    for request in creations(wanted):
        answer = client.call(request)
        for each, result in zip(request.creations, answer.results, strict=True):
            raise_for(result.error_code, f"ACL of {each.principal} on {each.resource_name}", result.error_message)


def creations(wanted: Sequence[AclBinding]) -> Iterator[CreateAclsRequest]:
    """The requests that create ACLs."""
    for start in range(0, len(wanted), MOST_AT_ONCE):
        yield CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=each.resource_type,
                    resource_name=each.resource_name,
                    resource_pattern_type=each.pattern_type,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission_type,
                )
                for each in wanted[start : start + MOST_AT_ONCE]
            ]
        )


def deletion(filters: Iterable[AclBindingFilter]) -> DeleteAclsRequest:
    """The request that deletes all ACLs that match a filter."""
    return DeleteAclsRequest(
        filters=[
            DeleteAclsFilter(
                resource_type_filter=each.resource_type,
                resource_name_filter=each.resource_name,
                pattern_type_filter=each.pattern_type,
                principal_filter=each.principal,
                host_filter=each.host,
                operation=each.operation,
                permission_type=each.permission_type,
            )
            for each in filters
        ]
    )


def delete(client: Client, filters: Iterable[AclBindingFilter]) -> list[AclBinding]:
    """Delete all ACLs that match a filter; the deleted ones, sorted."""
    deleted: set[AclBinding] = set()
    for result in client.call(deletion(filters)).filter_results:
        raise_for(result.error_code, "ACLs", result.error_message)
        for acl in result.matching_acls:
            raise_for(acl.error_code, f"ACL of {acl.principal} on {acl.resource_name}", acl.error_message)
            deleted.add(
                AclBinding(
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
            )
    return sorted(deleted)
