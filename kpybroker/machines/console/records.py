"""Records as they are shown, and the state of a search. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from kpybroker.machines.console.content import AUTO, Content, ContentBySchema, content_of
from kpybroker.machines.console.filtering import NO_FILTER, FilterFields
from kpybroker.machines.console.record_tasks import FoundRecord, Unreadable

NEWEST, OLDEST, OFFSET, TIME = "newest", "oldest", "offset", "time"
STARTS = (NEWEST, OLDEST, OFFSET, TIME)
USUAL: Final = 50
"""The records of a page that is not asked for another number."""
NO_SCHEMAS: Final[Mapping[bytes, ContentBySchema]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Header:
    """A header of a record."""

    name: str
    name_is_cut: bool
    """Whether only the beginning of the name is here."""
    value: Content


@dataclass(frozen=True, slots=True)
class RecordRow:
    """A record."""

    partition: int
    offset: int
    timestamp_ms: int
    timestamp_type: str
    segment: int | None
    """The base offset of the segment that has it; None where its files are on another node."""
    key: Content
    value: Content
    headers: tuple[Header, ...]
    headers_left_out: int
    """The headers that are not here, since all together are too large."""
    is_transactional: bool
    control: str | None
    """The kind of a marker of a transaction; None for a record of a client."""
    producer_id: int


@dataclass(frozen=True, slots=True)
class RecordsGap:
    """A place where records cannot be shown, and why."""

    partition: int
    offset: int
    reason: str


@dataclass(frozen=True, slots=True)
class RecordsPage:
    """Some records of a topic."""

    topic: str
    topics: tuple[str, ...]
    """The topics to choose from, while none is chosen."""
    topics_left_out: int
    partitions: int
    partitions_left_out: int
    """Partitions whose records are not shown, since there are too many."""
    partition: int | None
    start: str
    offset: int | None
    time: str
    unused: tuple[str, ...]
    """The values that were sent and have no meaning where the records begin."""
    most: int
    form: str
    committed: bool
    is_live: bool
    filter: FilterFields
    conditions: tuple[str, ...]
    """The filter in words."""
    looked_at: int
    """The records that were read for this page."""
    stopped: str
    """Why fewer records were read than there are; empty if all that were wanted were read."""
    records: tuple[RecordRow, ...]
    gaps: tuple[RecordsGap, ...]
    next_offset: int | None
    """The offset of the next page of one partition; None at the end."""
    elsewhere: tuple[int, ...]
    """The partitions that cannot be read: no replica is on this node, and their leader is not known or not asked."""
    may_write: bool
    notes: tuple[str, ...]
    """Why values that name a schema are not shown by it, where that concerns all of them."""
    now_ms: int
    """The time of the node."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A search, as far as it is."""

    id: str
    topic: str
    partition: int | None
    filter: FilterFields
    conditions: tuple[str, ...]
    """The filter in words."""
    state: str
    """``running``, ``done``, ``cancelled``, ``abandoned`` since nobody asked for it, or ``failed``."""
    reason: str
    read_bytes: int
    total_bytes: int
    share: float
    records_seen: int
    """The records that were compared, by the searches before this one, too."""
    found_before: int
    """The records that were found by the searches before this one."""
    records: tuple[RecordRow, ...]
    gaps: tuple[RecordsGap, ...]
    gaps_left_out: int
    may_go_on: bool
    """Whether it ended because it had found enough, so that another search can go on behind it."""
    elsewhere: tuple[int, ...]
    """The partitions that are not searched: no replica is on this node, and no other node leads them."""
    partitions_left_out: int
    """Partitions that are not searched, since there are too many."""
    passed_s: float
    form: str
    may_write: bool
    notes: tuple[str, ...]
    """The same lines as on the page of records."""
    now_ms: int
    """The time of the node."""


def nothing_chosen(topics: tuple[str, ...], left_out: int, now_ms: int) -> RecordsPage:
    """The page before a topic is chosen."""
    return replace(nothing_shown("", 0, now_ms), topics=topics, topics_left_out=left_out)


def nothing_shown(topic: str, partitions: int, now_ms: int) -> RecordsPage:
    """A page of a topic without records."""
    return RecordsPage(
        topic=topic,
        topics=(),
        topics_left_out=0,
        partitions=partitions,
        partitions_left_out=0,
        partition=None,
        start=NEWEST,
        offset=None,
        time="",
        unused=(),
        most=USUAL,
        form=AUTO,
        committed=False,
        is_live=False,
        filter=NO_FILTER,
        conditions=(),
        looked_at=0,
        stopped="",
        records=(),
        gaps=(),
        next_offset=None,
        elsewhere=(),
        may_write=False,
        notes=(),
        now_ms=now_ms,
    )


def row_of(
    found: FoundRecord,
    form: str,
    by_schema: Mapping[bytes, ContentBySchema] = NO_SCHEMAS,
    segment: int | None = None,
) -> RecordRow:
    """A record that was found, with what is known of contents by their schemas, and of its segment."""
    return RecordRow(
        found.partition,
        found.offset,
        found.timestamp_ms,
        "LogAppendTime" if found.is_append_time else "CreateTime",
        segment,
        content_of(found.key, found.key_bytes, form, by_schema.get(found.key or b"")),
        content_of(found.value, found.value_bytes, form, by_schema.get(found.value or b"")),
        tuple(Header(name, is_cut, content_of(value, size, form)) for name, is_cut, value, size in found.headers),
        found.headers_left_out,
        found.is_transactional,
        found.control,
        found.producer_id,
    )


def gaps_of(unreadable: Iterable[Unreadable]) -> tuple[RecordsGap, ...]:
    """The places that could not be read."""
    return tuple(RecordsGap(*each) for each in unreadable)


def in_order(records: list[FoundRecord], most: int, start: str) -> list[FoundRecord]:
    """The records of several partitions that come first: the newest first from the end, else the oldest first."""
    if start == NEWEST:
        return sorted(records, key=lambda each: (each.timestamp_ms, each.offset), reverse=True)[:most]
    return sorted(records, key=lambda each: (each.timestamp_ms, each.partition, each.offset))[:most]


def unused(start: str, offset: str, time: str) -> tuple[str, ...]:
    """The values of a form that have no meaning for the place where the records begin."""
    begin = f"records begin {'with the newest' if start == NEWEST else 'with the oldest'}"
    if start in (OFFSET, TIME):
        begin = f"records begin at the {start}"
    values = ((OFFSET, offset), (TIME, time))
    return tuple(f"{name} {text[:100]} is not used: {begin}" for name, text in values if text and name != start)
