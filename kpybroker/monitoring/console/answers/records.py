"""Records: some of them from a place on, a search through all of them, and one record whole.

They are read from the files of this node's replicas, up to the high watermark, in a process beside the loop.
"""

import asyncio
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Final, NamedTuple

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.content import AUTO, FORMS, HEX
from kpybroker.machines.console.matching import WHERE, Needle, matcher
from kpybroker.machines.console.record_tasks import Answer, FoundRecord, PartitionFiles, RecordTask, Unreadable
from kpybroker.machines.console.records import (
    NEWEST,
    OFFSET,
    OLDEST,
    STARTS,
    TIME,
    RecordsPage,
    SearchPage,
    gaps_of,
    in_order,
    nothing_chosen,
    row_of,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.decoding import NOTHING, DecodedPage
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.remote_records import RemoteRecords, fetched
from kpybroker.monitoring.console.searches import Search
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.requests.serving.time_lookup import when_found
from kpybroker.runtime.http.request import HttpRefused
from kpystorage.errors import StorageError
from kpywire import error_codes, time_search

MOST: Final = 500
USUAL: Final = 50
MOST_FOUND: Final = 200
MOST_PARTITIONS: Final = 200
MOST_ELSEWHERE: Final = 8
"""The partitions of one page that are fetched from other nodes."""
MOST_TOPICS: Final = 1000


class Download(NamedTuple):
    """Bytes that a browser keeps as a file."""

    data: bytes
    name: str


class _Held(NamedTuple):
    roles: dict[int, Role]
    elsewhere: tuple[int, ...]
    left_out: int
    """Partitions of a topic with too many."""


async def records(node: NodeParts, viewer: Viewer, query: Query) -> RecordsPage:
    """Some records of a topic; without one, the topics to choose from."""
    form, start = _chosen(query, "form", FORMS), _chosen(query, "start", STARTS)
    if "offset" in query.values and "start" not in query.values and query.text("offset"):
        start = OFFSET
    most, committed = query.number("most", USUAL, lowest=1, highest=MOST), query.flag("committed")
    name = query.text("topic")
    if not name:
        topics = [each async for each in paced(sorted(node.broker.image.topics)) if _may_read(viewer, each)]
        return nothing_chosen(tuple(topics[:MOST_TOPICS]), max(0, len(topics) - MOST_TOPICS), form)
    topic = _readable(node, viewer, name)
    index = query.number("partition", -1, lowest=-1, highest=2**31 - 1)
    held = _held(node, topic, index)
    offset, text = query.number("offset", 0), query.text("time")
    places = await _places(node, held.roles, start, (offset, text, most))
    task = RecordTask(_not_empty(places), most, committed=committed)
    disk = next(iter(held.roles.values())).log.directory.disk if held.roles else None
    answers = [] if disk is None or not task.places else await node.searches.read(disk, task)
    stretch = RemoteRecords(topic.name, topic.id, 0, -1, _first_offset(start, offset), None, most, committed)
    if start == TIME:
        stretch = stretch._replace(timestamp_ms=time_in(text))
    more, elsewhere = await _of_others(node, viewer, topic, held.elsewhere, stretch)
    answers += more
    found = [each for each in answers if isinstance(each, FoundRecord)]
    chosen = in_order(found, most, start)
    shown = await _by_schema(node, chosen, form)
    return RecordsPage(
        topic.name,
        (),
        0,
        len(topic.partitions),
        held.left_out,
        index if index >= 0 else None,
        start,
        offset if start == OFFSET else None,
        text,
        most,
        form,
        committed,
        query.flag("live"),
        tuple([row_of(each, form, shown.values) async for each in paced(chosen)]),
        gaps_of(each for each in answers if isinstance(each, Unreadable)),
        _next_offset(index, chosen, places),
        tuple(elsewhere),
        node.is_writable and viewer.may(AclOperation.WRITE, ResourceType.TOPIC, topic.name),
        shown.notes,
    )


async def _by_schema(node: NodeParts, records: list[FoundRecord], form: str) -> DecodedPage:
    """The keys and values that name a schema, by it. Other forms show the bytes."""
    return await node.decoding.of(records) if form == AUTO else NOTHING


def _first_offset(start: str, offset: int) -> int | None:
    return None if start == NEWEST else 0 if start == OLDEST else offset


async def _of_others(
    node: NodeParts, viewer: Viewer, topic: Topic, numbers: tuple[int, ...], stretch: RemoteRecords
) -> tuple[list[Answer], list[int]]:
    """The records of partitions that other nodes hold, and the partitions that nobody is asked for."""
    answers: list[Answer] = []
    left_out = list(numbers[MOST_ELSEWHERE:])
    for number in numbers[:MOST_ELSEWHERE]:
        leader = topic.partitions[number].leader
        if leader in (-1, node.broker.node_id):
            left_out.append(number)
        else:
            wanted = stretch._replace(partition=number, leader=leader)
            answers += await fetched(node.elsewhere, viewer, wanted)
    return answers, left_out


def _chosen(query: Query, name: str, choices: tuple[str, ...]) -> str:
    found = query.text(name) or choices[0]
    if found not in choices:
        raise bad(f"{name} is none of {', '.join(choices)}")
    return found


def _may_read(viewer: Viewer, topic: str) -> bool:
    return viewer.may_see_topic(topic) and viewer.may(AclOperation.READ, ResourceType.TOPIC, topic)


def _readable(node: NodeParts, viewer: Viewer, name: str) -> Topic:
    topic = known_topic(node, viewer, name)
    viewer.must(AclOperation.READ, ResourceType.TOPIC, topic.name)
    return topic


def _held(node: NodeParts, topic: Topic, index: int) -> _Held:
    """This node's roles in the partitions that are asked for, and the partitions in which it has none."""
    if index >= 0 and index not in topic.partitions:
        refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic.name}-{index}")
    roles: dict[int, Role] = {}
    elsewhere: list[int] = []
    numbers = [index] if index >= 0 else sorted(topic.partitions)
    for number in numbers[:MOST_PARTITIONS]:
        try:
            roles[number] = node.broker.replicas.find(topic.name, number).held()
        except KafkaError:
            elsewhere.append(number)
        except StorageError as error:
            raise HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, str(error)) from None
    return _Held(roles, tuple(elsewhere), max(0, len(numbers) - MOST_PARTITIONS))


