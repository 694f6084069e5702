"""``kpybroker offsets``: offsets of partitions by time, what a group has committed, and deletion of old records."""

from collections.abc import Iterable, Mapping
from typing import Any

import click

from kpybroker.cli import Commands, completion
from kpybroker.cli.options import bootstrap_server, connected, json_output
from kpybroker.cli.partition_arguments import partitions_of, scope_of
from kpybroker.cli.start_positions import milliseconds
from kpybroker.cli.tables import columns, show_json
from kpybroker.client import group_requests, offset_requests, resets
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, OffsetAndTimestamp, Spot
from kpybroker.machines.errors import KafkaError
from kpywire import error_codes

MAX_TIMESTAMP = -3
TIMES = {
    "earliest": EARLIEST_TIMESTAMP,
    "latest": LATEST_TIMESTAMP,
    "max-timestamp": MAX_TIMESTAMP,
    "earliest-local": -4,
    "latest-tiered": -5,
}
Scoped = tuple[tuple[str, tuple[int, ...]], ...]


@click.group(name="offsets", cls=Commands)
def command() -> None:
    """Show offsets of partitions and groups, delete old records."""


def time_of(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """The timestamp of ListOffsets for a word of kafka-get-offsets, ``@time`` or milliseconds; click.BadParameter for
    others."""
    if text is None or text in TIMES:
        return TIMES.get(text or "")
    if text.removeprefix("-").isdecimal() and int(text) in TIMES.values():
        return int(text)
    return milliseconds(text.removeprefix("@"))


@command.command()
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option(
    "--time",
    "timestamp",
    metavar="WHEN",
    callback=time_of,
    help="earliest, latest, max-timestamp, or @time (ms or ISO 8601): the first record at or after it. "
    "[default: earliest and latest]",
)
@click.option("--internal", is_flag=True, help="Without TOPIC: also show Kafka's own topics.")
@json_output
@bootstrap_server
def get(topics: Scoped, timestamp: int | None, internal: bool, as_json: bool, server: str) -> None:
    """Show the first and last offsets of partitions, or the offset of a time."""
    with connected(server) as client:
        spots = partitions_of(client, topics) if topics else _all_partitions(client, internal=internal)
        if timestamp is None:
            starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
            ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
            rows: list[tuple[Any, ...]] = [
                (*spot, starts[spot], ends[spot], ends[spot] - starts[spot]) for spot in spots
            ]
            headings: tuple[str, ...] = ("TOPIC", "PARTITION", "EARLIEST", "LATEST", "OFFSETS")
        else:
            rows = position_rows(client.find_offsets(dict.fromkeys(spots, timestamp)))
            headings = ("TOPIC", "PARTITION", "OFFSET", "TIMESTAMP")
    _show(headings, rows, as_json=as_json)


def position_rows(found: Mapping[Spot, OffsetAndTimestamp]) -> list[tuple[Any, ...]]:
    """A row for each partition; None for a value that does not exist."""
    return [
        (*spot, each.offset if each.offset >= 0 else None, each.timestamp if each.timestamp >= 0 else None)
        for spot, each in sorted(found.items())
    ]


def _show(headings: Iterable[str], rows: Iterable[tuple[Any, ...]], *, as_json: bool) -> None:
    titles = list(headings)
    if as_json:
        keys = [title.lower().replace(" ", "_") for title in titles]
        show_json([dict(zip(keys, row, strict=True)) for row in rows])
        return
    lines = [tuple("-" if cell is None else cell for cell in row) for row in rows]
    if lines:
        click.echo(columns(titles, lines))
    else:
        click.echo("Nothing to show.", err=True)


def _all_partitions(client: Client, *, internal: bool) -> list[Spot]:
    return sorted(
        Spot(topic.name or "", each.partition_index)
        for topic in client.topics()
        if internal or not topic.is_internal
        for each in topic.partitions
    )


@command.command()
@click.argument("group", metavar="GROUP", shell_complete=completion.groups)
@json_output
@bootstrap_server
def committed(group: str, as_json: bool, server: str) -> None:
    """Show what a group has committed, with the metadata its consumers added."""
    with connected(server) as client:
        found = group_requests.committed(client, group)
        if not found:
            group_requests.describe(client, group)
    rows = [
        (*spot, each.offset, each.leader_epoch if each.leader_epoch >= 0 else None, each.metadata)
        for spot, each in found.items()
    ]
    _show(("TOPIC", "PARTITION", "OFFSET", "LEADER EPOCH", "METADATA"), rows, as_json=as_json)


@command.command("delete-records")
@click.argument("topics", metavar="[TOPIC[:0,1]]...", nargs=-1, callback=scope_of, shell_complete=completion.topics)
@click.option("--before-offset", type=click.IntRange(0), metavar="N", help="Delete the records before this offset.")
@click.option("--before-time", metavar="TIME", help="Delete the records before the first one at or after this time.")
@click.option("--all", "every", is_flag=True, help="Delete all records.")
@click.option("--offset-json-file", type=click.File("r"), help="A file with offsets, as kafka-delete-records takes it.")
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@json_output
@bootstrap_server
def delete_records(
    topics: Scoped,
    before_offset: int | None,
    before_time: str | None,
    every: bool,
    offset_json_file: Any,
    dry_run: bool,
    as_json: bool,
    server: str,
) -> None:
    """Delete the oldest records of partitions for good."""
    if sum((before_offset is not None, before_time is not None, every, offset_json_file is not None)) != 1:
        raise click.UsageError("choose the records with --before-offset, --before-time, --all or --offset-json-file")
    if bool(topics) == (offset_json_file is not None):
        raise click.UsageError("name topics, or a file with --offset-json-file")
    time_ms = None if before_time is None else milliseconds(before_time.removeprefix("@"))
    plan = {} if offset_json_file is None else _plan_in(offset_json_file.read())
    with connected(server) as client:
        if topics:
            spots = partitions_of(client, topics)
            ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
            if time_ms is not None:
                found = client.list_offsets(dict.fromkeys(spots, time_ms))
                plan = {spot: found[spot] if found[spot] >= 0 else ends[spot] for spot in spots}
            elif every:
                plan = ends
            else:
                plan = dict.fromkeys(spots, before_offset or 0)
                _require_reached(plan, ends)
        if dry_run:
            starts = client.list_offsets(dict.fromkeys(plan, EARLIEST_TIMESTAMP))
            rows = [(*spot, starts[spot], offset) for spot, offset in plan.items()]
            _show(("TOPIC", "PARTITION", "EARLIEST", "NEW EARLIEST"), rows, as_json=as_json)
            click.echo("Nothing was deleted; leave --dry-run out to delete.", err=True)
        else:
            lows = offset_requests.delete_records(client, plan)
            _show(("TOPIC", "PARTITION", "EARLIEST"), [(*spot, low) for spot, low in lows.items()], as_json=as_json)


def _require_reached(plan: Mapping[Spot, int], ends: Mapping[Spot, int]) -> None:
    """Check offsets before anything is deleted for good: an offset that no record has reached is a mistake, as for
    Kafka."""
    for spot, offset in plan.items():
        if offset > ends[spot]:
            message = f"partition {spot} ends at {ends[spot]}, below {offset}; nothing was deleted"
            raise KafkaError(error_codes.OFFSET_OUT_OF_RANGE, message)


def _plan_in(text: str) -> dict[Spot, int]:
    try:
        return resets.parse_delete_records(text)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--offset-json-file") from None
