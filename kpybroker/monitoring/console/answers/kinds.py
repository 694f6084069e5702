"""The facts about share groups and streams groups that other groups do not have."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

from kpybroker.machines.console.groups import DeadLettersRow, MemberRow, ShareRow
from kpybroker.machines.console.stuck import TASK, GroupVerdict
from kpybroker.machines.console.stuck_shares import ShareFacts, verdict_on_shares
from kpybroker.machines.console.stuck_streams import Handover, StreamsFacts, verdict_on_streams
from kpybroker.machines.groups.shard import GroupShard
from kpybroker.machines.groups.share.share_group import SHARE, ShareGroup
from kpybroker.machines.groups.share.state_topics import StateTopic, StateTopics
from kpybroker.machines.groups.streams.streams_group import NOT_READY, STREAMS, StreamsGroup
from kpybroker.machines.groups.streams.timeouts import is_delayed
from kpybroker.machines.lag import lag_in_records
from kpybroker.machines.share.record_state import ACQUIRED, ARCHIVING, RecordState
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.requests.serving.share.led import LedSharePartition
from kpybroker.requests.serving.share.metrics import DeadLetterCounts
from kpybroker.requests.serving.share.settings import settings_of

MOST_PARTITIONS: Final = 200
MOST_TASKS: Final = 200
HIDDEN: Final = "topics of its topology are missing or do not fit, and you may not see all of them."
UNCHECKED: Final = "the next heartbeat compares its topology with the topics."


SharesLed = Mapping[str, Sequence[LedSharePartition]]
"""The partitions that share groups read and this node leads, by group."""


async def shares_led(node: NodeParts) -> SharesLed:
    """The partitions of all share groups that this node leads."""
    found: dict[str, list[LedSharePartition]] = {}
    async for led in paced(list(node.broker.share_leader.led.values()) if node.broker.has_share_leader else ()):
        if led.is_loaded and led.replica.leader is not None:
            found.setdefault(led.key.group_id, []).append(led)
    return found


async def share_rows(
    leds: Sequence[LedSharePartition], may_see: Callable[[str], bool], members: Sequence[MemberRow]
) -> tuple[ShareRow, ...]:
    """The partitions of a share group that this node leads and that the viewer may see."""
    names = {each.id: f"{each.client_id} at {each.host}" for each in members}
    rows: list[ShareRow] = []
    async for led in paced(leds):
        if len(rows) < MOST_PARTITIONS and may_see(led.replica.topic.name):
            rows.append(await _share_row(led, names))
    return tuple(sorted(rows, key=lambda row: (row.topic, row.partition)))


async def dead_letters_row(node: NodeParts, viewer: Viewer, name: str) -> DeadLettersRow | None:
    """The dead-letter topic of a share group, and the dead letters that this node wrote for it."""
    broker = node.broker
    topic = settings_of(name, broker.image, broker.config).dead_letter_topic
    if not topic or not viewer.may_see_topic(topic):
        return None
    under_way = written = given_up = 0
    if broker.has_share_leader:
        counts = broker.share_leader.metrics.dead_letters.get(name, DeadLetterCounts())
        written, given_up = counts.written, counts.given_up
        async for led in paced(list(broker.share_leader.led.values())):
            if led.key.group_id == name:
                async for first, last, state in paced(list(_states(led))):
                    under_way += (last - first + 1) * (state.state == ARCHIVING)
    return DeadLettersRow(topic, topic in broker.image.topics, written, under_way, given_up)


async def _share_row(led: LedSharePartition, names: dict[str, str]) -> ShareRow:
    partition, now_ms = led.partition, led.now_ms()
    limits = partition.settings
    locked = 0
    oldest: tuple[int, int, RecordState] | None = None
    worst: tuple[int, int] | None = None
    async for first, last, state in paced(list(_states(led))):
        if state.state == ACQUIRED:
            locked += last - first + 1
            if state.lock_until_ms is not None and (oldest is None or state.lock_until_ms < oldest[0]):
                oldest = state.lock_until_ms, first, state
        if not state.is_terminal and state.delivery_count > 1 and (worst is None or state.delivery_count > worst[0]):
            worst = state.delivery_count, first
    end = led.replica.led().high_watermark.offset
    left_ms = None if oldest is None else max(0, oldest[0] - now_ms)
    return ShareRow(
        led.replica.topic.name,
        led.key.partition,
        partition.start_offset,
        end,
        lag_in_records(end, partition.start_offset, partition.delivery_complete_count),
        locked,
        limits.max_record_locks,
        None if oldest is None else names.get(oldest[2].member_id, oldest[2].member_id),
        None if oldest is None else oldest[1],
        None if left_ms is None else max(0, limits.lock_duration_ms - left_ms) / 1000,
        None if left_ms is None else left_ms / 1000,
        None if worst is None else worst[1],
        0 if worst is None else worst[0],
        limits.delivery_limit,
    )


def _states(led: LedSharePartition) -> Iterator[tuple[int, int, RecordState]]:
    start = led.partition.start_offset
    for batch in led.partition:
        for first, last, state in batch.all_ranges:
            if last >= start:
                yield max(first, start), last, state


def _share_facts(
    node: NodeParts, viewer: Viewer, group: ShareGroup, members: Sequence[MemberRow], shares: Sequence[ShareRow]
) -> ShareFacts:
    """The facts about a share group at its coordinator, with its partitions that are led here."""
    states = group.states or StateTopics()
    assigned = {spot for member in members for spot in member.assigned}

    def spots(topics: Mapping[bytes, StateTopic]) -> list[str]:
        """The partitions of subscribed topics that the viewer may see."""
        known = ((node.broker.image.topics_by_id.get(topic_id), found) for topic_id, found in topics.items())
        seen = (
            (topic.name, found.partitions)
            for topic, found in known
            if topic is not None and topic.name in group.by_name and viewer.may_see_topic(topic.name)
        )
        return [f"{name}-{index}" for name, indexes in seen for index in sorted(indexes)]

    unassigned = [spot for spot in spots(states.initialized) if spot not in assigned]
    return ShareFacts(members, shares, spots(states.initializing), unassigned)


def _task_facts(shard: GroupShard, viewer: Viewer, group: StreamsGroup, members: Sequence[MemberRow]) -> StreamsFacts:
    """The facts about the tasks of a streams group."""
    names = {each.id: f"{each.client_id} at {each.host}" for each in members}
    configured = group.configured
    problem = UNCHECKED if group.state == NOT_READY else ""
    if configured is not None and configured.problem is not None:
        topics = () if group.topology is None else group.topology.required_topics
        problem = configured.problem.text if all(map(viewer.may_see_topic, topics)) else HIDDEN
    subtopologies = {} if configured is None else configured.subtopologies or {}
    wanted = _owners((member_id, target.active) for member_id, target in group.target.items())
    running = _owners((each, member.assigned.active) for each, member in group.members.items())
    leaving = _owners((each, member.pending_revocation.active) for each, member in group.members.items())
    handovers = [
        Handover(_task(task), names.get(to, to), names.get(leaving.get(task) or running.get(task, "")))
        for task, to in sorted(wanted.items())
        if running.get(task) != to
    ]
    every = [(name, index) for name, found in subtopologies.items() for index in range(found.tasks)]
    unowned = [_task(task) for task in every if task not in wanted and task not in running and not problem]
    warm_ups = [
        (_task((name, index)), names.get(member_id, member_id))
        for member_id, member in group.members.items()
        for name, indexes in member.assigned.warmup.items()
        for index in sorted(indexes)
    ]
    asked = group.shutdown_member_id
    return StreamsFacts(
        members,
        problem,
        "" if asked is None else names.get(asked, asked),
        is_delayed(shard, group.group_id),
        handovers[:MOST_TASKS],
        unowned[:MOST_TASKS],
        warm_ups[:MOST_TASKS],
    )


def _owners(tasks: Iterable[tuple[str, Mapping[str, Iterable[int]]]]) -> dict[tuple[str, int], str]:
    """The member of each task."""
    return {
        (name, index): member_id
        for member_id, by_name in tasks
        for name, indexes in by_name.items()
        for index in indexes
    }


def _task(task: tuple[str, int]) -> str:
    name, index = task
    return f"{TASK}{name}_{index}"


VERDICTS: Final[Mapping[str, Callable[..., GroupVerdict | None]]] = {
    SHARE: lambda node, viewer, _shard, *facts: verdict_on_shares(_share_facts(node, viewer, *facts)),
    STREAMS: lambda _node, viewer, shard, *facts: verdict_on_streams(_task_facts(shard, viewer, *facts[:2])),
}
"""The verdicts by kind of group. Where there is none, the positions of the group decide."""
