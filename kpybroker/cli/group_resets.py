"""``kpybroker groups reset-offsets``: shows the offsets that it would set, and with ``--execute`` sets them."""

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

import click

from kpybroker.cli import completion
from kpybroker.cli.group_view import resets_list, resets_text
from kpybroker.cli.options import bootstrap_server, connected, json_output, named_groups, wanted_groups
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.tables import show_json
from kpybroker.client import group_requests, resets, share_group_requests
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.client.resets import Reset, ResetRange
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

Target = Callable[[Client, Mapping[Spot, int], Mapping[Spot, ResetRange]], list[Reset]]


class Scope(NamedTuple):
    """The partitions to reset: named topics (with no partitions: all of them), or all that the group has read."""

    topics: tuple[tuple[str, tuple[int, ...]], ...]
    all_topics: bool


def _time_of(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else resets.parse_datetime_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def _duration_of(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    try:
        return None if text is None else resets.parse_duration_ms(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def given_of(chosen: Mapping[str, Any]) -> list[str]:
    """The options that were given; 0 is a value."""
    return [name for name, value in chosen.items() if value is not None and value is not False]


def target_of(chosen: Mapping[str, Any]) -> Target:
    """The target that the options give. click.UsageError unless exactly one of them was given."""
    given = given_of(chosen)
    if len(given) != 1:
        raise click.UsageError(
            f"choose the new position with one of {', '.join('--' + name.replace('_', '-') for name in chosen)}"
        )
    (name,) = given
    value = chosen[name]
    simple: dict[str, Callable[..., list[Reset]]] = {
        "to_earliest": resets.to_earliest,
        "to_latest": resets.to_latest,
        "to_current": resets.to_current,
        "to_offset": partial(resets.to_offset, value),
        "shift_by": partial(resets.shift_by, value),
    }
    if name in simple:
        return lambda _client, committed, logs: simple[name](committed, logs)
    time_ms = value if name == "to_datetime" else time.time_ns() // 1_000_000 - value

    def at_time(client: Client, committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
        return resets.to_time(client.list_offsets(dict.fromkeys(logs, time_ms)), committed, logs)

    return at_time


@click.command("reset-offsets")
@named_groups
@click.option("--all-groups", is_flag=True, help="All groups.")
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:0,1]",
    callback=scope_of,
    shell_complete=completion.topics,
    help="Reset only this topic, or these partitions of it. Repeatable.",
)
@click.option("--all-topics", is_flag=True, help="Reset every topic that the group has read.")
@click.option("--to-earliest", is_flag=True, help="Move to the first record.")
@click.option("--to-latest", is_flag=True, help="Move to the end, behind the last record.")
@click.option("--to-current", is_flag=True, help="Keep the committed offsets (useful with --export).")
@click.option("--to-offset", type=click.IntRange(0), metavar="N", help="Move to this offset.")
@click.option("--shift-by", type=int, metavar="N", help="Move N records forward, or back if N is negative.")
@click.option(
    "--to-datetime", metavar="TIME", callback=_time_of, help="Move to the first record at or after this time (UTC)."
)
@click.option(
    "--by-duration", metavar="PT1H", callback=_duration_of, help="Move back from now by this duration; 1h30m works too."
)
@click.option("--from-file", type=click.File("r"), help="Move to the offsets in a file that --export wrote.")
@click.option("--execute", is_flag=True, help="Commit the new offsets.")
@click.option("--dry-run", is_flag=True, help="Only show the new offsets, which is also the default.")
@click.option("--export", is_flag=True, help="Print the plan as CSV, for --from-file.")
@json_output
@bootstrap_server
def reset_offsets(
    names: tuple[str, ...],
    more: tuple[str, ...],
    all_groups: bool,
    topics: tuple[tuple[str, tuple[int, ...]], ...],
    all_topics: bool,
    from_file: Any,
    execute: bool,
    dry_run: bool,
    export: bool,
    as_json: bool,
    server: str,
    **chosen: Any,
) -> None:
    """Set the committed offsets of empty groups, or show what would be set."""
    if execute and dry_run:
        raise click.UsageError("--execute and --dry-run exclude each other")
    if from_file is None and bool(topics) == all_topics:
        raise click.UsageError("name the topics with --topic or --all-topics")
    if from_file is not None and (topics or all_topics or given_of(chosen)):
        raise click.UsageError("leave the topics out: the file names topics and offsets")
    target = target_of(chosen) if from_file is None else None
    with connected(server) as client:
        groups = wanted_groups(client, (*names, *more), every=all_groups)
        planned: dict[str, list[Reset]] = {}
        try:
            if target is None:
                offsets = resets.parse_csv(from_file.read(), groups)
                planned = {group: _from_plan(client, group, offsets[group]) for group in groups}
            else:
                scope = Scope(topics, all_topics)
                planned = {group: _plan(client, group, scope, target) for group in groups}
        except ValueError as error:
            raise click.ClickException(str(error)) from None
        if execute:
            kinds = {group: _kind_of_empty(client, group) for group in groups}
            for group, planned_resets in planned.items():
                offsets_of = {each.spot: each.offset for each in planned_resets}
                if offsets_of and kinds[group] == share_group_requests.SHARE:
                    share_group_requests.set_start_offsets(client, group, offsets_of)
                elif offsets_of:
                    group_requests.commit(client, group, offsets_of)
    _show(planned, execute=execute, export=export, as_json=as_json)


def _show(planned: Mapping[str, list[Reset]], *, execute: bool, export: bool, as_json: bool) -> None:
    if export:
        click.echo(resets.render_csv(planned), nl=False)
    elif as_json:
        show_json(resets_list(planned))
    elif any(planned.values()):
        click.echo(resets_text(planned))
    else:
        click.echo("Nothing is committed, so there is nothing to reset: name topics with --topic.", err=True)
    if not execute:
        click.echo("Nothing was changed; --execute does it.", err=True)


def _kind_of_empty(client: Client, group: str) -> str | None:
    """The kind of a group without members; None if it does not exist. Raises KafkaError if somebody is in it."""
    found = _described(client, group)
    if found is not None and found.state != group_requests.EMPTY:
        text = f"offsets can be reset only while group {group} is empty, and its state is {found.state}"
        raise KafkaError(error_codes.NON_EMPTY_GROUP, text)
    return None if found is None else found.kind


def _described(client: Client, group: str) -> group_requests.GroupDescription | None:
    try:
        return group_requests.describe(client, group)
    except KafkaError as error:
        if error.code != error_codes.GROUP_ID_NOT_FOUND:
            raise
        return None


def _plan(client: Client, group: str, scope: Scope, target: Target) -> list[Reset]:
    committed = _committed(client, group)
    spots = list(committed) if scope.all_topics else partitions_of(client, scope.topics)
    return target(client, committed, log_ranges(client, spots)) if spots else []


def _from_plan(client: Client, group: str, plan: Mapping[Spot, int]) -> list[Reset]:
    return resets.to_plan(plan, _committed(client, group), log_ranges(client, plan))


def _committed(client: Client, group: str) -> dict[Spot, int]:
    found = _described(client, group)
    if found is not None and found.kind == share_group_requests.SHARE:
        return {spot: start.offset for spot, start in share_group_requests.start_offsets(client, group).items()}
    try:
        return {spot: found.offset for spot, found in group_requests.committed(client, group).items()}
    except KafkaError as error:
        if error.code != error_codes.GROUP_ID_NOT_FOUND:
            raise
        return {}


def log_ranges(client: Client, spots: Iterable[Spot]) -> dict[Spot, ResetRange]:
    """The range of offsets with records in each partition. Raises KafkaError."""
    wanted = list(spots)
    starts = client.list_offsets(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    return {spot: ResetRange(starts[spot], ends[spot]) for spot in wanted}
