"""The page of quotas: those of the cluster, and what clients use of them on this node."""

from collections.abc import Iterator
from typing import Any, Final

from kpybroker.machines.console.listing import sorted_rows
from kpybroker.machines.console.quotas import QUOTA_KEYS, USE_KEYS, QuotaRow, QuotasPage, UseRow
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire.messages.describe_client_quotas import DescribeClientQuotasRequest

MOST_ROWS: Final = 2_000
MOST_USED: Final = 100


async def quotas(node: NodeParts, viewer: Viewer, query: Query) -> QuotasPage:
    """The page. Quotas are asked for with the viewer's identity, and may be hidden from it."""
    viewer.must_see_node()
    sort = query.text("sort")
    hidden: str | None = None
    rows: tuple[QuotaRow, ...] = ()
    try:
        answer = await node.ask(viewer, DescribeClientQuotasRequest(components=[], strict=False))
        refuse(answer.error_code, "quotas", answer.error_message)
        found = await sorted_in_pieces([row async for row in paced(_rows(answer))], QUOTA_KEYS, sort)
        rows = tuple(found[:MOST_ROWS])
        if len(found) > MOST_ROWS:
            hidden = f"{len(found) - MOST_ROWS} more quotas are left out"
    except HttpRefused as refused:
        hidden = str(refused)
    return QuotasPage(rows, hidden, tuple(sorted_rows(_used(node), USE_KEYS, sort)), len(node.sources.server.mutes))


def _rows(answer: Any) -> Iterator[QuotaRow]:
    for entry in answer.entries or ():
        entity = ", ".join(f"{part.entity_type} {part.entity_name or '(default)'}" for part in entry.entity)
        for value in entry.values:
            yield QuotaRow(entity, value.key, value.value)


def _used(node: NodeParts) -> tuple[UseRow, ...]:
    """The shares that were used last; none while no quota is set."""
    throttling = node.sources.dispatcher.stage
    if throttling is None:
        return ()
    now_ms = throttling.now_ms()
    return tuple(
        UseRow(throttle.kind, *each.share, round(each.per_second, 3), round(each.throttle_ms, 3))
        for throttle in (throttling.produce, throttling.fetch, throttling.request)
        for each in throttle.shown(now_ms, MOST_USED)
    )
