"""A group as a test needs it: its members, the partitions that each reads, its commits, its lag.

It uses requests that any client can send: the describing ones of each kind of group, OffsetFetch, ListOffsets.
Assignments of classic groups are decoded where the group's protocol is Kafka's ``consumer``, and left out for other
protocols. A member of a streams group reads the source topics of its active tasks.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from kpybroker.machines.errors import KafkaError
from kpybroker.machines.lag import lag_in_records
from kpybroker.testing.client import LATEST, LazyConnection, raise_for
from kpywire import error_codes
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kpywire.messages.share_group_describe import ShareGroupDescribeRequest
from kpywire.messages.streams_group_describe import StreamsGroupDescribeRequest

CONSUMER, SHARE, STREAMS = "consumer", "share", "streams"
NEWEST_ASSIGNMENT = 3
STABLE, EMPTY, DEAD = "Stable", "Empty", "Dead"
Spot = tuple[str, int]
"""A topic and a partition."""


class Member(NamedTuple):
    """A member of a group."""

    id: str
    client_id: str
    instance_id: str | None
    host: str
    partitions: tuple[Spot, ...]
    epoch: int | None = None
    """Its epoch, in a group of the consumer, share or streams protocol."""
    tasks: tuple[str, ...] = ()
    """Its active tasks in a streams group, as in ``0_1``: subtopology and partition."""
    standby: tuple[str, ...] = ()
    """Its standby tasks."""


class Group(NamedTuple):
    """A group at one moment. ``state`` is one of Kafka's: Empty, PreparingRebalance, CompletingRebalance, Stable, Dead,
    of the newer protocols also Assigning, Reconciling and NotReady. ``protocol`` is the assignor."""

    id: str
    state: str
    protocol: str
    members: tuple[Member, ...]
    type: str = "classic"
    """The protocol: classic, consumer (KIP-848), share (KIP-932) or streams (KIP-1071)."""
    epoch: int | None = None
    """The epoch of a group of the newer protocols."""

    @property
    def is_stable(self) -> bool:
        """Whether every member has its partitions."""
        return self.state == STABLE

    @property
    def owners(self) -> dict[Spot, str]:
        """The client id of each partition's owner. Members of a share group read partitions together: one is named."""
        return {spot: member.client_id for member in self.members for spot in member.partitions}

    def __str__(self) -> str:
        lines = [f"group {self.id}: {self.state}, {len(self.members)} members"]
        for member in self.members:
            spots = ", ".join(f"{topic}-{partition}" for topic, partition in member.partitions) or "nothing"
            tasks = f", with tasks {' '.join(member.tasks) or '-'}" if self.type == STREAMS else ""
            standby = f" and standbys {' '.join(member.standby)}" if member.standby else ""
            lines.append(f"  {member.client_id} ({member.id}) reads {spots}{tasks}{standby}")
        return "\n".join(lines)


async def describe(client: LazyConnection, group_id: str) -> Group:
    """The group as it is now. An unknown group is Dead. Raises KafkaError."""
    answer = await client.retrying(lambda: _described(client, group_id))
    if answer.group_state == DEAD:
        for look in (_of_consumer_protocol, _of_share_protocol, _of_streams_protocol):
            found = await client.retrying(partial(look, client, group_id))
            if found is not None:
                return found
    members = tuple(
        Member(
            one.member_id,
            one.client_id,
            getattr(one, "group_instance_id", None),
            one.client_host,
            _assigned(one.member_assignment) if answer.protocol_type == CONSUMER else (),
        )
        for one in answer.members
    )
    return Group(group_id, answer.group_state, answer.protocol_data, tuple(sorted(members, key=lambda one: one.id)))


async def _described(client: LazyConnection, group_id: str) -> Any:
    (answer,) = (await client.call(DescribeGroupsRequest(groups=[group_id]))).groups
    if answer.error_code == error_codes.COORDINATOR_NOT_AVAILABLE or answer.error_code == error_codes.NOT_COORDINATOR:
        # Asking who coordinates it creates the topic that groups are kept in.
        await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]))
    if answer.error_code == error_codes.GROUP_ID_NOT_FOUND:
        answer.group_state = DEAD
        return answer
    raise_for(answer.error_code, f"group {group_id}")
    return answer


async def _of_consumer_protocol(client: LazyConnection, group_id: str) -> Group | None:
    """The group as one of the consumer protocol; None if there is none."""
    answer = await _answer(
        client, ConsumerGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    )
    return None if answer is None else _group(answer, CONSUMER, answer.assignor_name, map(_reader, answer.members))


async def _of_share_protocol(client: LazyConnection, group_id: str) -> Group | None:
    """The group as a share group; None if there is none."""
    answer = await _answer(client, ShareGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False))
    return None if answer is None else _group(answer, SHARE, answer.assignor_name, map(_reader, answer.members))


