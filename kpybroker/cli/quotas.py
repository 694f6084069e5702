"""``kpybroker quotas``: list, set and remove the quotas of users, client ids and addresses."""

from collections.abc import Iterable
from typing import Any

import click

from kpybroker.cli import Commands
from kpybroker.cli.options import Command, bootstrap_server, connected, json_output
from kpybroker.cli.tables import columns, show_json
from kpybroker.client import quota_requests
from kpybroker.client.quota_requests import KEYS, KINDS, Names, Quotas, described
from kpybroker.machines.metadata.creator import creator_in, mark_of
from kpybroker.machines.names_nearby import nearby

HEADERS = ("ENTITY", "QUOTA", "VALUE")


@click.group(name="quotas", cls=Commands)
def command() -> None:
    """List, set and remove the quotas of users, client ids and addresses."""


def entity_options(command: Command) -> Command:
    """The options that name an entity."""
    options = [
        click.option("--user", metavar="USER", help="A user."),
        click.option("--user-default", is_flag=True, help="Users without a quota of their own."),
        click.option("--client-id", metavar="ID", help="A client id; with --user, of this user only."),
        click.option("--client-id-default", is_flag=True, help="Client ids without a quota of their own."),
        click.option("--ip", metavar="ADDRESS", help="An address, for connection_creation_rate."),
        click.option("--ip-default", is_flag=True, help="Addresses without a quota of their own."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def names_of(named: dict[str, Any]) -> dict[str, str | None]:
    """The entity that the options name. Raises click.UsageError if an option contradicts another."""
    names: dict[str, str | None] = {}
    for kind in KINDS:
        option = kind.replace("-", "_")
        name, is_default = named[option], named[f"{option}_default"]
        if name is not None and is_default:
            raise click.UsageError(f"--{kind} and --{kind}-default contradict each other")
        if name == "":
            raise click.UsageError(f"the name of --{kind} is empty")
        if name is not None or is_default:
            names[kind] = name
    return names


def _named(named: dict[str, Any]) -> Names:
    names = names_of(named)
    if not names:
        raise click.UsageError("name whom the quota is for: --user, --client-id or --ip, or one of the defaults")
    return names


@command.command("list")
@entity_options
@json_output
@bootstrap_server
def list_(as_json: bool, server: str, **named: Any) -> None:
    """List the quotas that are set: all, or those that concern the entity that is named."""
    with connected(server) as client:
        found = quota_requests.find(client, names_of(named))
    if as_json:
        show_json([{"entity": dict(each.names), "quotas": dict(each.values)} for each in found])
    elif found:
        click.echo(as_text(found))
    else:
        click.echo("No quotas are set.", err=True)


def as_text(found: Iterable[Quotas]) -> str:
    """The quotas as a table."""
    rows = [
        (described(each.names), key, f"{value:.15g}") for each in found for key, value in sorted(each.values.items())
    ]
    return columns(HEADERS, rows)


@command.command("set")
@click.argument("pairs", metavar="KEY=VALUE...", nargs=-1, required=True)
@entity_options
@click.option("--dry-run", is_flag=True, help="Ask the cluster whether it accepts the change; change nothing.")
@bootstrap_server
def set_(pairs: tuple[str, ...], dry_run: bool, server: str, **named: Any) -> None:
    """Set quotas, all of them or none: producer_byte_rate and consumer_byte_rate in bytes per second,
    request_percentage, controller_mutation_rate in partitions per second, connection_creation_rate per second."""
    sets: dict[str, float] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        try:
            number = float(value) if equals else None
        except ValueError:
            number = None
        if number is None:
            raise click.UsageError(f"{pair!r} is not KEY=NUMBER")
        sets[_known(key)] = number
    _change(_named(named), sets, (), dry_run=dry_run, server=server)


@command.command()
@click.argument("keys", metavar="KEY...", nargs=-1, required=True)
@entity_options
@click.option("--dry-run", is_flag=True, help="Ask the cluster whether it accepts the change; change nothing.")
@bootstrap_server
def remove(keys: tuple[str, ...], dry_run: bool, server: str, **named: Any) -> None:
    """Remove quotas, so that the next level counts."""
    _change(_named(named), {}, [_known(key) for key in keys], dry_run=dry_run, server=server)


@command.command()
@click.argument("users", metavar="USER...", nargs=-1, required=True)
@json_output
@bootstrap_server
def created(users: tuple[str, ...], as_json: bool, server: str) -> None:
    """Count the topics and partitions that users have created since the cluster bounds them.

    The bounds are kpybroker.max.topics.per.principal and kpybroker.max.partitions.per.principal. Without them, and
    before they were set, no topic has a known creator.
    """
    with connected(server) as client:
        topics = client.topics()
    found = []
    for user in users:
        mark = mark_of(f"User:{user}")
        own = [topic for topic in topics if creator_in(topic.topic_id) == mark]
        found.append((user, len(own), sum(len(topic.partitions) for topic in own)))
    if as_json:
        show_json([dict(zip(("user", "topics", "partitions"), each, strict=True)) for each in found])
    else:
        click.echo(columns(("USER", "TOPICS", "PARTITIONS"), [(user, str(t), str(p)) for user, t, p in found]))


def _known(key: str) -> str:
    if key not in KEYS:
        raise click.UsageError(f"there is no quota {key}{nearby(KEYS, key)}")
    return key


def _change(names: Names, sets: dict[str, float], removes: Iterable[str], *, dry_run: bool, server: str) -> None:
    with connected(server) as client:
        quota_requests.alter(client, names, sets, list(removes), validate_only=dry_run)
    click.echo(f"{'Would alter' if dry_run else 'Altered'} the quotas of {described(names)}")
