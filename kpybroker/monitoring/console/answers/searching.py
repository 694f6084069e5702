"""A search through all records of a topic: begun, seen while it runs, gone on with, and cancelled."""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

from kpybroker.machines.console.content import AUTO, FORMS
from kpybroker.machines.console.filtering import in_words
from kpybroker.machines.console.matching import RecordFilter
from kpybroker.machines.console.record_tasks import Answer, PartitionFiles, RecordTask, Shown
from kpybroker.machines.console.records import OLDEST, SearchPage, gaps_of, row_of
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata.topic import Topic
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.record_places import (
    beginning_of,
    chosen,
    fields_in,
    filter_in,
    held,
    may_write,
    not_empty,
    places,
    readable,
    segment_of,
)
from kpybroker.monitoring.console.answers.records import by_schema
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad, partition_in
from kpybroker.monitoring.console.remote_records import RemoteRecords, searched
from kpybroker.monitoring.console.searches import Search, SearchOther, SearchTitle
from kpybroker.monitoring.console.viewer import Viewer
from kpywire.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest

MOST_FOUND: Final = 200


async def search(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Begin a search. Returns its page. Raises Refused."""
    topic = readable(node, viewer, query.needed("topic"))
    fields, index = fields_in(query), partition_in(query)
    wanted = filter_in(fields)
    if wanted is None:
        raise bad("a search needs a text, a key, a header, a JSON path or a time")
    here = held(node, topic, index)
    stretches, in_store = await places(node, here.roles, beginning_of(OLDEST, 0, "", wanted))
    here = here.without(in_store)
    task = RecordTask(not_empty(stretches), MOST_FOUND, filter=wanted, is_search=True)
    total = sum(_bytes_of(here.roles[place.partition], place) for place in stretches)
    title = SearchTitle(topic.name, fields, index if index >= 0 else None, chosen(query, "form", FORMS))
    led = [number for number in here.elsewhere if _leader_of(node, topic, number) not in (None, node.broker.node_id)]
    led += [number for number in here.in_store if _leader_of(node, topic, number) is not None]
    unknown = tuple(number for number in (*here.in_store, *here.elsewhere) if number not in led)
    total += await _bytes_elsewhere(node, viewer, topic, led)
    made = Search(task, title, str(viewer.principal), total, unknown, here.left_out)
    made.others.update(dict.fromkeys(led))
    made.search_other = _search_other(node, viewer, topic, wanted)
    node.searches.start(here.disk, made)
    return f"/searches/{made.id}"


def _leader_of(node: NodeParts, topic: Topic, number: int) -> int | None:
    """The node that leads a partition now; None if there is none."""
    now = node.broker.image.topics.get(topic.name)
    partition = None if now is None or now.id != topic.id else now.partitions.get(number)
    return None if partition is None or partition.leader == -1 else partition.leader


def _search_other(node: NodeParts, viewer: Viewer, topic: Topic, wanted: RecordFilter) -> SearchOther:
    def search_other(number: int, offset: int | None, most: int) -> AsyncIterator[Answer]:
        leader = _leader_of(node, topic, number)
        leader = -1 if leader is None else leader
        part = RemoteRecords(
            topic.name, topic.id, number, leader, offset or 0, None, most, committed=False, filter=wanted
        )
        return searched(node.elsewhere, viewer, part, Shown())

    return search_other


async def _bytes_elsewhere(node: NodeParts, viewer: Viewer, topic: Topic, numbers: list[int]) -> int:
    """The bytes of partitions at their leaders; 0 for those of a node that does not say."""
    by_leader: dict[int, list[int]] = {}
    for number in numbers:
        by_leader.setdefault(_leader_of(node, topic, number) or -1, []).append(number)
    total = 0
    for leader, partitions in by_leader.items():
        wanted = [DescribableLogDirTopic(topic=topic.name, partitions=partitions)]
        with suppress(KafkaError):
            answer = await node.elsewhere.ask(viewer, leader, DescribeLogDirsRequest(topics=wanted))
            found = (each for result in answer.results for one in result.topics for each in one.partitions)
            total += sum(each.partition_size for each in found if not each.is_future_key)
    return total


def _bytes_of(role: Role, place: PartitionFiles) -> int:
    """The bytes of a stretch, about: the same share of the log as of its offsets."""
    offsets = place.end_offset - role.log.local_log_start_offset
    return role.log.size * (place.end_offset - place.start_offset) // offsets if offsets > 0 else 0


async def found(node: NodeParts, viewer: Viewer, query: Query) -> SearchPage:
    """A search, as far as it is."""
    made = node.searches.find(query.text("search"), str(viewer.principal))
    title = made.title
    topic = readable(node, viewer, title.topic)
    form = query.text("form") or title.form
    form = form if form in FORMS else AUTO
    hits = list(made.found)
    shown = await by_schema(node, hits, form)
    roles = held(node, topic, -1).roles if hits else {}
    read_bytes = made.before.read_bytes + made.progress.read_bytes
    is_over = made.state == "done" and not made.is_full
    return SearchPage(
        id=made.id,
        topic=title.topic,
        partition=title.partition,
        filter=title.fields,
        conditions=in_words(title.fields),
        state=made.state,
        reason=made.reason,
        read_bytes=read_bytes,
        total_bytes=made.total_bytes,
        share=1.0 if is_over else min(1.0, read_bytes / made.total_bytes) if made.total_bytes else 0.0,
        records_seen=made.before.records + made.progress.records,
        found_before=made.before.found,
        records=tuple(
            [
                row_of(each, form, shown.values, segment_of(roles.get(each.partition), each.offset))
                async for each in paced(hits)
            ]
        ),
        gaps=gaps_of(made.unreadable),
        gaps_left_out=max(0, made.gaps - len(made.unreadable)),
        may_go_on=made.is_full,
        elsewhere=made.elsewhere,
        partitions_left_out=made.partitions_left_out,
        passed_s=round(made.passed_s, 1),
        form=form,
        may_write=may_write(node, viewer, title.topic),
        notes=shown.notes,
        now_ms=node.broker.scheduler.now_ms(),
    )


async def more(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Go on behind the end of a search that has found enough. Returns the page of the new search. Raises Refused."""
    before = node.searches.find(query.text("search"), str(viewer.principal))
    topic = readable(node, viewer, before.title.topic)
    if not before.is_full:
        raise bad("this search did not end because it had found enough")
    left = before.places_left
    here = held(node, topic, left[0].partition if len(left) == 1 else -1)
    made = before.behind(before.task._replace(places=left))
    made.others.update(before.others)
    if before.task.filter is not None:
        made.search_other = _search_other(node, viewer, topic, before.task.filter)
    node.searches.start(here.disk if left else None, made)
    return f"/searches/{made.id}"


async def cancel(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Cancel a search. Returns its page. Raises Refused."""
    made = node.searches.find(query.text("search"), str(viewer.principal))
    made.end("cancelled")
    return f"/searches/{made.id}"
