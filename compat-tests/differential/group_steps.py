"""Steps of members of groups and of those who look after groups: rounds, errors, offsets, members that go away."""

from collections.abc import Callable, Mapping
from typing import Any

from differential.steps import Hangup, Pause, Step, learned
from differential.world import World, call
from kpywire import api
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.group_requests import Protocol, committing, fetching, fetching_one, joining, syncing

MEMBERS = ("m1", "m2", "m3")
INSTANCES: Mapping[str, str | None] = {"m1": None, "m2": None, "m3": "~instance"}
SESSION_MS, REBALANCE_MS = 60_000, 60_000
SHORT_MS = 1_000


def group(world: World) -> str:
    return world.rng.choice(["~g", "~g", "~g", "~g", "~h", ""] if world.chance(0.2) else ["~g"])


def member_id(world: World, actor: str) -> Any:
    if world.chance(0.04):
        return world.pick("", "nobody", learned("member_id", world.rng.choice(MEMBERS)))
    return learned("member_id", actor)


def generation(world: World, actor: str) -> Any:
    return world.pick(-1, 0, 1, 7) if world.chance(0.06) else learned("generation", actor)


def _protocols(world: World) -> list[Protocol]:
    offered = [Protocol("range", world.rng.choice([b"r", b"r2"]))]
    if world.chance(0.06):
        offered = world.pick([], [Protocol("other", b"")], [*offered, Protocol("other", b"")])
    return offered


def _join(world: World, actor: str, of: str, version: int, **options: Any) -> Step:
    request = joining(
        of,
        options.pop("member", member_id(world, actor)),
        version,
        protocols=_protocols(world),
        protocol_type="consumer" if world.chance(0.97) else world.pick("", "other"),
        session_ms=options.pop("session_ms", SESSION_MS),
        rebalance_ms=REBALANCE_MS,
        instance_id=INSTANCES[actor] if world.chance(0.9) else None,
    )
    return call(actor, version, request)


def join(world: World) -> list[Step]:
    actor, of = world.rng.choice(MEMBERS), group(world)
    steps = [_join(world, actor, of, world.version(api.JOIN_GROUP))]
    if world.chance(0.03):
        steps = [_join(world, actor, of, world.version(api.JOIN_GROUP), session_ms=world.pick(0, -1, 10**8))]
    return steps


def sync(world: World, actor: str = "", of: str = "") -> list[Step]:
    actor = actor or world.rng.choice(MEMBERS)
    version = world.version(api.SYNC_GROUP)
    request = syncing(of or group(world), member_id(world, actor), generation(world, actor), None, version)
    if world.chance(0.9):
        request = syncing(of or group(world), request.member_id, request.generation_id, {"": b""}, version)
        request.assignments = [
            type(request.assignments[0])(member_id=learned("member_id", each), assignment=each.encode())
            for each in MEMBERS
            if world.chance(0.95)
        ]
    request.group_instance_id = INSTANCES[actor]
    if world.chance(0.05):
        request.protocol_name = world.pick("other", None, "")
    return [call(actor, version, request)]


def a_round(world: World) -> list[Step]:
    """Members come to a group until it is stable: each with an id first, then all together."""
    of, count = group(world), world.rng.choice([1, 1, 2, 2, 3])
    actors = world.rng.sample(MEMBERS, count)
    version = world.version(api.JOIN_GROUP)
    steps: list[Step] = []
    for actor in actors:
        steps.append(_join(world, actor, of, version))
        if version >= 4:
            steps.append(_join(world, actor, of, version))
    steps += [_join(world, actor, of, version) for actor in actors[:-1]]
    for actor in actors:
        steps += sync(world, actor, of)
    return steps


def heartbeat(world: World) -> list[Step]:
    actor = world.rng.choice(MEMBERS)
    request = HeartbeatRequest(
        group_id=group(world),
        generation_id=generation(world, actor),
        member_id=member_id(world, actor),
        group_instance_id=INSTANCES[actor] if world.chance(0.9) else None,
    )
    return [call(actor if world.chance(0.8) else "h", world.version(api.HEARTBEAT), request)]


def leave(world: World) -> list[Step]:
    actor, version = world.rng.choice(MEMBERS), world.version(api.LEAVE_GROUP)
    if version < 3:
        request = LeaveGroupRequest(group_id=group(world), member_id=member_id(world, actor))
    else:
        leaving = [
            MemberIdentity(member_id=member_id(world, each), group_instance_id=INSTANCES[each], reason="enough")
            for each in world.rng.sample(MEMBERS, world.rng.choice([1, 1, 2]))
        ]
        if world.chance(0.1):
            leaving.append(MemberIdentity(member_id="", group_instance_id=world.pick("~instance", "nobody")))
        request = LeaveGroupRequest(group_id=group(world), members=leaving)
    return [call(world.pick(actor, "l"), version, request)]


