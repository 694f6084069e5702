"""The page of mirrors: the topics of this cluster that are mirrors, compared with their sources.

Each source is asked with the connection settings of this node's mirror, and leaders here with the viewer's own login.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from kpybroker.client.client import Spot
from kpybroker.client.mirror_requests import FETCHING, MirroredTopic, SourceState, compared, source_state
from kpybroker.client.sources import MirrorSource
from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.listing import PER_PAGE, pages_of
from kpybroker.machines.console.mirrors import (
    AWAY,
    FAILED,
    PARTITION_KEYS,
    TOPIC_KEYS,
    WORST_FIRST,
    CarriedGroupRow,
    MirroredPartitionRow,
    MirroredTopicRow,
    MirrorsPage,
    TopicTally,
    mirror_row,
)
from kpybroker.machines.metadata.image import TOPIC_RESOURCE
from kpybroker.machines.metadata.mirror_configs import MIRRORING, SOURCE, STATE
from kpybroker.machines.metadata.topic import Topic
from kpybroker.monitoring.console.answers.log_offsets import ends_led_elsewhere
from kpybroker.monitoring.console.answers.peers import consoles_of
from kpybroker.monitoring.console.answers.positions import leader_of
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import give_way, paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query
from kpybroker.monitoring.console.source_looks import SILENT, SourceLook
from kpybroker.monitoring.console.viewer import Viewer
from kpywire import error_codes
from kpywire.messages.metadata import MetadataResponsePartition, MetadataResponseTopic

if TYPE_CHECKING:
    from kpybroker.hosts.mirror.running_mirror import RunningMirror

MOST_ENDS: Final = 5_000
"""The partitions that other nodes lead whose ends are asked for."""


class SeenTopics(NamedTuple):
    """The rows of topics, and of those of their partitions that lag or are not fed."""

    topics: list[MirroredTopicRow]
    behind: list[MirroredPartitionRow]
    silent: tuple[str, ...]


async def mirrors(node: NodeParts, viewer: Viewer, query: Query) -> MirrorsPage:
    """The page, the topics that are furthest behind first."""
    viewer.must_see_node()
    broker = node.broker
    running = {each.mirror.name: each for each in broker.mirrors or ()}
    mirrored = await _mirrored(node)
    looks = await _looks(node, running, mirrored)
    shown = [each for each in mirrored if viewer.may_see_topic(each.name)]
    seen = await _seen(node, viewer, shown, looks, _Fed(running))
    rows = await sorted_in_pieces(seen.topics, TOPIC_KEYS, query.text("sort") or WORST_FIRST)
    page, pages = pages_of(len(rows), query.number("page", 1, lowest=1))
    behind = await sorted_in_pieces(seen.behind, PARTITION_KEYS, WORST_FIRST)
    groups = _carried(viewer, running.values())
    carrier = broker.mirrors.carrier_id if broker.mirrors is not None and running else -1
    is_here = carrier == broker.node_id
    elsewhere = {} if is_here or carrier < 0 else await consoles_of(node, viewer, (carrier,))
    return MirrorsPage(
        tuple(
            mirror_row(
                name,
                running[name].mirror.patterns if name in running else None,
                _problem(name, running, looks),
                seen.topics,
            )
            for name in sorted({*running, *(each.mirror for each in shown)})
        ),
        page,
        pages,
        len(rows),
        tuple(rows[(page - 1) * PER_PAGE : page * PER_PAGE]),
        tuple(behind[:PER_PAGE]),
        max(0, len(behind) - PER_PAGE),
        carrier if carrier >= 0 else None,
        is_here,
        elsewhere.get(carrier),
        tuple(groups[:PER_PAGE]),
        max(0, len(groups) - PER_PAGE),
        seen.silent,
    )


async def _mirrored(node: NodeParts) -> list[MirroredTopic]:
    """The topics of this cluster that are mirrors, by name."""
    image = node.broker.image
    found = []
    async for name in paced(sorted(image.topics)):
        topic, configs = image.topics.get(name), image.configs_of(TOPIC_RESOURCE, name)
        if topic is not None and SOURCE in configs:
            found.append(MirroredTopic(await _described(topic), configs[SOURCE], configs.get(STATE, MIRRORING)))
    return found


async def _described(topic: Topic) -> MetadataResponseTopic:
    """A topic as a Metadata response has it."""
    partitions = [
        MetadataResponsePartition(
            error_code=error_codes.NONE,
            partition_index=index,
            leader_id=each.leader,
            leader_epoch=each.leader_epoch,
            replica_nodes=list(each.replicas),
            isr_nodes=list(each.isr),
        )
        async for index, each in paced(list(topic.partitions.items()))
    ]
    return MetadataResponseTopic(error_code=error_codes.NONE, name=topic.name, topic_id=topic.id, partitions=partitions)


async def _looks(
    node: NodeParts, running: Mapping[str, "RunningMirror"], mirrored: Iterable[MirroredTopic]
) -> dict[str, SourceLook]:
    """The sources of mirrors that are reached: all are read at the same time, for all topics of their mirrors."""
    topics: dict[str, list[str]] = {}
    for each in mirrored:
        topics.setdefault(each.mirror, []).append(each.name)
    asked = {name: each.source for name, each in running.items() if each.source is not None and not each.problem}
    looks = await asyncio.gather(
        *(node.source_looks.at(name, partial(_read, source, topics.get(name, []))) for name, source in asked.items())
    )
    return dict(zip(asked, looks, strict=True))


def _read(source: MirrorSource, topics: list[str]) -> SourceState:
    """The state of a source. Blocks. Raises KafkaError and Unreachable."""
    with source.client() as client:
        return source_state(client, topics)


def _problem(name: str, running: Mapping[str, "RunningMirror"], looks: Mapping[str, SourceLook]) -> str:
    """The reason why a source is not reached; empty if it is, or is not asked."""
    if name not in running:
        return ""
    return running[name].problem or looks.get(name, SILENT).problem


class _Fed:
    """The knowledge about partitions of mirrors that only this broker has."""

    def __init__(self, running: Mapping[str, "RunningMirror"]) -> None:
        self.named = set(running)
        self.failed = {spot for each in running.values() for spot in each.failed()}

    def reason(self, spot: Spot, reason: str, *, is_known: bool) -> str:
        """Why a partition is behind, given the reason that its state and its source show."""
        if spot in self.failed and reason in ("", FETCHING):
            return FAILED
        return reason or ("" if is_known else AWAY)


async def _seen(
    node: NodeParts, viewer: Viewer, shown: list[MirroredTopic], looks: Mapping[str, SourceLook], fed: _Fed
) -> SeenTopics:
    ends: dict[Spot, int] = {}
    elsewhere: list[Spot] = []
    spots = (Spot(each.name, part.partition_index) for each in shown for part in each.topic.partitions)
    async for spot in paced(spots):
        leader = leader_of(node, spot.topic, spot.partition)
        if leader is None:
            elsewhere.append(spot)
        else:
            ends[spot] = leader.high_watermark.offset
    others = await ends_led_elsewhere(node, viewer, elsewhere, MOST_ENDS)
    ends.update((Spot(*spot), end) for spot, end in others.ends.items())
    topics, behind = [], []
    for each in shown:
        tally = TopicTally(each.mirror, each.name, each.state)
        look = looks.get(each.mirror, SILENT)
        async for row in paced(_rows(each, ends, look, fed)):
            tally.add(row)
            if row.reason:
                behind.append(row)
        topics.append(tally.row())
        await give_way()
    return SeenTopics(topics, behind, others.silent)


def _rows(
    topic: MirroredTopic, ends: Mapping[Spot, int], look: SourceLook, fed: _Fed
) -> Iterator[MirroredPartitionRow]:
    is_known = look.state is not None
    for each in compared((topic,), ends, look.state, fed.named):
        reason = fed.reason(each.spot, each.reason, is_known=is_known)
        yield MirroredPartitionRow(topic.mirror, *each.spot, each.end, each.source_end, each.lag, reason)


def _carried(viewer: Viewer, running: Iterable["RunningMirror"]) -> list[CarriedGroupRow]:
    """The groups that this broker has carried over and the viewer may see, by name."""
    return sorted(
        (
            CarriedGroupRow(each.mirror.name, group, positions)
            for each in running
            for group, positions in each.carried().items()
            if viewer.may(AclOperation.DESCRIBE, ResourceType.GROUP, group)
        ),
        key=lambda row: (row.group, row.mirror),
    )
