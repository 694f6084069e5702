"""kafka-acls: adds, lists and removes ACLs."""

from collections.abc import Iterable
from typing import Any, Final

import click

from kpybroker.cli.acl_options import (
    PATTERN_TYPES,
    host_of,
    operation_of,
    principal_of,
    resources_of,
    wanted_acls,
    wanted_filters,
)
from kpybroker.cli.kafka_tools.options import Found, ToolOptions, cluster_of, text_of
from kpybroker.client import acl_requests
from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from kpybroker.client.client import Client
from kpybroker.machines.authorization.resources import AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.errors import KafkaError

NAME: Final = "kafka-acls"
ACTIONS: Final = ("add", "list", "remove")
RESOURCES: Final = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
PRINCIPALS_AND_HOSTS: Final = ("allow-principal", "deny-principal", "allow-host", "deny-host", "operation")
USES: Final = ("producer", "consumer", "idempotent")


def options_of() -> ToolOptions:
    """The options of the tool."""
    options = ToolOptions(NAME, "This tool helps to manage acls on kafka.")
    options.of_cluster()
    options.flags(*ACTIONS, "cluster", *USES, "force")
    options.lists(*RESOURCES, *PRINCIPALS_AND_HOSTS, "principal")
    options.texts("resource-pattern-type")
    return options


def run(options: ToolOptions, found: Found) -> None:
    """Run the tool. Raises KafkaError, Refusal."""
    action = options.one_of(found, *ACTIONS)
    every = (*PRINCIPALS_AND_HOSTS, *USES, "principal", "force")
    options.only_with(
        found, action, {"list": ("principal",), "add": (*PRINCIPALS_AND_HOSTS, *USES)}.get(action, every), every
    )
    if action == "remove":
        options.only_with(found, action, (), ("principal",))
    default = "any" if action == "list" else "literal"
    pattern = PATTERN_TYPES.get((found.resource_pattern_type or default).lower())
    if pattern is None or (action == "add" and pattern not in (PatternType.LITERAL, PatternType.PREFIXED)):
        options.error(f"the resource pattern type is one of {', '.join(PATTERN_TYPES)}; to add literal or prefixed")
    try:
        named = _named(found)
        with cluster_of(found) as client:
            {"add": _add, "list": _list, "remove": _remove}[action](client, found, named, pattern)
    except click.UsageError as error:
        options.error(error.message)
    except KafkaError as error:
        print(f"Error while executing ACL command: {text_of(error)}")
        raise SystemExit(1) from None


def _named(found: Found) -> dict[str, Any]:
    """The options by the names that `kpybroker acls` has for them. click.UsageError."""
    return {
        **{name.replace("-", "_"): getattr(found, name.replace("-", "_")) for name in (*RESOURCES, *USES)},
        "cluster": found.cluster,
        "allow_principals": [principal_of(each) for each in found.allow_principal],
        "deny_principals": [principal_of(each) for each in found.deny_principal],
        "allow_hosts": found.allow_host,
        "deny_hosts": found.deny_host,
        "operations": [operation_of(each) for each in found.operation],
    }


def _add(client: Client, _found: Found, named: dict[str, Any], pattern: PatternType) -> None:
    hosts = {name: [host_of(each) for each in named[name]] for name in ("allow_hosts", "deny_hosts")}
    wanted = wanted_acls({**named, **hosts}, pattern)
    resources = {(each.resource_type, each.resource_name, each.pattern_type) for each in wanted}
    there = {each for resource in resources for each in acl_requests.describe(client, AclBindingFilter(*resource))}
    for each in wanted:
        if each in there:
            print(f"Acl (pattern={_resource(each)}, entry={_row(each)}) already exists.")
    new = [each for each in wanted if each not in there]
    _show(new, "Adding ACLs for resource", ": \n ")
    acl_requests.create(client, new)


def _list(client: Client, found: Found, named: dict[str, Any], pattern: PatternType) -> None:
    filters = [AclBindingFilter(each.kind, each.name, pattern) for each in resources_of(named)] or [AclBindingFilter()]
    acls = sorted({each for one in filters for each in acl_requests.describe(client, one)})
    principals: list[str | None] = [principal_of(each) for each in found.principal]
    for principal in principals or [None]:
        if principal is not None:
            print(f"ACLs for principal `{principal}`")
        _show([each for each in acls if principal in (None, each.principal)], "Current ACLs for resource", ":\n")


def _remove(client: Client, found: Found, named: dict[str, Any], pattern: PatternType) -> None:
    filters = wanted_filters(named, pattern)
    if not found.force:
        print("Are you sure you want to remove these ACLs? (y/n)", flush=True)
        if input().strip().lower() != "y":
            return
    acl_requests.delete(client, filters)


def _show(acls: Iterable[AclBinding], words: str, behind: str) -> None:
    """Print the ACLs of each resource, as Kafka's tool does."""
    by_resource: dict[tuple[int, str, int], list[AclBinding]] = {}
    for each in acls:
        by_resource.setdefault((each.resource_type, each.resource_name, each.pattern_type), []).append(each)
    for found in by_resource.values():
        rows = "\n".join(f"\t{_row(each)}" for each in found)
        print(f"{words} `{_resource(found[0])}`{behind}{rows}\n")


def _resource(acl: AclBinding) -> str:
    return (
        f"ResourcePattern(resourceType={ResourceType.of(acl.resource_type).name}, name={acl.resource_name}, "
        f"patternType={PatternType.of(acl.pattern_type).name})"
    )


def _row(acl: AclBinding) -> str:
    return (
        f"(principal={acl.principal}, host={acl.host}, operation={AclOperation.of(acl.operation).name}, "
        f"permissionType={Permission.of(acl.permission_type).name})"
    )
