"""Setting the positions of a group that this node coordinates: first what would change, then the change."""

import asyncio
from collections.abc import Iterable, Mapping
from functools import partial
from typing import NamedTuple

from kpybroker.client import resets
from kpybroker.client.client import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, Spot
from kpybroker.client.resets import Reset, ResetRange
from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.machines.console.group_resets import (
    EARLIEST,
    LATEST,
    OFFSET,
    TARGETS,
    TIME,
    WITH_VALUE,
    ResetPage,
    ResetRow,
)
from kpybroker.machines.console.wording import counted
from kpybroker.machines.groups.offsets.committed import find_committed
from kpybroker.machines.groups.share.share_group import SHARE
from kpybroker.monitoring.console.answers.examined import Coordinated
from kpybroker.monitoring.console.answers.group import group_here
from kpybroker.monitoring.console.answers.group_changes import MOST_NAMED, page_of_group, settle
from kpybroker.monitoring.console.answers.log_offsets import offsets_at
from kpybroker.monitoring.console.answers.positions import MOST_POSITIONS
from kpybroker.monitoring.console.answers.record_places import time_of
from kpybroker.monitoring.console.answers.share_positions import share_positions
from kpybroker.monitoring.console.answers.topics import known_topic
from kpybroker.monitoring.console.asking import refuse
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.query import Query, bad, partition_in
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.http.request import HttpRefused
from kpywire import error_codes
from kpywire.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from kpywire.messages.offset_commit import OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic


class ResetPlan(NamedTuple):
    """The new positions, the partitions that are left out with the reasons, and why there is no plan."""

    resets: list[Reset]
    missing: Mapping[Spot, str]
    problem: str = ""


async def reset_page(node: NodeParts, viewer: Viewer, query: Query) -> ResetPage:
    """The new positions that are asked for, beside those of now. Raises Refused."""
    name = query.needed("id")
    found = await group_here(node, viewer, name)
    of_members = found.group.membership.facts()
    committed = await _committed(node, viewer, found)
    try:
        plan = await _plan(node, viewer, query, committed)
    except HttpRefused as refused:
        plan = ResetPlan([], {}, str(refused))
    return ResetPage(
        name,
        of_members.kind,
        query.text("to", EARLIEST),
        query.text("value"),
        query.text("topic"),
        query.text("partition"),
        plan.problem,
        tuple(sorted({spot.topic for spot in committed})),
        of_members.members,
        tuple([_row(each) async for each in paced(plan.resets)]),
        resets.render_csv({name: plan.resets}),
        tuple(f"{spot}: {reason}" for spot, reason in sorted(plan.missing.items())[:MOST_NAMED]),
        node.is_writable and viewer.may(AclOperation.READ, ResourceType.GROUP, name),
    )


async def _plan(node: NodeParts, viewer: Viewer, query: Query, committed: Mapping[Spot, int]) -> ResetPlan:
    """The plan of a reset. Raises Refused."""
    target = query.text("to", EARLIEST)
    number, time_ms = _wanted(target, query.text("value").strip())
    partition = partition_in(query)
    spots = _spots(node, viewer, committed, query.text("topic"), partition)
    logs, missing = await _ranges(node, viewer, spots)
    at_time: Mapping[Spot, int] = {}
    if time_ms is not None:
        at_time, more, _ = await offsets_at(node, viewer, dict.fromkeys(logs, time_ms))
        missing |= more
        logs = {spot: each for spot, each in logs.items() if spot in at_time}
    try:
        return ResetPlan(_new_positions(target, number, committed, logs, at_time), missing)
    except ValueError as error:
        raise bad(str(error)[:500]) from None


def _wanted(target: str, value: str) -> tuple[int, int | None]:
    """The number and the time that are asked for. Raises Refused."""
    if target not in TARGETS:
        raise bad(f"to is none of {', '.join(TARGETS)}")
    if target not in WITH_VALUE:
        if value:
            raise bad(f"a value is not used with {target}: {TARGETS[target]}")
        return 0, None
    if not value:
        raise bad(f"value is missing: {TARGETS[target]}")
    if target == TIME:
        return 0, time_of(value)
    lowest = 0 if target == OFFSET else -(2**63)
    return Query({"value": value}).number("value", 0, lowest=lowest), None


async def _committed(node: NodeParts, viewer: Viewer, found: Coordinated) -> dict[Spot, int]:
    """The positions of a group in topics that the viewer may see."""
    group = found.group
    if group.membership.facts().kind == SHARE:
        found_starts = await share_positions(partial(node.ask, viewer), [group.group_id])
        starts = found_starts[group.group_id].starts if group.group_id in found_starts else {}
        return {Spot(*spot): offset for spot, offset in sorted(starts.items())}
    committed: dict[Spot, int] = {}
    async for topic in paced(sorted(group.offsets)):
        if viewer.may_see_topic(topic):
            for index in sorted(group.offsets[topic]):
                position = find_committed(group.offsets, topic, index)
                if position is not None:
                    committed[Spot(topic, index)] = position.offset
    return committed


