"""``kpybroker groups describe``: the members of groups, their offsets and lag, and what keeps them."""

import time
from collections.abc import Iterator, Mapping
from typing import Any

import click

from kpybroker.cli import group_view
from kpybroker.cli.group_times import halted_since
from kpybroker.cli.options import bootstrap_server, connected, json_output, named_groups, wanted_groups
from kpybroker.cli.progress import ProgressLine
from kpybroker.cli.tables import plural, printable, show_json
from kpybroker.client import dead_letters, group_requests, share_group_requests
from kpybroker.client.client import Client, Spot
from kpybroker.client.group_requests import GroupDescription
from kpybroker.client.lag import GroupLag, measure
from kpybroker.client.rebalance import blockers
from kpybroker.client.topology_descriptions import topology_nodes
from kpywire import error_codes


@click.command()
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
