"""The history of a node as plots: samples of a range of time, brought together into a bounded number of values."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.content import visible
from kpybroker.machines.console.plots import Plot, PlotEvent, PlotLine, TimePlots
from kpybroker.machines.console.wording import counted
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.history import changes, samples
from kpybroker.monitoring.history.samples import HistoryEvent, KeptSample, Rings, together

if TYPE_CHECKING:
    from kpybroker.monitoring.console.node_parts import NodeParts
    from kpybroker.monitoring.history.recorder import HistoryRecorder

OF_NODES: Final = {
    changes.STARTED: "started",
    changes.JOINED: "has joined",
    changes.GONE: "is gone",
    changes.BACK: "is back",
}
PATIENCE_S: Final = 1.0
"""The time that a page waits for the file of the history."""
MOST_EVENTS: Final = 50
"""The most events of a range; the others are counted."""


class TimeRange(NamedTuple):
    """A range of time that people choose, and how far apart its values are."""

    name: str
    title: str
    passed_ms: int
    every_ms: int


RANGES: Final = (
    TimeRange("10min", "10 min", 600_000, 10_000),
    TimeRange("1h", "1 h", 3_600_000, 20_000),
    TimeRange("6h", "6 h", 21_600_000, 120_000),
    TimeRange("24h", "24 h", 86_400_000, 360_000),
)


class PlannedLine(NamedTuple):
    """A line of a plot: its name, its value in a sample, and whether the largest of several stands for all."""

    name: str
    value: Callable[[KeptSample], float]
    is_worst: bool


class PlannedPlot(NamedTuple):
    """A plot that is to be drawn."""

    title: str
    unit: str
    lines: tuple[PlannedLine, ...]


def _measured(name: str, measure: str) -> PlannedLine:
    number = samples.MEASURES.index(measure)
    return PlannedLine(name, lambda sample: sample.values[number], samples.IS_WORST[number])


OF_CLIENTS: Final = (
    PlannedPlot("Bytes", "B/s", (_measured("in", samples.BYTES_IN), _measured("out", samples.BYTES_OUT))),
    PlannedPlot("Records in", "records/s", (_measured("in", samples.RECORDS_IN),)),
    PlannedPlot("Requests", "requests/s", (_measured("all", samples.REQUESTS),)),
    PlannedPlot(
        "Work on requests",
        "ms",
        (
            _measured("Produce p50", samples.PRODUCE_P50),
            _measured("Produce p99", samples.PRODUCE_P99),
            _measured("Fetch p50", samples.FETCH_P50),
            _measured("Fetch p99", samples.FETCH_P99),
        ),
    ),
    PlannedPlot(
        "Fetch waits for records", "ms", (_measured("p50", samples.WAIT_P50), _measured("p99", samples.WAIT_P99))
    ),
    PlannedPlot(
        "Partitions not well",
        "partitions",
        (_measured("under-replicated", samples.UNDER_REPLICATED), _measured("no leader", samples.WITHOUT_LEADER)),
    ),
)
OF_LOOP: Final = (
    PlannedPlot(
        "Event loop, of each second",
        "ms",
        (_measured("late", samples.LATE), _measured("garbage collector", samples.COLLECTOR)),
    ),
    PlannedPlot("Longest delay of the event loop", "ms", (_measured("longest", samples.LONGEST),)),
)


def of_group(name: str) -> tuple[PlannedPlot, ...]:
    """The plots of a group's lag."""

    def records(sample: KeptSample) -> float:
        lag = sample.lag_of(name)
        return samples.MISSING if lag is None else lag.records

    def seconds(sample: KeptSample) -> float:
        lag = sample.lag_of(name)
        return samples.MISSING if lag is None else lag.seconds

    return (
        PlannedPlot("Lag in records", "records", (PlannedLine("records", records, is_worst=True),)),
        PlannedPlot("Lag in time", "s", (PlannedLine("seconds", seconds, is_worst=True),)),
    )


async def plotted(node: "NodeParts", viewer: Viewer, query: Query, planned: Sequence[PlannedPlot]) -> TimePlots:
    """Plots of what the node keeps, over the range that is asked for. Raises Refused for another one."""
    await _read(node.history)
    return await plotted_of(node, viewer, query, planned, node.history.rings)