async def _of_streams_protocol(client: LazyConnection, group_id: str) -> Group | None:
    """The group as a streams group; None if there is none."""
    answer = await _answer(
        client, StreamsGroupDescribeRequest(group_ids=[group_id], include_authorized_operations=False)
    )
    if answer is None:
        return None
    listed = (answer.topology.subtopologies or ()) if answer.topology is not None else ()
    sources = {each.subtopology_id: list(each.source_topics) for each in listed}
    members = (
        Member(
            one.member_id,
            one.client_id,
            one.instance_id,
            one.client_host,
            tuple(
                sorted(
                    (topic, index)
                    for task in one.assignment.active_tasks
                    for topic in sources.get(task.subtopology_id, ())
                    for index in task.partitions
                )
            ),
            one.member_epoch,
            _tasks(one.assignment.active_tasks),
            _tasks(one.assignment.standby_tasks),
        )
        for one in answer.members
    )
    return _group(answer, STREAMS, "sticky", members)


async def _answer(client: LazyConnection, request: Any) -> Any:
    """The described group; None if it is of another kind or there is none. Raises KafkaError."""
    (answer,) = (await client.call(request)).groups
    if answer.error_code in (error_codes.GROUP_ID_NOT_FOUND, error_codes.UNSUPPORTED_VERSION):
        return None
    raise_for(answer.error_code, f"group {answer.group_id}")
    return answer


def _group(answer: Any, kind: str, assignor: str, members: Iterable[Member]) -> Group:
    in_order = tuple(sorted(members, key=lambda one: one.id))
    return Group(answer.group_id, answer.group_state, assignor, in_order, kind, answer.group_epoch)


def _reader(one: Any) -> Member:
    """A member with the partitions that it reads."""
    topics = one.assignment.topic_partitions
    spots = tuple(sorted((topic.topic_name, index) for topic in topics for index in topic.partitions))
    return Member(
        one.member_id, one.client_id, getattr(one, "instance_id", None), one.client_host, spots, one.member_epoch
    )


def _tasks(listed: Iterable[Any]) -> tuple[str, ...]:
    return tuple(sorted(f"{each.subtopology_id}_{index}" for each in listed for index in each.partitions))


def _assigned(assignment: bytes) -> tuple[Spot, ...]:
    """The partitions in a member's assignment, if it is one of Kafka's consumers."""
    from kpywire import codec
    from kpywire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment

    with suppress(Exception):
        version = min(int.from_bytes(assignment[:2]), NEWEST_ASSIGNMENT)
        found = codec.decode(ConsumerProtocolAssignment, version, assignment, 2)
        return tuple(sorted((one.topic, index) for one in found.assigned_partitions for index in one.partitions))
    return ()


async def committed(client: LazyConnection, group_id: str) -> dict[Spot, int]:
    """The offsets that the group has committed. Raises KafkaError."""
    return await client.retrying(lambda: _committed(client, group_id))


async def _committed(client: LazyConnection, group_id: str) -> dict[Spot, int]:
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group_id, topics=None)], require_stable=True)
    (answer,) = (await client.call(request)).groups
    if answer.error_code == error_codes.NOT_COORDINATOR:
        await client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group_id]))
    raise_for(answer.error_code, f"group {group_id}")
    names = {topic.topic_id: topic.name or "" for topic in await client.topics()}
    offsets: dict[Spot, int] = {}
    for topic in answer.topics:
        name = topic.name or names.get(topic.topic_id) or "?"
        for one in topic.partitions:
            raise_for(one.error_code, f"group {group_id}, partition {name}-{one.partition_index}")
            offsets[name, one.partition_index] = one.committed_offset
    return offsets


async def lag(client: LazyConnection, group_id: str) -> dict[Spot, int]:
    """The number of offsets behind the commit, for each committed partition. Raises KafkaError."""
    offsets = await committed(client, group_id)
    ends: dict[Spot, int] = {}
    for name in {name for name, _ in offsets}:
        with suppress(KafkaError):
            found = await client.offsets(name, [index for topic, index in offsets if topic == name], LATEST)
            ends |= {(name, index): end for index, end in found.items()}
    return {spot: lag_in_records(ends[spot], offset) for spot, offset in offsets.items() if spot in ends}


def differences(expected: Mapping[Spot, int | None], offsets: Mapping[Spot, int]) -> Sequence[str]:
    """The differences between committed and expected offsets, in lines; nothing if there are none. None expects no
    commit."""
    if {spot: offset for spot, offset in expected.items() if offset is not None} == dict(offsets):
        return []
    lines = ["committed offsets are not as expected:"]
    for topic, index in sorted({*expected, *offsets}):
        want, have = expected.get((topic, index)), offsets.get((topic, index))
        if want == have:
            lines += [f"  {topic}-{index}: {have}"] if have is not None else []
        else:
            lines += [f"- {topic}-{index}: {want}"] if want is not None else []
            lines += [f"+ {topic}-{index}: {have}"] if have is not None else []
    return lines