def _spots(node: NodeParts, viewer: Viewer, committed: Mapping[Spot, int], topic: str, partition: int) -> list[Spot]:
    """The partitions that are asked for: those of the group, of one topic, or one. Raises Refused."""
    if not topic:
        if partition >= 0:
            raise bad("topic is missing: a partition is one of a topic")
        spots = list(committed)
    else:
        known = known_topic(node, viewer, topic)
        spots = [Spot(topic, index) for index in sorted(known.partitions) if partition in (-1, index)]
        if not spots:
            refuse(error_codes.UNKNOWN_TOPIC_OR_PARTITION, f"{topic}-{partition}")
    if len(spots) > MOST_POSITIONS:
        raise bad(f"there are {counted(len(spots), 'partition')}, and at most {MOST_POSITIONS} at once: choose a topic")
    return spots


async def _ranges(
    node: NodeParts, viewer: Viewer, spots: Iterable[Spot]
) -> tuple[dict[Spot, ResetRange], dict[Spot, str]]:
    """The offsets of each log, and why some are not known."""
    wanted = list(spots)
    starts, ends = await asyncio.gather(
        offsets_at(node, viewer, dict.fromkeys(wanted, EARLIEST_TIMESTAMP)),
        offsets_at(node, viewer, dict.fromkeys(wanted, LATEST_TIMESTAMP)),
    )
    known = starts.offsets.keys() & ends.offsets.keys()
    return {spot: ResetRange(starts.offsets[spot], ends.offsets[spot]) for spot in known}, starts.missing | ends.missing


async def reset(node: NodeParts, viewer: Viewer, query: Query) -> str:
    """Set positions of a group without members. Returns the page of the group. Raises Refused."""
    name = query.needed("id")
    found = await group_here(node, viewer, name)
    plan = query.needed("plan")
    if plan.count("\n") > MOST_POSITIONS:
        raise bad(
            f"plan has more than {counted(MOST_POSITIONS, 'line')}: set the positions of one topic after the other"
        )
    try:
        offsets = resets.parse_csv(plan, [name])[name]
    except ValueError as error:
        raise bad(f"plan: {error}") from None
    if not offsets:
        raise bad("plan has no partition")
    of_members = found.group.membership.facts()
    if of_members.members:
        line = f"it has {counted(of_members.members, 'member')}; stop or remove them first"
        refuse(error_codes.NON_EMPTY_GROUP, f"group {name[:249]}", line)
    if of_members.kind == SHARE:
        codes = await _set_starts(node, viewer, name, offsets)
    else:
        codes = await _commit(node, viewer, name, offsets)
    named = {
        f"{spot} to {offset}": codes.get(spot, error_codes.UNKNOWN_SERVER_ERROR) for spot, offset in offsets.items()
    }
    settle(viewer, f"set positions of group {name!a}", named)
    return page_of_group(node, name)


async def _commit(node: NodeParts, viewer: Viewer, name: str, offsets: Mapping[Spot, int]) -> dict[Spot, int]:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for spot, offset in offsets.items():
        known = known_topic(node, viewer, spot.topic)
        topics.setdefault(known.name, []).append(
            OffsetCommitRequestPartition(partition_index=spot.partition, committed_offset=offset, committed_metadata="")
        )
    image = node.broker.image
    listed = [
        OffsetCommitRequestTopic(name=topic, topic_id=image.topics[topic].id, partitions=each)
        for topic, each in topics.items()
    ]
    request = OffsetCommitRequest(group_id=name, generation_id_or_member_epoch=-1, member_id="", topics=listed)
    answer = await node.ask(viewer, request)
    return {
        Spot(topic.name or image.topics_by_id[topic.topic_id].name, each.partition_index): each.error_code
        for topic in answer.topics
        for each in topic.partitions
    }


async def _set_starts(node: NodeParts, viewer: Viewer, name: str, offsets: Mapping[Spot, int]) -> dict[Spot, int]:
    topics: dict[str, list[AlterShareGroupOffsetsRequestPartition]] = {}
    for spot, offset in offsets.items():
        part = AlterShareGroupOffsetsRequestPartition(partition_index=spot.partition, start_offset=offset)
        topics.setdefault(known_topic(node, viewer, spot.topic).name, []).append(part)
    listed = [AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=each) for topic, each in topics.items()]
    answer = await node.ask(viewer, AlterShareGroupOffsetsRequest(group_id=name, topics=listed))
    refuse(answer.error_code, f"group {name[:249]}", answer.error_message)
    return {
        Spot(topic.topic_name, each.partition_index): each.error_code
        for topic in answer.responses
        for each in topic.partitions
    }


def _new_positions(
    target: str,
    number: int,
    committed: Mapping[Spot, int],
    logs: Mapping[Spot, ResetRange],
    at_time: Mapping[Spot, int],
) -> list[Reset]:
    """The new position of each partition. ``number``: the offset, or by how many records to go on; ``at_time``: the
    first offset of the time. ValueError where nothing can be shifted."""
    if target == EARLIEST:
        return resets.to_earliest(committed, logs)
    if target == LATEST:
        return resets.to_latest(committed, logs)
    if target == OFFSET:
        return resets.to_offset(number, committed, logs)
    if target == TIME:
        return resets.to_time(at_time, committed, logs)
    return resets.shift_by(number, committed, logs)


def _row(reset: Reset) -> ResetRow:
    """A row of the preview."""
    moved = None if reset.committed is None else reset.offset - reset.committed
    return ResetRow(*reset.spot, reset.committed, reset.offset, moved, reset.note)
