"""The new offsets of a group: ``groups reset-offsets`` as arithmetic. Pure.

The words are those of kafka-consumer-groups. As there, an offset outside the log becomes its nearest end.
"""

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from typing import NamedTuple

from kpybroker.client.client import Spot

_ISO_DURATION = re.compile(r"P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.IGNORECASE)
_SHORT_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_SECONDS = (86_400, 3_600, 60, 1)


class ResetRange(NamedTuple):
    """The offsets of a partition: ``start`` to ``end``; ``end`` is the next to be written."""

    start: int
    end: int


class Reset(NamedTuple):
    """The reset of one partition. ``committed`` is None where there was no offset; ``note`` says what had to be
    changed."""

    spot: Spot
    committed: int | None
    offset: int
    note: str = ""


def to_offset(offset: int, committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Every partition to one offset."""
    return [_within(spot, committed.get(spot), offset, logs[spot]) for spot in sorted(logs)]


def to_earliest(committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Every partition to its first record."""
    return [Reset(spot, committed.get(spot), logs[spot].start) for spot in sorted(logs)]


def to_latest(committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Every partition behind its last record."""
    return [Reset(spot, committed.get(spot), logs[spot].end) for spot in sorted(logs)]


def to_current(committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Every partition to its committed offset. A partition without one gets the end of its log."""
    return [Reset(spot, committed.get(spot), committed.get(spot, logs[spot].end)) for spot in sorted(logs)]


def shift_by(count: int, committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Every partition ``count`` records on, or back if negative. ValueError naming the partitions that have no offset
    to shift."""
    missing = sorted(spot for spot in logs if spot not in committed)
    if missing:
        raise ValueError(f"nothing is committed for {', '.join(map(str, missing))}, so nothing can be shifted")
    return [_within(spot, committed[spot], committed[spot] + count, logs[spot]) for spot in sorted(logs)]


def to_time(found: Mapping[Spot, int], committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """``found``: the first offset of the time in each partition, -1 where every record is older: then the end."""
    return [
        Reset(spot, committed.get(spot), found[spot] if found[spot] >= 0 else logs[spot].end) for spot in sorted(logs)
    ]


def to_plan(plan: Mapping[Spot, int], committed: Mapping[Spot, int], logs: Mapping[Spot, ResetRange]) -> list[Reset]:
    """Each partition to an offset of its own."""
    return [_within(spot, committed.get(spot), plan[spot], logs[spot]) for spot in sorted(plan)]


def _within(spot: Spot, committed: int | None, offset: int, log: ResetRange) -> Reset:
    if offset > log.end:
        return Reset(spot, committed, log.end, f"{offset} is behind the end {log.end}")
    if offset < log.start:
        return Reset(spot, committed, log.start, f"{offset} is before the start {log.start}")
    return Reset(spot, committed, offset)


def parse_spots(text: str) -> tuple[str, tuple[int, ...]]:
    """``topic`` or ``topic:0,1``; no partitions means all of them. ValueError if it is neither."""
    topic, colon, listed = text.rpartition(":")
    if not colon:
        return _named(text), ()
    try:
        indexes = tuple(int(part) for part in listed.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is neither TOPIC nor TOPIC:0,1") from None
    if min(indexes) < 0:
        raise ValueError(f"{text!r} has a negative partition")
    return _named(topic), indexes


def _named(topic: str) -> str:
    if not topic:
        raise ValueError("a topic has a name")
    return topic


def parse_datetime_ms(text: str) -> int:
    """ISO 8601 as in ``--to-datetime 2026-01-31T12:00:00.000``, UTC unless it says otherwise. ValueError if it is not.

    Kafka's tools read a time without a zone as UTC too.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a time such as 2026-01-31T12:00:00.000") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def parse_duration_ms(text: str) -> int:
    """ISO 8601 as in ``PT1H30M``, or ``1h30m``. ValueError if it is neither."""
    match = _ISO_DURATION.fullmatch(text) or _SHORT_DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise ValueError(f"{text!r} is not a duration such as PT1H30M or 1h30m")
    return round(sum(float(part or 0) * seconds for part, seconds in zip(match.groups(), _SECONDS, strict=True)) * 1000)


def render_csv(resets: Mapping[str, Iterable[Reset]]) -> str:
    """The output of ``--export``: ``topic,partition,offset`` lines, with the group in front if there are several."""
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for group, planned in resets.items():
        prefix = [group] if len(resets) > 1 else []
        writer.writerows([*prefix, each.spot.topic, each.spot.partition, each.offset] for each in planned)
    return out.getvalue()


def parse_csv(text: str, groups: Iterable[str]) -> dict[str, dict[Spot, int]]:
    """The offsets by group from a ``--from-file``, as `render_csv` writes it. ValueError with the line that is wrong.

    Lines without a group are for the only group.
    """
    names = list(groups)
    plan: dict[str, dict[Spot, int]] = {name: {} for name in names}
    for number, row in enumerate(_rows(text), 1):
        if not row:
            continue
        cells = [cell.strip() for cell in row]
        if len(cells) == 3 and len(names) == 1:
            cells = [names[0], *cells]
        if len(cells) != 4:
            raise ValueError(f"line {number} is not {'' if len(names) == 1 else 'GROUP,'}TOPIC,PARTITION,OFFSET")
        group, topic, partition, offset = cells
        try:
            entry = {Spot(topic, int(partition)): int(offset)}
        except ValueError:
            raise ValueError(f"line {number}: partition and offset are numbers") from None
        if group in plan:
            plan[group] |= entry
    return plan


def _rows(text: str) -> Iterator[list[str]]:
    """The rows of a CSV. ValueError with the line that is wrong."""
    reader = csv.reader(StringIO(text))
    try:
        yield from reader
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from None


def parse_delete_records(text: str) -> dict[Spot, int]:
    """The file of kafka-delete-records: ``{"partitions": [{"topic", "partition", "offset"}], "version": 1}``.

    ValueError if it is not that.
    """
    try:
        found = json.loads(text)
        if found.get("version", 1) != 1:
            raise ValueError(f"version {found['version']} is not known, only 1")
        return {Spot(str(each["topic"]), int(each["partition"])): int(each["offset"]) for each in found["partitions"]}
    except (AttributeError, KeyError, TypeError, json.JSONDecodeError):
        raise ValueError('expected {"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}') from None
