"""The ACLs that the options of ``kpybroker acls`` stand for, as in kafka-acls. Pure.

``--producer``, ``--consumer`` and ``--idempotent`` are short for the ACLs that such a client needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any, Final, NamedTuple

import click

from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from kpybroker.machines.authorization.networks import InvalidNetwork, is_network, parse_network
from kpybroker.machines.authorization.resources import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    WILDCARD,
    AclOperation,
    PatternType,
    Permission,
    ResourceType,
)
from kpybroker.runtime.calls.address import is_address, java_address

NAMED_RESOURCES: Final = {
    "topic": ResourceType.TOPIC,
    "group": ResourceType.GROUP,
    "transactional_id": ResourceType.TRANSACTIONAL_ID,
    "delegation_token": ResourceType.DELEGATION_TOKEN,
    "user_principal": ResourceType.USER,
}
"""The options that name resources, with their types. ``--cluster`` is a flag."""
OPERATIONS: Final = {operation.pascal_name: operation for operation in AclOperation if operation >= AclOperation.ALL}
PATTERN_TYPES: Final = {each.name.lower(): each for each in PatternType if each}
PRODUCERS: Final = {
    ResourceType.TOPIC: (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE),
    ResourceType.TRANSACTIONAL_ID: (AclOperation.WRITE, AclOperation.DESCRIBE),
}
CONSUMERS: Final = {
    ResourceType.TOPIC: (AclOperation.READ, AclOperation.DESCRIBE),
    ResourceType.GROUP: (AclOperation.READ,),
}


class AclResource(NamedTuple):
    """A resource, or all whose names begin like this."""

    kind: ResourceType
    name: str

    def __str__(self) -> str:
        return f"{self.kind.pascal_name}:{self.name}"


def resources_of(named: Mapping[str, Any]) -> list[AclResource]:
    """The resources that the options name, each once."""
    found = [AclResource(kind, name) for option, kind in NAMED_RESOURCES.items() for name in named[option]]
    if named["cluster"]:
        found.append(AclResource(ResourceType.CLUSTER, CLUSTER_NAME))
    return list(dict.fromkeys(found))


def resource_of(text: str) -> AclResource:
    """The resource of ``topic:orders``, ``transactional-id:x`` or ``cluster``. click.BadParameter if it is none."""
    word, _, name = text.partition(":")
    option = word.lower().replace("-", "_")
    if option == "cluster" and name in ("", CLUSTER_NAME):
        return AclResource(ResourceType.CLUSTER, CLUSTER_NAME)
    if option not in NAMED_RESOURCES or not name:
        kinds = ", ".join(f"{each.replace('_', '-')}:NAME" for each in NAMED_RESOURCES)
        raise click.BadParameter(f"{text!r} is none of cluster, {kinds}")
    return AclResource(NAMED_RESOURCES[option], name)


def principal_of(text: str) -> str:
    """A principal as ACLs name it. click.BadParameter if its type is missing."""
    if ":" not in text:
        raise click.BadParameter(f"{text!r} is no principal; write User:{text}")
    return text


def host_of(text: str) -> str:
    """The address of a client as ACLs name it, or ``*``. click.BadParameter for a text that is neither."""
    if text == WILDCARD:
        return text
    if not is_address(text):
        raise click.BadParameter(f"{text!r} is no address")
    return java_address(text)


def host_pattern_of(text: str) -> str:
    """A host as ACLs name it: an address, a network or ``*``. click.BadParameter for a text that no client's address
    can belong to."""
    if is_network(text):
        try:
            parse_network(text)
        except InvalidNetwork as error:
            raise click.BadParameter(f"{text!r} is no network: {error}") from None
        return text
    try:
        return host_of(text)
    except click.BadParameter:
        text = f"{text!r} is no address; ACLs name addresses, networks such as 10.0.0.0/8, or * for all"
        raise click.BadParameter(text) from None


def operation_of(text: str) -> AclOperation:
    """An operation by its name in any case: ``describe-configs``, ``DescribeConfigs``. click.BadParameter."""
    wanted = text.replace("-", "").replace("_", "").lower()
    for name, operation in OPERATIONS.items():
        if name.lower() == wanted:
            return operation
    raise click.BadParameter(f"{text!r} is none of {', '.join(OPERATIONS)}")


def wanted_acls(named: Mapping[str, Any], pattern_type: PatternType) -> list[AclBinding]:
    """The ACLs that the options of ``add`` stand for. click.UsageError if they name none."""
    resources = resources_of(named)
    allowed = product([Permission.ALLOW], named["allow_principals"], named["allow_hosts"] or (WILDCARD,))
    denied = product([Permission.DENY], named["deny_principals"], named["deny_hosts"] or (WILDCARD,))
    target = [*allowed, *denied]
    if not target:
        raise click.UsageError("name somebody with --allow-principal or --deny-principal")
    acls = []
    for resource, operation in _operations(named, resources):
        # The cluster is one resource; there is nothing that a prefix could cover.
        pattern = PatternType.LITERAL if resource.kind is ResourceType.CLUSTER else pattern_type
        for permission, principal, host in target:
            acls.append(AclBinding(resource.kind, resource.name, pattern, principal, host, operation, permission))
    return list(dict.fromkeys(acls))


def wanted_filters(named: Mapping[str, Any], pattern_type: PatternType) -> list[AclBindingFilter]:
    """The filters that the options of ``remove`` stand for: single ACLs if somebody is named, or all ACLs of
    resources."""
    if named["allow_principals"] or named["deny_principals"]:
        found = wanted_acls(named, pattern_type)
        return [
            AclBindingFilter(*each._replace(host=host))
            for each in found
            for host in {each.host, java_address(each.host)}
        ]
    if named["operations"] or named["producer"] or named["consumer"] or named["idempotent"]:
        raise click.UsageError("name somebody with --allow-principal or --deny-principal")
    resources = resources_of(named)
    if not resources:
        raise click.UsageError("name a resource: --topic, --group, --cluster, --transactional-id ...")
    return [AclBindingFilter(each.kind, each.name, pattern_type) for each in resources]


def _operations(
    named: Mapping[str, Any], resources: Sequence[AclResource]
) -> Iterator[tuple[AclResource, AclOperation]]:
    producer, consumer, idempotent = named["producer"], named["consumer"], named["idempotent"]
    if not (producer or consumer or idempotent):
        if not resources:
            raise click.UsageError("name a resource: --topic, --group, --cluster, --transactional-id ...")
        for resource, operation in product(resources, named["operations"] or (AclOperation.ALL,)):
            _check_supported(resource, operation)
            yield resource, operation
        return
    if named["operations"] or named["deny_principals"]:
        raise click.UsageError("--producer, --consumer and --idempotent take neither --operation nor --deny-principal")
    kinds = {each.kind for each in resources}
    if (producer or consumer) and ResourceType.TOPIC not in kinds:
        raise click.UsageError("--producer and --consumer need --topic")
    if consumer and ResourceType.GROUP not in kinds:
        raise click.UsageError("--consumer needs --group")
    for is_wanted, needs in ((producer, PRODUCERS), (consumer, CONSUMERS)):
        for resource in resources if is_wanted else ():
            for operation in needs.get(resource.kind, ()):
                yield resource, operation
    if idempotent:
        yield AclResource(ResourceType.CLUSTER, CLUSTER_NAME), AclOperation.IDEMPOTENT_WRITE


def _check_supported(resource: AclResource, operation: AclOperation) -> None:
    supported = SUPPORTED_OPERATIONS[resource.kind]
    if operation not in (*supported, AclOperation.ALL):
        names = ", ".join(each.pascal_name for each in (*supported, AclOperation.ALL))
        raise click.UsageError(f"{operation.pascal_name} has no meaning for {resource}; use one of {names}")