def _here(topic: Topic, held: _Held) -> dict[int, Role]:
    """The roles of this node. Raises Refused if it has none."""
    if not held.roles:
        where = sorted({replica for number in held.elsewhere for replica in topic.partitions[number].replicas})
        line = f"no replica of {topic.name} is on this node; open the console of node {' or '.join(map(str, where))}"
        raise HttpRefused(HTTPStatus.MISDIRECTED_REQUEST, line)
    return held.roles


async def _places(
    node: NodeParts, roles: dict[int, Role], start: str, wanted: tuple[int, str, int]
) -> list[PartitionFiles]:
    """The stretches of partitions that are read. Others are served between two of them."""
    places = []
    for number, role in roles.items():
        offset = await _offset_at(node, role, time_in(wanted[1])) if start == TIME else None
        places.append(_place(number, role, start, wanted, offset))
        await asyncio.sleep(0)
    return places


async def _offset_at(node: NodeParts, role: Role, timestamp: int) -> int | None:
    """The offset of the first record that is not older, if there is one."""
    done: asyncio.Future[int | Exception | None] = asyncio.get_running_loop().create_future()

    def look_up(search: time_search.Search) -> int | Exception | None:
        try:
            found = role.log.offset_for_timestamp(timestamp, search)
        except KafkaError as error:
            return HttpRefused(HTTPStatus.SERVICE_UNAVAILABLE, str(error))
        except StorageError as error:
            return error
        return None if found is None else found.offset

    when_found(node.broker.labour, "console", look_up, done.set_result)
    offset = await done
    if isinstance(offset, Exception):
        raise offset
    return offset


def _place(number: int, role: Role, start: str, wanted: tuple[int, str, int], found: int | None) -> PartitionFiles:
    """The stretch of a partition that is read. ``found``: the offset of a time."""
    offset, _, most = wanted
    log, end = role.log, role.high_watermark.offset
    first = log.local_log_start_offset
    if start == NEWEST:
        offset = end - most
    elif start == OLDEST:
        offset = first
    elif start == TIME:
        offset = end if found is None else found
    return PartitionFiles(number, log.path, log.log_start_offset, end, max(first, min(offset, end)), end)


def _not_empty(places: list[PartitionFiles]) -> tuple[PartitionFiles, ...]:
    return tuple(place for place in places if place.start_offset < place.end_offset)


