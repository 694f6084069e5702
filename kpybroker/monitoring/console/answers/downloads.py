"""Files for a browser to keep: a part of one record whole, and records as CSV."""

import base64
import json
from http import HTTPStatus
from typing import Final

from kpybroker.machines.console.record_tasks import FoundRecord
from kpybroker.machines.console.records import RecordRow
from kpybroker.machines.console.records_csv import head, line_of
from kpybroker.monitoring.console.answers.one_record import one_record
from kpybroker.monitoring.console.answers.record_places import chosen, readable
from kpybroker.monitoring.console.answers.records import records
from kpybroker.monitoring.console.answers.searching import found
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.page import Download
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused

PARTS: Final = ("value", "key", "headers")


async def raw(node: NodeParts, viewer: Viewer, query: Query) -> Download:
    """The key, the value or the headers of one record, whole."""
    topic = readable(node, viewer, query.text("topic"))
    index, offset = query.number("partition", 0), query.number("offset", 0)
    part = chosen(query, "part", PARTS)
    record = await one_record(node, viewer, topic, index, offset)
    name = f"{topic.name}-{index}-{offset}.{part}"
    if part == "headers":
        return Download(_headers(record), f"{name}.json")
    data = record.value if part == "value" else record.key
    if data is None:
        raise HttpRefused(HTTPStatus.NOT_FOUND, f"{topic.name}-{index} has no {part} at offset {offset}")
    return Download(data, f"{name}.bin")


def _headers(record: FoundRecord) -> bytes:
    """The headers as JSON; a value that is not UTF-8 is in base64."""
    made = []
    for name, _, value, _ in record.headers:
        try:
            made.append({"name": name, "text": None if value is None else value.decode()})
        except UnicodeDecodeError:
            made.append({"name": name, "base64": base64.b64encode(value or b"").decode()})
    return json.dumps(made, indent=1).encode()


async def records_csv(node: NodeParts, viewer: Viewer, query: Query) -> Download:
    """The records of a page as CSV."""
    page = await records(node, viewer, query)
    return await _csv(page.records, page.topic or "records")


async def search_csv(node: NodeParts, viewer: Viewer, query: Query) -> Download:
    """The records that a search has found, as CSV."""
    page = await found(node, viewer, query)
    return await _csv(page.records, f"{page.topic}-found")


async def _csv(rows: tuple[RecordRow, ...], name: str) -> Download:
    lines = [head()] + [line_of(row) async for row in paced(rows)]
    return Download("".join(lines).encode("utf-8", "replace"), f"{name}.csv")
