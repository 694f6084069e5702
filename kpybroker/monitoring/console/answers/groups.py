"""The list of all groups, those in trouble first, and the readers without a group."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import Final

from kpybroker.machines.console import stuck
from kpybroker.machines.console.groups import ALONE_KEYS, GroupRow, Groups, ReaderRow
from kpybroker.machines.console.listing import DESCENDING, PER_PAGE, pages_of, sorted_rows
from kpybroker.machines.console.standing import BEHIND, GROUP_KEYS, STUCK, worst_first
from kpybroker.monitoring.console.answers.examined import open_transactions
from kpybroker.monitoring.console.answers.lag_times import lag_in_time, lag_times, silence
from kpybroker.monitoring.console.answers.overview import overview
from kpybroker.monitoring.console.answers.peers import consoles_of
from kpybroker.monitoring.console.answers.positions import leader_of, total_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.overviews import Overview
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.readers import may_see_readers
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.metrics.lag import PartitionLag, Times, lag_of
from kpybroker.monitoring.metrics.readers import ReaderPosition

MOST_CLIENT_IDS: Final = 20
BY_TIME: Final = "time"
"""The column that is read from files."""


async def groups(node: NodeParts, viewer: Viewer, query: Query) -> Groups:
    """A page of the list, those in trouble first if no other order is asked for."""
    search, sort = query.text("q")[:249], query.text("sort")[:20]
    known = await overview(node, viewer)
    found = [row async for row in paced(known.rows) if search.lower() in row.id.lower()]
    silent: tuple[str, ...] = ()
    if sort.removeprefix(DESCENDING) == BY_TIME:
        found, silent = await _with_times(node, viewer, known, found)
    found.sort(key=worst_first)
    rows = sorted_rows(found, GROUP_KEYS, sort)
    page, pages = pages_of(len(rows), query.number("page", 1, lowest=1))
    shown = rows[(page - 1) * PER_PAGE : page * PER_PAGE]
    if sort.removeprefix(DESCENDING) != BY_TIME:
        shown, silent = await _with_times(node, viewer, known, shown)
    consoles = await consoles_of(node, viewer, {row.node for row in shown if not row.is_here})
    shown = [row if row.is_here else replace(row, console=consoles.get(row.node)) for row in shown]
    standings = Counter(row.standing for row in known.rows)
    is_shown = page == 1 and may_see_readers(viewer)
    readers, left_out = await _readers(node, viewer, known) if is_shown else ((), 0)
    return Groups(
        search,
        sort,
        page,
        pages,
        len(rows),
        standings[STUCK],
        standings[BEHIND],
        tuple(shown),
        tuple(sorted_rows(readers, ALONE_KEYS, sort)),
        left_out,
        not may_see_readers(viewer),
        known.unreachable,
        silence(known.silent, silent),
    )


async def _with_times(
    node: NodeParts, viewer: Viewer, known: Overview, rows: Sequence[GroupRow]
) -> tuple[list[GroupRow], tuple[str, ...]]:
    """Rows with the age of the oldest record that each group has not read, and a line for each leader that does not
    tell it."""
    times = await lag_times(node, viewer, chain.from_iterable(known.positions.get(row.id, ()) for row in rows))
    made = []
    async for row in paced(rows):
        late = await lag_in_time(node, row.id, known.positions.get(row.id, ()), times.known)
        made.append(replace(row, lag_s=late.longest_s, untimed=late.untimed))
    return made, times.silent


async def _readers(node: NodeParts, viewer: Viewer, known: Overview) -> tuple[tuple[ReaderRow, ...], int]:
    """The readers without a group, and the number of those that are left out."""
    readers = known.readers
    alone = [ReaderPosition(*key, offset) for key, offset in readers.furthest.items() if key[0] not in known.in_groups]
    lags: dict[str, list[PartitionLag | None]] = {}
    verdicts: dict[str, str] = {}
    now_ms, passed_ms = node.broker.scheduler.now_ms(), node.broker.scheduler.monotonic_ms()
    times: Times = {}
    async for position in paced(alone):
        if viewer.may_see_topic(position.topic):
            lag = lag_of(node.broker, position, now_ms, times, times)
            lags.setdefault(position.name, []).append(lag)
            if lag is not None and lag.records and not verdicts.get(position.name):
                silent_s = (passed_ms - readers.last_ms.get(position[:3], 0.0)) / 1000
                verdicts[position.name] = stuck.verdict_on_reader(
                    f"{position.topic}-{position.partition}", position.offset, _pin(node, viewer, position), silent_s
                )
    rows = tuple(
        ReaderRow(
            name,
            tuple(sorted(readers.client_ids.get(name, ()))[:MOST_CLIENT_IDS]),
            max(0, len(readers.client_ids.get(name, ())) - MOST_CLIENT_IDS),
            len(found),
            total_of([None if each is None else each.records for each in found]).records,
            max((each.seconds for each in found if each is not None and each.seconds is not None), default=None),
            verdicts.get(name, ""),
        )
        for name, found in sorted(lags.items())[:PER_PAGE]
    )
    return rows, max(0, len(lags) - PER_PAGE)


def _pin(node: NodeParts, viewer: Viewer, position: ReaderPosition) -> stuck.OpenTransaction | None:
    """The transaction that holds back a reader of committed records at this position."""
    leader = leader_of(node, position.topic, position.partition)
    if leader is None or position.offset < leader.last_stable_offset().offset:
        return None
    return next(iter(open_transactions(node, viewer, leader)), None)
