"""The readers of one topic: groups by their commits, and readers without a group by their fetches."""

from typing import Final

from kpybroker.authorization.resources import Operation, ResourceType
from kpybroker.console.node_parts import Sources
from kpybroker.console.pace import paced
from kpybroker.console.viewer import Viewer
from kpybroker.console.views.topics import TopicReader
from kpybroker.metrics.lag import Times, lag_of
from kpybroker.metrics.readers import Position, Readers, clients_of, committed_by, groups_of

MOST_READERS: Final = 200


async def readers_of(sources: Sources, viewer: Viewer, topic: str) -> tuple[TopicReader, ...]:
    """The readers of a topic that the viewer may see, those with the largest lag first."""
    positions, in_groups = await _committed(sources, viewer, topic)
    for position in await without_group(sources, in_groups):
        if position.topic == topic:
            positions.append(position)
    lags: dict[str, list[tuple[int, float | None]]] = {}
    now_ms = sources.broker.scheduler.now_ms()
    times: Times = {}
    async for position in paced(positions):
        lag = lag_of(sources.broker, position, now_ms, times, times)
        if lag is not None:
            lags.setdefault(position.name, []).append((lag.records, lag.seconds))
    rows = [
        TopicReader(
            name,
            name in in_groups,
            len(found),
            sum(records for records, _ in found),
            max((seconds for _, seconds in found if seconds is not None), default=None),
        )
        for name, found in lags.items()
    ]
    return tuple(sorted(rows, key=lambda row: (-row.lag, row.name))[:MOST_READERS])


async def _committed(sources: Sources, viewer: Viewer, topic: str) -> tuple[list[Position], set[str]]:
    positions: list[Position] = []
    in_groups: set[str] = set()
    async for group in paced(groups_of(sources.broker)):
        if not group.offsets:
            continue
        in_groups |= {group.group_id, *clients_of(group)}
        if topic in group.offsets and viewer.may(Operation.DESCRIBE, ResourceType.GROUP, group.group_id):
            found = [each async for each in paced(committed_by(group)) if each is not None]
            positions += [each for each in found if each.topic == topic]
    return positions, in_groups


async def without_group(sources: Sources, in_groups: set[str]) -> list[Position]:
    """The positions of what fetches here and is no member of a group with commits."""
    readers = Readers(sources.broker, sources.server)
    async for _ in paced(readers.gather()):
        pass
    return [
        Position(name, topic, partition, offset)
        for (name, topic, partition), offset in readers.furthest.items()
        if name not in in_groups
    ]
