"""The page of tiered storage: the partitions of tiered topics that this node leads."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kpybroker.machines.console.listing import PER_PAGE, pages_of
from kpybroker.machines.console.tiers import NOT_CONFIGURED, TIER_KEYS, WORST_FIRST, TierRow, TiersPage
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.viewer import Viewer

if TYPE_CHECKING:
    from kpybroker.hosts.remote_log.figures import TierState, TierView


async def tiers(node: NodeParts, viewer: Viewer, query: Query) -> TiersPage:
    """The page, the partitions that are furthest behind first."""
    viewer.must_see_node()
    remote_log = node.broker.remote_log
    if remote_log is None:
        return NOT_CONFIGURED
    now_ms = node.broker.scheduler.monotonic_ms()
    seen = [row async for row in paced(_rows(remote_log, viewer, now_ms)) if row is not None]
    rows = await sorted_in_pieces(seen, TIER_KEYS, query.text("sort") or WORST_FIRST)
    page, pages = pages_of(len(rows), query.number("page", 1, lowest=1))
    throttled = remote_log.throttle_times()
    return TiersPage(
        remote_log.store,
        remote_log.store_error,
        page,
        pages,
        len(rows),
        tuple(rows[(page - 1) * PER_PAGE : page * PER_PAGE]),
        sum(row.remote_bytes for row in rows),
        sum(row.lag_bytes for row in rows),
        sum(row.lag_segments for row in rows),
        round(throttled.copy_mean, 3),
        round(throttled.fetch_mean, 3),
        is_on=True,
    )


def _rows(remote_log: "TierView", viewer: Viewer, now_ms: float) -> Iterator[TierRow | None]:
    """A row for each partition; None for one that the viewer may not see."""
    for state in remote_log.states():
        yield _row(state, now_ms) if viewer.may_see_topic(state.topic) else None


def _row(state: "TierState", now_ms: float) -> TierRow:
    reason = state.reason if state.is_ready else "the metadata of the partition are still being read"
    return TierRow(
        state.topic,
        state.partition,
        "" if state.wait is None else state.wait.name,
        reason,
        None if state.until_ms is None else max(0.0, state.until_ms - now_ms) / 1_000,
        state.copy_lag.bytes,
        state.copy_lag.segments,
        state.remote_bytes,
        state.segments,
        state.local_bytes,
        state.log_start,
        state.local_log_start,
        state.copied,
        state.end,
        state.unfinished,
        state.last_error,
    )
