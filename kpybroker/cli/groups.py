"""``kpybroker groups``: list, describe and delete consumer groups, reset their offsets, remove members."""

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import REFUSED, bootstrap_server, connected, json_output, named_groups, wanted_groups
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.tables import columns, show_json
from kpybroker.client.group_listing import list_groups
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes


@click.group(name="groups", cls=Commands, modules={"describe": "group_descriptions", "reset-offsets": "group_resets"})
def command() -> None:
    """List, describe and delete consumer groups, reset their offsets."""


@command.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="List only groups in this state. Repeatable.")
@click.option(
    "--type",
    "types",
    multiple=True,
    metavar="TYPE",
    help="List only groups of this type: classic, consumer, streams, share... Repeatable.",
)
@json_output
@bootstrap_server
def list_(states: tuple[str, ...], types: tuple[str, ...], as_json: bool, server: str) -> None:
    """List groups with their type and state."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    with connected(server) as client:
        found = [
            group
            for group in list_groups(client)
            if (not wanted_states or group.group_state.lower() in wanted_states)
            and (not wanted_types or group.group_type.lower() in wanted_types)
        ]
    rows = [(each.group_id, each.group_type, each.protocol_type, each.group_state) for each in found]
    if as_json:
        show_json([dict(zip(("group", "type", "protocol_type", "state"), row, strict=True)) for row in rows])
    elif rows:
        click.echo(columns(("GROUP", "TYPE", "PROTOCOL TYPE", "STATE"), rows))
    else:
        click.echo("No groups." if not (states or types) else "No such groups.", err=True)


@command.command()
@named_groups
@click.option("--if-exists", is_flag=True, help="Do not fail if a group does not exist.")
@bootstrap_server
def delete(names: tuple[str, ...], more: tuple[str, ...], if_exists: bool, server: str) -> None:
    """Delete empty groups, with the offsets they have committed."""
    from kpybroker.client import group_requests

    with connected(server) as client:
        for name in wanted_groups(client, (*names, *more), every=False):
            try:
                group_requests.delete(client, name)
            except KafkaError as error:
                if not (if_exists and error.code == error_codes.GROUP_ID_NOT_FOUND):
                    raise
                click.echo(f"{name} does not exist")
            else:
                click.echo(f"Deleted {name}")


@command.command("delete-offsets")
@click.argument("name", metavar="GROUP", shell_complete=completion.groups)
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    required=True,
    metavar="TOPIC[:0,1]",
    callback=scope_of,
    shell_complete=completion.topics,
    help="A topic, or some partitions of it. Repeatable.",
)
@bootstrap_server
def delete_offsets(name: str, topics: tuple[tuple[str, tuple[int, ...]], ...], server: str) -> None:
    """Forget the offsets that a group has committed for topics it no longer reads."""
    from kpybroker.client import group_requests

    with connected(server) as client:
        results = group_requests.delete_offsets(client, name, partitions_of(client, topics))
    for spot, code in results.items():
        click.echo(f"{spot}: {error_codes.name(code)}" if code else f"Deleted the offset of {spot}")
    if any(results.values()):
        raise SystemExit(REFUSED)


@command.command("remove-members")
@click.argument("name", metavar="GROUP", shell_complete=completion.groups)
@click.option("--member", "members", multiple=True, metavar="ID", help="Remove this member. Repeatable.")
@click.option("--instance", "instances", multiple=True, metavar="ID", help="Remove this static member. Repeatable.")
@click.option("--all", "every", is_flag=True, help="Remove every member.")
@bootstrap_server
def remove_members(name: str, members: tuple[str, ...], instances: tuple[str, ...], every: bool, server: str) -> None:
    """Remove members from a group, such as static ones that will not come back (KIP-345)."""
    from kpybroker.client import group_requests
    from kpywire.messages.leave_group import MemberIdentity

    if every == bool(members or instances):
        raise click.UsageError("name members with --member, --instance or --all")
    with connected(server) as client:
        leaving = [MemberIdentity(member_id=each, reason="removed by kpybroker groups") for each in members]
        leaving += [MemberIdentity(member_id="", group_instance_id=each) for each in instances]
        if every:
            found = group_requests.describe(client, name).members
            leaving = [MemberIdentity(member_id=each.member_id, group_instance_id=each.instance_id) for each in found]
        results = group_requests.remove_members(client, name, leaving) if leaving else []
    for member, code in results:
        if code:
            click.echo(f"Error: {member}: {error_codes.message(code)} ({error_codes.name(code)})", err=True)
        else:
            click.echo(f"Removed {member}")
    if any(code for _, code in results):
        raise SystemExit(REFUSED)
