"""A search through all records of a topic: begun, seen while it runs, gone on with, and cancelled."""

from typing import Final

from kpybroker.machines.console.content import AUTO, FORMS
from kpybroker.machines.console.filtering import in_words
from kpybroker.machines.console.record_tasks import PartitionFiles, RecordTask
from kpybroker.machines.console.records import OLDEST, SearchPage, gaps_of, row_of
from kpybroker.machines.partition.role import Role
from kpybroker.monitoring.console.answers.record_places import (
    beginning_of,
    chosen,
    disk_of,
    fields_in,
    filter_in,
    held,
    may_write,
    not_empty,
    partition_in,
    places,
    readable,
    segment_of,
)
from kpybroker.monitoring.console.answers.records import by_schema
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.searches import Search, SearchTitle
from kpybroker.monitoring.console.viewer import Viewer

MOST_FOUND: Final = 200


async def search(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Begin a search. Returns its page. Raises Refused."""
    topic = readable(node, viewer, query.needed("topic"))
    fields, index = fields_in(query), partition_in(query)
    wanted = filter_in(fields)
    if wanted is None:
        raise bad("a search needs a text, a key, a header, a JSON path or a time")
    here = held(node, topic, index)
    disk = disk_of(topic, here)
    stretches = await places(node, here.roles, beginning_of(OLDEST, 0, "", wanted))
    task = RecordTask(not_empty(stretches), MOST_FOUND, filter=wanted, is_search=True)
    total = sum(_bytes_of(here.roles[place.partition], place) for place in stretches)
    title = SearchTitle(topic.name, fields, index if index >= 0 else None, chosen(query, "form", FORMS))
    made = Search(task, title, str(viewer.principal), total, here.elsewhere, here.left_out)
    node.searches.start(disk, made)
    return f"/searches/{made.id}"


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
    node.searches.start(disk_of(topic, here), made)
    return f"/searches/{made.id}"


async def cancel(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Cancel a search. Returns its page. Raises Refused."""
    made = node.searches.find(query.text("search"), str(viewer.principal))
    made.end("cancelled")
    return f"/searches/{made.id}"
