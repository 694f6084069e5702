"""``kpybroker acls``: list, add and remove ACLs, and explain which of them decides."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.acl_options import (
    PATTERN_TYPES,
    AclResource,
    host_of,
    host_pattern_of,
    operation_of,
    principal_of,
    resource_of,
    resources_of,
    wanted_acls,
    wanted_filters,
)
from kpybroker.cli.options import Command, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, plural, printable, show_json
from kpybroker.client import acl_requests, cluster_requests
from kpybroker.client.acl_requests import AclBinding, AclBindingFilter
from kpybroker.client.client import Client
from kpybroker.machines.authorization.authorizer import DEFAULT_DENY, Authorizer, MatchingRule
from kpybroker.machines.authorization.networks import is_network
from kpybroker.machines.authorization.resources import WILDCARD, AclOperation, PatternType, Permission, ResourceType
from kpybroker.machines.metadata import metadata_version
from kpybroker.runtime.calls.principal import parse_principal
from kpywire.metadata_records.access_control_entry_record import AccessControlEntryRecord

HEADINGS = ("RESOURCE", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")


@click.group(name="acls", cls=Commands)
def command() -> None:
    """List, add and remove ACLs, and explain which of them decides."""


def _each(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, Iterable[str]], tuple[Any, ...]]:
    """A callback that reads each value of a repeatable option."""
    return lambda _context, _option, texts: tuple(read(text) for text in texts)


def _repeatable(name: str, text: str, *more: str, **given: Any) -> Callable[[Command], Command]:
    return click.option(name, *more, multiple=True, help=f"{text} Repeatable.", **given)


def resource_options(command: Command) -> Command:
    """The options that name resources, as kafka-acls has them."""
    options: list[Callable[[Command], Command]] = [
        _repeatable("-t", "A topic; * means all.", "--topic", metavar="TOPIC", shell_complete=completion.topics),
        _repeatable("-g", "A group; * means all.", "--group", metavar="GROUP", shell_complete=completion.groups),
        click.option("--cluster", is_flag=True, help="The cluster as a whole."),
        _repeatable("--transactional-id", "A transactional id; * means all.", metavar="ID"),
        _repeatable("--delegation-token", "A delegation token; * means all.", metavar="TOKEN"),
        _repeatable("--user-principal", "A user whose tokens others may make or see.", metavar="PRINCIPAL"),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def _pattern_type(default: str, *names: str) -> Callable[[Command], Command]:
    return click.option(
        "--resource-pattern-type",
        "pattern_type",
        type=click.Choice(names),
        default=default,
        show_default=True,
        help="Whether names are whole names, or beginnings of names.",
    )


def acl_options(command: Command) -> Command:
    """The options that name ACLs, as kafka-acls has them."""
    principal: dict[str, Any] = {
        "metavar": "PRINCIPAL",
        "callback": _each(principal_of),
        "shell_complete": completion.principals,
    }
    host: dict[str, Any] = {"metavar": "ADDRESS"}
    options: list[Callable[[Command], Command]] = [
        _repeatable("--allow-principal", "Allow somebody, such as User:alice.", "allow_principals", **principal),
        _repeatable("--deny-principal", "Deny somebody, such as User:alice.", "deny_principals", **principal),
        _repeatable("--allow-host", "Allow from this address or network. [default: *]", "allow_hosts", **host),
        _repeatable("--deny-host", "Deny from this address or network. [default: *]", "deny_hosts", **host),
        _repeatable(
            "-o",
            "An operation. [default: All]",
            "--operation",
            "operations",
            metavar="OPERATION",
            callback=_each(operation_of),
            shell_complete=completion.operations,
        ),
        click.option("--producer", is_flag=True, help="All that a producer needs; with --topic."),
        click.option("--consumer", is_flag=True, help="All that a consumer needs; with --topic and --group."),
        click.option("--idempotent", is_flag=True, help="Idempotent writes, for clusters before Kafka 2.8."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@command.command("list")
@resource_options
@_repeatable(
    "--principal",
    "Only ACLs of this principal.",
    "principals",
    metavar="PRINCIPAL",
    callback=_each(principal_of),
    shell_complete=completion.principals,
)
@_pattern_type("any", *PATTERN_TYPES)
@json_output
@bootstrap_server
def list_(principals: tuple[str, ...], pattern_type: str, as_json: bool, server: str, **named: Any) -> None:
    """List ACLs: all, or those of resources. The pattern type match also finds prefixes and * that cover a name."""
    wanted = resources_of(named)
    pattern = PATTERN_TYPES[pattern_type]
    filters = [
        AclBindingFilter(each.kind, each.name, pattern, subject) for each in wanted for subject in principals or (None,)
    ] or [AclBindingFilter(pattern_type=pattern, principal=subject) for subject in principals or (None,)]
    with connected(server) as client:
        found = sorted({each for one in filters for each in acl_requests.describe(client, one)})
    show(found, as_json=as_json, otherwise="No ACLs.")


def show(found: Sequence[AclBinding], *, as_json: bool, otherwise: str) -> None:
    """Print ACLs as a table or as JSON."""
    rows = [_row(each) for each in found]
    if as_json:
        show_json([as_dict(each) for each in found])
    elif rows:
        click.echo(columns(HEADINGS, [(":".join(row[0]), *row[1:]) for row in rows]))
    else:
        click.echo(otherwise, err=True)


def as_dict(acl: AclBinding) -> dict[str, Any]:
    """An ACL for programs."""
    resource, *rest = _row(acl)
    return dict(zip(AclBinding._fields, (*resource, *rest), strict=True))


def _row(acl: AclBinding) -> tuple[Any, ...]:
    return (
        (ResourceType.of(acl.resource_type).pascal_name, acl.resource_name),
        PatternType.of(acl.pattern_type).name.lower(),
        acl.principal,
        acl.host,
        AclOperation.of(acl.operation).pascal_name,
        Permission.of(acl.permission_type).name.lower(),
    )


@command.command()
@resource_options
@acl_options
@_pattern_type("literal", "literal", "prefixed")
@bootstrap_server
def add(pattern_type: str, server: str, **named: Any) -> None:
    """Add ACLs. Those that are there already stay as they are."""
    for option in ("allow_hosts", "deny_hosts"):
        named[option] = [host_pattern_of(text) for text in named[option]]
    wanted = wanted_acls(named, PATTERN_TYPES[pattern_type])
    with connected(server) as client:
        acl_requests.create(client, wanted)
    click.echo(f"Added {plural(len(wanted), 'ACL')}")


@command.command()
@resource_options
@acl_options
@_pattern_type("literal", *PATTERN_TYPES)
@json_output
@bootstrap_server
def remove(pattern_type: str, as_json: bool, server: str, **named: Any) -> None:
    """Remove the ACLs that the same options add, or all ACLs of resources; print the removed ones.

    A host may be any text here, since some ACLs name what is no address.
    """
    filters = wanted_filters(named, PATTERN_TYPES[pattern_type])
    with connected(server) as client:
        removed = acl_requests.delete(client, filters)
    show(removed, as_json=as_json, otherwise="No such ACLs.")


@command.command()
@click.argument(
    "principal",
    metavar="USER",
    callback=lambda _context, _argument, text: principal_of(text),
    shell_complete=completion.principals,
)
@click.argument(
    "operation",
    metavar="OPERATION",
    callback=lambda _context, _argument, text: operation_of(text),
    shell_complete=completion.operations,
)
@click.argument(
    "resource",
    metavar="RESOURCE",
    callback=lambda _context, _argument, text: resource_of(text),
    shell_complete=completion.resources,
)
@click.option(
    "--host",
    metavar="ADDRESS",
    default=WILDCARD,
    callback=lambda _context, _option, text: host_of(text),
    help="The address of the client. [default: one that no ACL names]",
)
@json_output
@bootstrap_server
def explain(
    principal: str, operation: AclOperation, resource: AclResource, host: str, as_json: bool, server: str
) -> None:
    """Say which ACL lets a USER do an OPERATION with a RESOURCE, or denies it.

    A USER is written as User:alice, a RESOURCE as topic:orders, group:g, transactional-id:x or cluster. Super users and
    allow.everyone.if.no.acl.found are in the configuration of the brokers, and are not known here.
    """
    with connected(server) as client:
        covering = acl_requests.describe(client, AclBindingFilter(resource.kind, resource.name, PatternType.MATCH))
        networks = any(is_network(each.host) for each in covering) and reads_networks(client)
    rule = decide(covering, principal, operation, resource, host, reads_networks=networks)
    acl = None if rule.acl is None else entry_of(rule.acl)
    if as_json:
        deciding = None if acl is None else as_dict(acl)
        show_json({"allowed": rule.allows, "covering_acls": len(covering), "acl": deciding})
        return
    asked = f"{principal} {'may' if rule.allows else 'may not'} {operation.pascal_name} {resource}"
    click.echo(printable(f"{asked}: {reason(rule, acl, covering)}"))


def decide(
    acls: Iterable[AclBinding],
    principal: str,
    operation: AclOperation,
    resource: AclResource,
    host: str,
    *,
    reads_networks: bool = True,
) -> MatchingRule:
    """The rule that decides, of a node without super users. ``reads_networks``: whether ACLs may name networks."""
    try:
        asking = parse_principal(principal)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    authorizer = Authorizer(frozenset(), allows_without_acl=False, reads_networks=reads_networks)
    records = {
        number.to_bytes(16): AccessControlEntryRecord(id=number.to_bytes(16), **each._asdict())
        for number, each in enumerate(acls)
    }
    authorizer.acls_changed(records, records)
    return authorizer.decide(asking, host, operation, resource.kind, resource.name)


def reads_networks(client: Client) -> bool:
    """Whether the nodes of a cluster are sure to know networks in ACLs."""
    levels = {each.name: each.finalized for each in cluster_requests.features(client)}
    return (levels.get(metadata_version.FEATURE_NAME) or 0) >= metadata_version.NETWORKS_IN_ACLS


def entry_of(acl: AccessControlEntryRecord) -> AclBinding:
    """The ACL of a record."""
    return AclBinding(*(getattr(acl, name) for name in AclBinding._fields))


def reason(rule: MatchingRule, acl: AclBinding | None, covering: list[AclBinding]) -> str:
    """The reason of a decision, for people."""
    if acl is not None:
        (kind, name), pattern, subject, host, operation, permission = _row(acl)
        return f"{permission} {operation} on {kind}:{name} ({pattern}) for {subject} from {host}"
    assert rule is DEFAULT_DENY
    if covering:
        return "none of the ACLs that cover it allows this"
    return "no ACL covers it; a broker with allow.everyone.if.no.acl.found=true allows it"
