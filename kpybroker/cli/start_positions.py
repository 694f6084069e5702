"""The position where ``kpybroker consume`` begins: the words of ``-o``, those of kcat (``s@time`` too) and rpk."""

from collections.abc import Callable
from datetime import datetime

import click

from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Client, Spot

STARTS = {"start": "start", "earliest": "start", "beginning": "start", "end": "end", "latest": "end"}
STORED = "stored"

Start = Callable[[Client, list[Spot]], dict[Spot, int]]


def start_of(_context: click.Context, _option: click.Parameter, text: str | None) -> Start | None:
    """The start as a function of the partitions, None if it is not given; click.BadParameter for an invalid text.

    ``stored`` is the committed offset of a group; without one, and without a group, the start.
    """
    if text is None:
        return None
    word = "start" if text == STORED else STARTS.get(text)
    if word:
        timestamp = EARLIEST_TIMESTAMP if word == "start" else LATEST_TIMESTAMP
        return lambda client, spots: client.list_offsets(dict.fromkeys(spots, timestamp))
    if text.startswith(("@", "s@")):
        time_ms = milliseconds(text.partition("@")[2])
        return lambda client, spots: first_at(client, spots, time_ms)
    try:
        offset = int(text)
    except ValueError:
        raise click.BadParameter(f"{text!r} is not start, end, stored, an offset, +N, -N or @time") from None
    if text.startswith("+"):
        return lambda client, spots: behind_start(client, spots, offset)
    if text.startswith("-"):
        return lambda client, spots: last(client, spots, -offset)
    return lambda _client, spots: dict.fromkeys(spots, offset)


def milliseconds(text: str) -> int:
    """The milliseconds of ``1700000000000`` or of ISO 8601, local time unless it gives a zone."""
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
    """The offset ``count`` before the end of each partition, or its start."""
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
    return {spot: max(starts[spot], ends[spot] - count) for spot in spots}


def behind_start(client: Client, spots: list[Spot], count: int) -> dict[Spot, int]:
    """The offset ``count`` behind the start of each partition, or its end."""
    starts = client.list_offsets(dict.fromkeys(spots, EARLIEST_TIMESTAMP))
    ends = client.list_offsets(dict.fromkeys(spots, LATEST_TIMESTAMP))
    return {spot: min(ends[spot], starts[spot] + count) for spot in spots}
