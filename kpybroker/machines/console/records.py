"""Records as they are shown, and the state of a search. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from kpybroker.machines.console.content import Content, ContentBySchema, content_of
from kpybroker.machines.console.record_tasks import FoundRecord, Unreadable

NEWEST, OLDEST, OFFSET, TIME = "newest", "oldest", "offset", "time"
STARTS = (NEWEST, OLDEST, OFFSET, TIME)
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
    key: Content
    value: Content
    headers: tuple[Header, ...]
    headers_left_out: int
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
    most: int
    form: str
    committed: bool
    is_live: bool
    records: tuple[RecordRow, ...]
    gaps: tuple[RecordsGap, ...]
    next_offset: int | None
    """The offset of the next page of one partition; None at the end."""
    elsewhere: tuple[int, ...]
    """The partitions of which no replica is on this node."""
    may_write: bool
    notes: tuple[str, ...]
    """Why values that name a schema are not shown by it, where that concerns all of them."""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """A search, as far as it is."""

    id: str
    topic: str
    text: str
    where: str
    state: str
    """``running``, ``done``, ``cancelled``, ``abandoned`` since nobody asked for it, or ``failed``."""
    reason: str
    read_bytes: int
    total_bytes: int
    share: float
    records_seen: int
    records: tuple[RecordRow, ...]
    gaps: tuple[RecordsGap, ...]
    gaps_left_out: int
    may_go_on: bool
    """Whether it ended because it had found enough, so that another search can go on behind it."""
    elsewhere: tuple[int, ...]
    """The partitions that are not searched, since no replica of them is on this node."""
    partitions_left_out: int
    """Partitions that are not searched, since there are too many."""
    passed_s: float
    form: str
    notes: tuple[str, ...]
    """The same lines as on the page of records."""


def nothing_chosen(topics: tuple[str, ...], left_out: int, form: str) -> RecordsPage:
    """The page before a topic is chosen."""
    return RecordsPage(
        topic="",
        topics=topics,
        topics_left_out=left_out,
        partitions=0,
        partitions_left_out=0,
        partition=None,
        start=NEWEST,
        offset=None,
        time="",
        most=0,
        form=form,
        committed=False,
        is_live=False,
        records=(),
        gaps=(),
        next_offset=None,
        elsewhere=(),
        may_write=False,
        notes=(),
    )


def row_of(found: FoundRecord, form: str, by_schema: Mapping[bytes, ContentBySchema] = NO_SCHEMAS) -> RecordRow:
    """A record that was found, with what is known of contents by their schemas."""
    return RecordRow(
        found.partition,
        found.offset,
        found.timestamp_ms,
        "LogAppendTime" if found.is_append_time else "CreateTime",
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