def time_in(text: str) -> int:
    """A time in ms since 1970: digits, or a date with a time, in UTC unless it says otherwise. Raises Refused."""
    text = text.strip()
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise bad("time is neither milliseconds since 1970 nor a date such as 2026-01-31T12:00") from None
    return int((found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp() * 1000)


def _next_offset(index: int, chosen: list[FoundRecord], places: list[PartitionFiles]) -> int | None:
    if index < 0 or not chosen:
        return None
    last = max(each.offset for each in chosen)
    return last + 1 if not places or last + 1 < places[0].end_offset else None


async def raw(node: NodeParts, viewer: Viewer, query: Query) -> Download:
    """The key or the value of one record, whole."""
    topic = _readable(node, viewer, query.text("topic"))
    index, offset = query.number("partition", 0), query.number("offset", 0)
    part = _chosen(query, "part", ("value", "key"))
    role = _here(topic, _held(node, topic, index))[index]
    end = role.high_watermark.offset
    log, first = role.log, max(offset, role.log.local_log_start_offset)
    place = PartitionFiles(index, log.path, log.log_start_offset, end, first, end)
    answers: list[object] = []
    if place.start_offset < end:
        answers = list(await node.searches.read(log.directory.disk, RecordTask((place,), 1, whole=True)))
    found = next((each for each in answers if isinstance(each, FoundRecord)), None)
    data = None if found is None or found.offset != offset else found.value if part == "value" else found.key
    if data is None:
        raise HttpRefused(HTTPStatus.NOT_FOUND, f"{topic.name}-{index} has no {part} at offset {offset}")
    return Download(data, f"{topic.name}-{index}-{offset}.{part}.bin")


# Searching


async def search(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Begin a search. Returns its page. Raises Refused."""
    topic = _readable(node, viewer, query.needed("topic"))
    text, where = query.needed("text"), _chosen(query, "where", WHERE)
    needle = needle_in(text, where, ignores_case=query.flag("ignore_case"), kind=query.text("kind", "text"))
    index = query.number("partition", -1, lowest=-1, highest=2**31 - 1)
    held = _held(node, topic, index)
    roles = _here(topic, held)
    since = query.text("since")
    start = TIME if since else OLDEST
    places = await _places(node, roles, start, (0, since, 0))
    task = RecordTask(_not_empty(places), MOST_FOUND, needle=needle)
    total = sum(role.log.size for role in roles.values())
    title = {"topic": topic.name, "text": text, "where": where, "form": _chosen(query, "form", FORMS)}
    made = Search(task, title, str(viewer.principal), total, held.elsewhere, held.left_out)
    node.searches.start(next(iter(roles.values())).log.directory.disk, made)
    return f"/searches/{made.id}"


def needle_in(text: str, where: str, *, ignores_case: bool, kind: str) -> Needle:
    """The needle of a search for a text, bytes in hexadecimal, or a regular expression. Raises Refused."""
    if len(text) > 1000:
        raise bad("a search is for at most 1000 characters")
    if kind == HEX:
        try:
            return Needle(bytes.fromhex(text), where)
        except ValueError:
            raise bad("text is no hexadecimal number") from None
    if kind not in ("text", "regex"):
        raise bad("kind is none of text, regex, hex")
    data = text.encode("utf-8", "replace")
    is_pattern = kind == "regex"
    needle = Needle(data.lower() if ignores_case and not is_pattern else data, where, ignores_case, is_pattern)
    try:
        matcher(needle)
    except ValueError as error:
        raise bad(f"text is no regular expression of RE2: {error}") from None
    return needle


async def found(node: NodeParts, viewer: Viewer, query: Query) -> SearchPage:
    """A search, as far as it is."""
    made = node.searches.find(query.text("search"), str(viewer.principal))
    _readable(node, viewer, made.title["topic"])
    is_over = made.state == "done" and not made.reason
    read_bytes = made.progress.read_bytes
    form = query.text("form") or made.title["form"]
    form = form if form in FORMS else AUTO
    hits = list(made.found)
    shown = await _by_schema(node, hits, form)
    return SearchPage(
        made.id,
        made.title["topic"],
        made.title["text"],
        made.title["where"],
        made.state,
        made.reason,
        read_bytes,
        made.total_bytes,
        1.0 if is_over else min(1.0, read_bytes / made.total_bytes) if made.total_bytes else 0.0,
        made.progress.records,
        tuple([row_of(each, form, shown.values) async for each in paced(hits)]),
        gaps_of(made.unreadable),
        max(0, made.gaps - len(made.unreadable)),
        made.is_full,
        made.elsewhere,
        made.partitions_left_out,
        round(made.passed_s, 1),
        form,
        shown.notes,
    )


async def more(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Go on behind the end of a search that has found enough. Returns the page of the new search. Raises Refused."""
    before = node.searches.find(query.text("search"), str(viewer.principal))
    topic = _readable(node, viewer, before.title["topic"])
    if not before.is_full:
        raise bad("this search did not end because it had found enough")
    places = before.places_left
    roles = _here(topic, _held(node, topic, places[0].partition if len(places) == 1 else -1))
    total = max(0, before.total_bytes - before.progress.read_bytes)
    task = before.task._replace(places=places)
    made = Search(task, before.title, before.owner, total, before.elsewhere, before.partitions_left_out)
    node.searches.start(next(iter(roles.values())).log.directory.disk, made)
    return f"/searches/{made.id}"


async def cancel(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Cancel a search. Returns its page. Raises Refused."""
    made = node.searches.find(query.text("search"), str(viewer.principal))
    made.end("cancelled")
    return f"/searches/{made.id}"
