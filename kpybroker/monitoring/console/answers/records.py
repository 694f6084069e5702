"""Some records of a topic, from a place on, as far as a filter lets them through.

They are read from the files of this node's replicas, up to the high watermark, in a process beside the loop. Those of
other partitions are fetched from their leaders.
"""

from dataclasses import replace
from http import HTTPStatus
from typing import Final

from kpybroker.machines.console.content import AUTO, FORMS
from kpybroker.machines.console.filtering import in_words
from kpybroker.machines.console.record_tasks import Answer, FoundRecord, RecordTask, SearchEnded, Shown, Unreadable
from kpybroker.machines.console.records import (
    NEWEST,
    OFFSET,
    OLDEST,
    STARTS,
    TIME,
    USUAL,
    RecordsPage,
    gaps_of,
    in_order,
    nothing_chosen,
    nothing_shown,
    row_of,
    unused,
)
from kpybroker.machines.console.topics import is_internal
from kpybroker.machines.metadata.topic import Topic
from kpybroker.monitoring.console.answers.record_places import (
    Held,
    beginning_of,
    chosen,
    fields_in,
    filter_in,
    held,
    may_read,
    may_write,
    not_empty,
    places,
    readable,
    segment_of,
)
from kpybroker.monitoring.console.decoding import NOTHING, DecodedPage
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, RefusedQuery, partition_in
from kpybroker.monitoring.console.remote_records import MOST_LOOKED, RemoteRecords, fetched
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused

MOST: Final = 500
MOST_ELSEWHERE: Final = 8
"""The partitions of one page that are fetched from other nodes."""
MOST_TOPICS: Final = 1000


async def records(node: NodeParts, viewer: Viewer, query: Query) -> RecordsPage:
    """Some records of a topic; without one, the topics to choose from."""
    name = query.text("topic")
    if not name:
        return await _choice(node, viewer)
    try:
        topic = readable(node, viewer, name)
    except HttpRefused as refused:
        raise RefusedQuery(refused, await _choice(node, viewer)) from None
    try:
        return await _records(node, viewer, query, topic)
    except HttpRefused as refused:
        if refused.status not in (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND):
            raise
        page = nothing_shown(topic.name, len(topic.partitions), node.broker.scheduler.now_ms())
        raise RefusedQuery(refused, replace(page, may_write=may_write(node, viewer, topic.name))) from None


async def _choice(node: NodeParts, viewer: Viewer) -> RecordsPage:
    """The topics to choose from: Kafka's own are the last."""
    names = [each async for each in paced(sorted(node.broker.image.topics)) if may_read(viewer, each)]
    names.sort(key=is_internal)
    left_out = max(0, len(names) - MOST_TOPICS)
    return nothing_chosen(tuple(names[:MOST_TOPICS]), left_out, node.broker.scheduler.now_ms())


async def _records(node: NodeParts, viewer: Viewer, query: Query, topic: Topic) -> RecordsPage:
    form, start = chosen(query, "form", FORMS), chosen(query, "start", STARTS)
    if "offset" in query.values and "start" not in query.values and query.text("offset"):
        start = OFFSET
    most, committed = query.number("most", USUAL, lowest=1, highest=MOST), query.flag("committed")
    offset = query.number("offset", 0) if start == OFFSET else 0
    index, fields = partition_in(query), fields_in(query)
    wanted = filter_in(fields)
    beginning = beginning_of(start, offset, query.text("time"), wanted)
    here = held(node, topic, index)
    newest = 0 if start != NEWEST else most if wanted is None else max(most, MOST_LOOKED)
    stretches, in_store = await places(node, here.roles, beginning, newest)
    here = here.without(in_store)
    task = RecordTask(
        not_empty(stretches),
        most,
        committed=committed,
        filter=wanted,
        newest=start == NEWEST,
    )
    answers = [] if here.disk is None or not task.places else await node.searches.read(here.disk, task)
    first = None if start == NEWEST else 0 if start == OLDEST else offset
    of_others = RemoteRecords(topic.name, topic.id, 0, -1, first, None, most, committed, wanted)
    if start == TIME:
        of_others = of_others._replace(timestamp_ms=beginning.time_ms)
    more, elsewhere = await _of_others(node, viewer, topic, here, of_others)
    answers += more
    found = in_order([each for each in answers if isinstance(each, FoundRecord)], most, start)
    ends = [each for each in answers if isinstance(each, SearchEnded)]
    shown = await by_schema(node, found, form)
    return RecordsPage(
        topic=topic.name,
        topics=(),
        topics_left_out=0,
        partitions=len(topic.partitions),
        partitions_left_out=here.left_out,
        partition=index if index >= 0 else None,
        start=start,
        offset=offset if start == OFFSET else None,
        time=query.text("time") if start == TIME else "",
        unused=unused(start, query.text("offset"), query.text("time")),
        most=most,
        form=form,
        committed=committed,
        is_live=query.flag("live"),
        filter=fields,
        conditions=in_words(fields),
        looked_at=sum(each.records for each in ends),
        stopped=next((each.reason for each in ends if each.reason), ""),
        records=tuple(
            [
                row_of(each, form, shown.values, segment_of(here.roles.get(each.partition), each.offset))
                async for each in paced(found)
            ]
        ),
        gaps=gaps_of(each for each in answers if isinstance(each, Unreadable)),
        next_offset=_next_offset(index, start, ends, stretches[0].end_offset if stretches else None),
        elsewhere=tuple(elsewhere),
        may_write=may_write(node, viewer, topic.name),
        notes=shown.notes,
        now_ms=node.broker.scheduler.now_ms(),
    )


async def by_schema(node: NodeParts, found: list[FoundRecord], form: str) -> DecodedPage:
    """The keys and values that name a schema, by it. Other forms show the bytes."""
    return await node.decoding.of(found) if form == AUTO else NOTHING


async def _of_others(
    node: NodeParts, viewer: Viewer, topic: Topic, here: Held, wanted: RemoteRecords
) -> tuple[list[Answer], list[int]]:
    """The records that leaders are asked for, since other nodes or a store have them, and the partitions of which no
    node is asked."""
    answers: list[Answer] = []
    numbers = (*here.in_store, *here.elsewhere)
    left_out = list(numbers[MOST_ELSEWHERE:])
    shown = Shown()
    for number in numbers[:MOST_ELSEWHERE]:
        leader = topic.partitions[number].leader
        if leader < 0:
            reason = "no replica of it is on this node, and it has no leader now"
            answers.append(Unreadable(number, wanted.offset or 0, reason))
        elif leader == node.broker.node_id and number not in here.in_store:
            left_out.append(number)
        else:
            part = wanted._replace(partition=number, leader=leader)
            answers += await fetched(node.elsewhere, viewer, part, shown)
    return answers, left_out


def _next_offset(index: int, start: str, ends: list[SearchEnded], end_offset: int | None) -> int | None:
    """The offset behind the records of one partition; None at its end, or if they are the newest."""
    found = next((offset for each in ends for number, offset in each.next_offsets if number == index), None)
    if index < 0 or start == NEWEST or found is None or (end_offset is not None and found >= end_offset):
        return None
    return found