def commit(world: World) -> list[Step]:
    actor, version, topic = world.rng.choice(MEMBERS), world.version(api.OFFSET_COMMIT), world.topic()
    metadata = world.rng.choice(["m", "", None, "x" * 4097]) if world.chance(0.3) else "m"
    committed = [(world.partition(topic), world.rng.choice([0, 1, 5, -1, -9]), metadata)]
    if metadata and len(metadata) > 4096:
        committed.append((0, 1, "m"))  # alone, it would leave a group in Apache Kafka that nobody sees
    request = committing(group(world), {topic: committed}, version, leader_epoch=world.rng.choice([0, -1, 3]))
    if version >= 10:
        request.topics[0].topic_id = world.topic_id(topic)
    if world.chance(0.6):
        request.member_id = member_id(world, actor)
        request.generation_id_or_member_epoch = generation(world, actor)
        request.group_instance_id = INSTANCES[actor]
    request.retention_time_ms = -1
    return [call(world.pick(actor, "c", "c"), version, request)]


def fetch_offsets(world: World) -> list[Step]:
    version, topic = world.version(api.OFFSET_FETCH), world.topic()
    wanted = {topic: [world.partition(topic), 0]} if world.chance(0.7) else None
    if version < 8:
        request = fetching_one(group(world), {topic: [0]} if wanted is None and version < 2 else wanted)
    else:
        request = fetching(*((of, wanted) for of in {group(world): 0, group(world): 0}))
        for each in request.groups:
            for one in each.topics or ():
                one.topic_id = world.topic_id(topic)
            if version >= 9 and world.chance(0.3):
                each.member_id, each.member_epoch = member_id(world, "m1"), world.rng.choice([-1, 0, 1])
    request.require_stable = world.flag(0.3)
    return [call("c", version, request)]


def delete_offsets(world: World) -> list[Step]:
    topic = world.topic()
    partitions = [OffsetDeleteRequestPartition(partition_index=index) for index in (0, world.partition(topic))]
    wanted = [OffsetDeleteRequestTopic(name=topic, partitions=partitions)]
    return [call("c", 0, OffsetDeleteRequest(group_id=group(world), topics=wanted))]


def delete_groups(world: World) -> list[Step]:
    names = sorted({group(world), group(world)}) + (["~nobody"] if world.chance(0.2) else [])
    return [call("c", world.version(api.DELETE_GROUPS), DeleteGroupsRequest(groups_names=list(names)))]


def describe(world: World) -> list[Step]:
    names = sorted({group(world), world.pick("~g", "~h", "~nobody")})
    request = DescribeGroupsRequest(groups=list(names), include_authorized_operations=world.flag())
    return [call("c", world.version(api.DESCRIBE_GROUPS), request)]


def list_groups(world: World) -> list[Step]:
    states = world.rng.sample(
        ["Stable", "Empty", "Dead", "preparingrebalance", "nonsense"], world.rng.choice([0, 1, 2])
    )
    types = world.pick([], [], ["classic"], ["Consumer"], ["nonsense"])
    request = ListGroupsRequest(states_filter=states, types_filter=list(types))
    return [call("c", world.version(api.LIST_GROUPS), request)]


def find_coordinator(world: World) -> list[Step]:
    version = world.version(api.FIND_COORDINATOR)
    kind = world.rng.choice([0, 0, 0, 0, 1, 2, 9, -1])
    names = [group(world), world.pick("~g", "")]
    request = FindCoordinatorRequest(key_type=kind)
    if version >= 4:
        request.coordinator_keys = names
    else:
        request.key = names[0]
    return [call("c", version, request)]


def die(world: World) -> list[Step]:
    """A client goes without leaving; later its session may be over."""
    return [Hangup(world.rng.choice(MEMBERS))]


def a_session_ends(world: World) -> list[Step]:
    """A member with a short session says nothing, and its group goes on without it."""
    of = "~short"
    first = _join(world, "m1", of, 5, session_ms=SHORT_MS, member="")
    again = _join(world, "m1", of, 5, session_ms=SHORT_MS, member=learned("member_id", "m1"))
    beat = HeartbeatRequest(
        group_id=of, generation_id=learned("generation", "m1"), member_id=learned("member_id", "m1")
    )
    asked: Step = call("c", 5, DescribeGroupsRequest(groups=[of]))
    synced = sync(world, "m1", of) if world.chance(0.7) else []
    return [first, again, *synced, asked, Pause(SHORT_MS * 2), asked, call("m1", 4, beat)]


MAKERS: Mapping[Callable[[World], list[Step]], float] = {
    a_round: 2.5,
    join: 2,
    sync: 1.5,
    heartbeat: 2,
    leave: 1.5,
    commit: 3,
    fetch_offsets: 2.5,
    delete_offsets: 1,
    delete_groups: 0.7,
    describe: 2.5,
    list_groups: 1.5,
    find_coordinator: 1,
    die: 0.4,
    a_session_ends: 0.08,
}
"""And how often each is taken, against the others."""
