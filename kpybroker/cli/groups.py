"""``kpybroker groups``: list, describe and delete consumer groups, reset their offsets, remove members."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from kpybroker.cli import Commands, completion, group_view
from kpybroker.cli.group_resets import partitions_of, reset_offsets, scope_of
from kpybroker.cli.group_times import halted_since
from kpybroker.cli.options import REFUSED, bootstrap_server, connected, json_output, named_groups, wanted_groups
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.tables import columns, plural, printable, show_json
from kpybroker.client import dead_letters, group_requests, share_group_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.group_requests import GroupDescription
from kpybroker.client.lag import GroupLag, measure
from kpybroker.client.rebalance import blockers
from kpybroker.client.topology_descriptions import topology_nodes
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes
from kpywire.messages.leave_group import MemberIdentity


@click.group(name="groups", cls=Commands)
def command() -> None:
    """List, describe and delete consumer groups, reset their offsets."""


command.add_command(reset_offsets)


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
            for group in group_requests.list_groups(client)
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
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "--offsets", "view", flag_value="offsets", default="offsets", help="Show offsets and lag, which is the default."
)
@click.option("--members", "view", flag_value="members", help="Show members with their partitions.")
@click.option("--state", "view", flag_value="state", help="Show only state, assignor and coordinator.")
@click.option("--topology", "view", flag_value="topology", help="Show the nodes of a Kafka Streams topology.")
@json_output
@bootstrap_server
def describe(
    names: tuple[str, ...], more: tuple[str, ...], all_groups: bool, view: str, as_json: bool, server: str
) -> None:
    """Show who is in a group, what it has committed, and how far it is behind, in records and in time."""
    texts, dictionaries = [], []
    with connected(server) as client:
        wanted = wanted_groups(client, (*names, *more), every=all_groups)
        for name in _with_progress(wanted):
            group = group_requests.describe(client, name)
            since_ms = halted_since(client, group) if blockers(group) else {}
            now_ms = time.time_ns() // 1_000_000
            nodes = topology_nodes(client, name) if view == "topology" and group.application is not None else None
            if view == "offsets" or as_json:
                lags, metadata = _progress(client, group)
                described = {} if nodes is None else {"topology": group_view.topology_dicts(nodes)}
                described |= _dead_letters(client, group)
                dictionaries.append(group_view.as_dict(group, lags, metadata, now_ms, since_ms) | described)
                offsets = group_view.offsets_text(group, lags, now_ms)
                texts.append(f"{_heading(client, group, lags, since_ms, now_ms)}\n{offsets}")
            elif view == "members":
                texts.append(f"{_heading(client, group, None, since_ms, now_ms)}\n{group_view.members_text(group)}")
            elif view == "topology":
                texts.append(f"{_heading(client, group, None, since_ms, now_ms)}\n{group_view.topology_text(nodes)}")
            else:
                texts.append(_heading(client, group, None, since_ms, now_ms))
    if as_json:
        show_json(dictionaries)
    elif texts:
        click.echo(("\n" if view == "state" else "\n\n").join(texts))
    else:
        click.echo("No groups.", err=True)


def _heading(
    client: Client,
    group: GroupDescription,
    lags: Mapping[Spot, GroupLag] | None,
    since_ms: Mapping[str, int] | None,
    now_ms: int,
) -> str:
    """The heading of a group; of a streams group with a line about its topology."""
    heading = group_view.heading(group, lags, since_ms, now_ms)
    found = _dead_letters(client, group).get("dead_letters")
    if found is not None:
        count = plural(found["records"], "record")
        heading = f"{heading}\n  dead letters: {count} in {printable(found['topic'])}"
        if found["refusal"] is not None:
            heading = f"{heading}; none are written: {printable(found['refusal'])}"
    application = group.application
    if application is None:
        return heading
    names = {*application.sources, *application.internal}
    found = client.topics(names) if names else []
    partitions = {each.name or "": len(each.partitions) for each in found if each.error_code == error_codes.NONE}
    return f"{heading}\n  {group_view.application_text(group, partitions)}"


def _dead_letters(client: Client, group: GroupDescription) -> dict[str, Any]:
    """The dead-letter topic of a share group, for programs."""
    if group.kind != share_group_requests.SHARE:
        return {}
    found = dead_letters.kept(client, group.name)
    return {"dead_letters": None if found is None else found._asdict()}


def _with_progress(names: list[str]) -> Iterator[str]:
    with ProgressLine("Described", "group", len(names)) as progress:
        for number, name in enumerate(names):
            progress.reached(number)
            yield name


def _progress(client: Client, group: GroupDescription) -> tuple[dict[Spot, GroupLag], dict[Spot, str]]:
    """The lags of a group, and what its members have committed with their offsets."""
    if group.kind == share_group_requests.SHARE:
        starts = share_group_requests.start_offsets(client, group.name)
        lags = _lags(client, group, {spot: each.offset for spot, each in starts.items()})
        return {
            spot: lag._replace(left_records=starts[spot].left_records) if spot in starts else lag
            for spot, lag in lags.items()
        }, {}
    commits = group_requests.committed(client, group.name)
    lags = _lags(client, group, {spot: each.offset for spot, each in commits.items()})
    return lags, {spot: each.metadata for spot, each in commits.items() if each.metadata}


def _lags(client: Client, group: GroupDescription, committed: dict[Spot, int]) -> dict[Spot, GroupLag]:
    spots = set(committed) | group_view.owners(group).keys()
    return client.retrying(lambda: measure(client, committed, spots))


@command.command()
@named_groups
@click.option("--if-exists", is_flag=True, help="Do not fail if a group does not exist.")
@bootstrap_server
def delete(names: tuple[str, ...], more: tuple[str, ...], if_exists: bool, server: str) -> None:
    """Delete empty groups, with the offsets they have committed."""
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
