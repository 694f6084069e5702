"""``kpybroker consume TOPIC``: print records, options as in kcat and rpk."""

import sys
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime

import click

from kpybroker.cli.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot
from kpybroker.cli.cluster import bootstrap_server, connected, json_output
from kpybroker.cli.reader import Found, Reader
from kpybroker.cli.record_format import formatter, json_line
from kpybroker.errors import KafkaError
from kpywire import error_codes

VALUES = "%v\\n"
STARTS = {"start": "start", "earliest": "start", "beginning": "start", "end": "end", "latest": "end"}

Start = Callable[[Client, list[Spot]], dict[Spot, int]]


def start_of(_context: click.Context, _option: click.Parameter, text: str) -> Start:
    """Where to begin, as a function of the partitions; click.BadParameter for what is none."""
    word = STARTS.get(text)
    if word:
        timestamp = EARLIEST_TIMESTAMP if word == "start" else LATEST_TIMESTAMP
        return lambda client, spots: client.list_offsets(dict.fromkeys(spots, timestamp))
    if text.startswith("@"):
        time_ms = milliseconds(text[1:])
        return lambda client, spots: first_at(client, spots, time_ms)
    try:
        offset = int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not start, end, an offset, -N or @time") from None
    if offset < 0:
        return lambda client, spots: last(client, spots, -offset)
    return lambda _client, spots: dict.fromkeys(spots, offset)


def milliseconds(text: str) -> int:
    """``1700000000000`` or ISO 8601, local time unless it says otherwise."""
    if text.isdecimal():
        return int(text)
    try:
        return int(datetime.fromisoformat(text).timestamp() * 1000)
    except ValueError:
        raise click.BadParameter(f"{text!r} is neither milliseconds nor a time such as 2026-01-31T12:00") from None


def first_at(client: Client, spots: list[Spot], time_ms: int) -> dict[Spot, int]:
    """The first record at or after a time, the end where there is none."""
    found = client.list_offsets(dict.fromkeys(spots, time_ms))
    late = [spot for spot, offset in found.items() if offset < 0]
    return found | client.list_offsets(dict.fromkeys(late, LATEST_TIMESTAMP))


def last(client: Client, spots: list[Spot], count: int) -> dict[Spot, int]:
    """So many offsets before the end of each partition, or its start."""
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
    return {spot: max(starts[spot], ends[spot] - count) for spot in spots}


@click.command(name="consume")
@click.argument("topic")
@click.option(
    "-o",
    "--offset",
    "start",
    metavar="WHERE",
    default="start",
    show_default=True,
    callback=start_of,
    help="start, end, an offset, -N for the last N of each partition, or @time (ms or ISO 8601).",
)
@click.option("--from-beginning", is_flag=True, help="The same as -o start, as in Kafka's console consumer.")
@click.option("-p", "--partition", "only", type=click.IntRange(0), multiple=True, help="Only this one. Repeatable.")
@click.option("-c", "--count", type=click.IntRange(1), help="End after so many records.")
@click.option("-e", "--exit", "to_end", is_flag=True, help="End where the partitions end now, instead of waiting.")
@click.option("-f", "--format", "layout", default=VALUES, help="As in '%t %p %o %k %v\\n'; also %d time, %h headers.")
@json_output
@bootstrap_server
def command(
    topic: str,
    start: Start,
    from_beginning: bool,
    only: tuple[int, ...],
    count: int | None,
    to_end: bool,
    layout: str,
    as_json: bool,
    server: str,
) -> None:
    """Print the records of TOPIC and wait for more, until Ctrl-C."""
    try:
        show = json_line if as_json else formatter(layout)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--format") from None
    with connected(server) as client:
        spots = partitions(client, topic, only)
        if from_beginning:
            positions = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
        else:
            positions = start(client, spots)
        ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP)) if to_end else None
        out = sys.stdout.buffer
        for round_of_records in rounds(Reader(client, positions), ends, count):
            for found in round_of_records:
                out.write(show(found))
            out.flush()


def partitions(client: Client, topic: str, only: Iterable[int]) -> list[Spot]:
    """The partitions to read. Raises KafkaError if the topic or one of ``only`` is not there."""
    there = [each.partition_index for each in client.topic(topic).partitions]
    missing = set(only) - set(there)
    if missing:
        message = f"topic {topic} has no partition {min(missing)}, only 0 to {len(there) - 1}"
        raise KafkaError(error_codes.INVALID_PARTITIONS, message)
    return [Spot(topic, index) for index in there if not only or index in only]


def rounds(reader: Reader, ends: dict[Spot, int] | None, count: int | None) -> Iterator[Iterator[Found]]:
    """The records to print, fetch by fetch: at most ``count``, and below ``ends`` if there are any."""
    left = count

    def some() -> Iterator[Found]:
        nonlocal left
        for found in reader.poll():
            if ends is not None and found.record.offset >= ends[found.spot]:
                continue
            yield found
            if left is not None:
                left -= 1
                if left == 0:
                    return

    while left != 0:
        if ends is not None and all(reader.positions[spot] >= end for spot, end in ends.items()):
            return
        yield some()