async def _read(history: "HistoryRecorder") -> None:
    """Wait until the file has been read. The first look may come before that. A disk that does not answer is not waited
    for: the page shows what is in memory."""
    if not history.is_read:
        is_read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        history.when_read(lambda: None if is_read.done() else is_read.set_result(None))
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await is_read


async def plotted_of(
    node: "NodeParts", viewer: Viewer, query: Query, planned: Sequence[PlannedPlot], rings: Rings
) -> TimePlots:
    """Plots of these samples."""
    now_ms = node.role.scheduler.now_ms()
    chosen = range_of(query, rings, now_ms)
    until_ms = -(-now_ms // chosen.every_ms) * chosen.every_ms
    since_ms = until_ms - chosen.passed_ms
    count = chosen.passed_ms // chosen.every_ms
    lines = [line for plot in planned for line in plot.lines]
    found: list[list[list[float]]] = [[[] for _ in range(count)] for _ in lines]
    async for sample in paced(rings.since(since_ms, chosen.every_ms)):
        number = (sample.at_ms - since_ms - 1) // chosen.every_ms
        if number < count:
            for line, values in zip(lines, found, strict=True):
                values[number].append(line.value(sample))
    merged = iter([await _merged(line, values) for line, values in zip(lines, found, strict=True)])
    plots = [
        Plot(plot.title, plot.unit, tuple(PlotLine(line.name, next(merged)) for line in plot.lines)) for plot in planned
    ]
    events = [each async for each in paced(_events(viewer, rings, since_ms, until_ms))]
    left_out = max(0, len(events) - MOST_EVENTS)
    return TimePlots(
        chosen.name,
        since_ms,
        until_ms,
        chosen.every_ms / 1000,
        tuple(plots),
        tuple(reversed(events[left_out:])),
        left_out,
    )


async def _merged(line: PlannedLine, values: Sequence[Sequence[float]]) -> tuple[float | None, ...]:
    merged: list[float | None] = []
    async for each in paced(values):
        value = together(each, is_worst=line.is_worst)
        merged.append(float(f"{value:.4g}") if value == value else None)
    return tuple(merged)


def range_of(query: Query, rings: Rings, now_ms: int) -> TimeRange:
    """The range that is asked for; without one an hour, or ten minutes of a history that is no longer. Raises
    Refused."""
    name = query.text("range")
    if not name:
        begins_ms = rings.begins_ms
        is_short = begins_ms is None or now_ms - begins_ms < RANGES[0].passed_ms
        return RANGES[0] if is_short else RANGES[1]
    found = next((each for each in RANGES if each.name == name), None)
    if found is None:
        raise bad(f"range is not {', '.join(each.name for each in RANGES[:-1])} or {RANGES[-1].name}")
    return found


def _events(viewer: Viewer, rings: Rings, since_ms: int, until_ms: int) -> Iterator[PlotEvent]:
    for event in sorted(rings.events):
        if since_ms < event.at_ms <= until_ms:
            words = words_of(event, viewer)
            if words:
                yield PlotEvent(event.at_ms, words)


def words_of(event: HistoryEvent, viewer: Viewer) -> str:
    """An event in words, without what the viewer may not see; empty if that is all of it."""
    what, subject = event.what, visible(event.subject)
    if what in OF_NODES:
        return f"node {subject} {OF_NODES[what]}"
    if what in (changes.LED, changes.NOT_LED):
        is_named = event.number == 1 and viewer.may_see_topic(event.subject.rpartition("-")[0])
        which = subject if is_named else counted(event.number, "partition")
        if what == changes.NOT_LED:
            return f"{which} lost the leader, node {event.detail}"
        leader, _, before = event.detail.partition(" ")
        been = "has" if event.number == 1 else "have"
        return f"{which} {been} node {leader} as leader" + ("" if before == "-1" else f", no longer node {before}")
    return _config_words(event, viewer)


def _config_words(event: HistoryEvent, viewer: Viewer) -> str:
    kind, _, name = event.subject.partition(" ")
    place = {"topic": (ResourceType.TOPIC, name), "group": (ResourceType.GROUP, name)}
    if not viewer.may(AclOperation.DESCRIBE_CONFIGS, *place.get(kind, (ResourceType.CLUSTER, CLUSTER_NAME))):
        return ""
    if kind == "topic" and not viewer.may_see_topic(name):
        return ""
    return f"{event.detail} of {visible(event.subject) if name else 'all nodes'} changed"
