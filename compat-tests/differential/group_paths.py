"""Paths of the APIs of groups, their members and their offsets: see `error_paths`."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any

from differential.steps import Hangup, Pause, Step, learned
from differential.world import call
from kpywire import api
from kpywire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.end_txn import EndTxnRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.init_producer_id import InitProducerIdRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kpywire.messages.offset_fetch import OffsetFetchRequestTopics
from kpywire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kpywire.uuid import to_string
from support.group_requests import Protocol, committing, fetching, fetching_one, joining, syncing
from support.raw_requests import UNKNOWN_ID

MINUTE_MS = 60_000
ASKED_TWICE = 4
"""From this version of JoinGroup on a new member receives its id and joins with it."""
STABLE_ON_REQUEST = 7
"""From this version of OffsetFetch on offsets that are not settled can be waited for."""
MOST_MEMBERS = 4
"""``group.max.size`` of both brokers."""
RANGE = [Protocol("range", b"r")]
CONSUMER = bytes.fromhex("0000000000010003") + b"~t0" + bytes.fromhex("ffffffff")
"""The subscription of a consumer, by which a group is known to read a topic."""


def join(of: str, actor: str, version: int = 9, **options: Any) -> Step:
    """A request to join; the member is the actor unless ``member`` says otherwise."""
    options = {"protocols": RANGE, "session_ms": MINUTE_MS, "rebalance_ms": MINUTE_MS, **options}
    member = options.pop("member", learned("member_id", actor))
    return call(actor, version, joining(of, member, version, **options))


def _first(of: str, actor: str, version: int = 9, **options: Any) -> list[Step]:
    """A member that is new, with an id if one is demanded; it waits for others if there are any."""
    first = join(of, actor, version, **{**options, "member": ""})
    return [first, join(of, actor, version, **options)] if version >= ASKED_TWICE else [first]


def _sync(of: str, actor: str, version: int = 5, generation: Any = None, **options: Any) -> Step:
    assignments = options.pop("assignments", None)
    request = syncing(of, options.pop("member", learned("member_id", actor)), 0, assignments, version, **options)
    request.generation_id = learned("generation", actor) if generation is None else generation
    return call(actor, version, request)


def stable(of: str, actor: str = "m", **options: Any) -> list[Step]:
    """A group with one member."""
    instance = options.get("instance_id")
    return [*_first(of, actor, **options), _sync(of, actor, instance_id=instance)]


def two_members(of: str) -> list[Step]:
    """A group of a leader and another one, both synced."""
    return [*stable(of), *_first(of, "n"), join(of, "m"), _sync(of, "n"), _sync(of, "m")]


def _join_group(version: int) -> Iterator[Any]:
    of = f"~join{version}"
    yield from _first(of, "m", version)
    yield _sync(of, "m", min(version, 5))
    yield join(of, "x", version, member="nobody")
    yield join("", "x", version, member="")
    for session_ms in (0, 499, -1, 2**31 - 1):
        yield join(of, "x", version, member="", session_ms=session_ms)
    yield join(of, "x", version, member="", protocols=[])
    yield join(of, "x", version, member="", protocol_type="")
    yield join(of, "x", version, member="", protocol_type="other")
    yield join(of, "x", version, member="", protocols=[Protocol("other", b"")])
    yield join(of, "m", version, protocols=[Protocol("other", b"")])
    yield _sync(of, "m", min(version, 5))
    yield join(f"{of}-new", "x", version, member="nobody")
    yield from _first(of, "n", version)
    yield call("m", 4, _beat(of, "m"))
    yield join(of, "m", version)
    yield _sync(of, "n", min(version, 5))
    yield _sync(of, "m", min(version, 5))
    if version >= 5:
        static = f"~static{version}"
        yield join(static, "s", version, member="", instance_id="~one")
        yield _sync(static, "s", instance_id="~one")
        yield join(static, "r", version, member="", instance_id="~one")
        yield join(static, "s", version, instance_id="~one")
        yield join(static, "r", version, instance_id="~two")
        yield call("s", 4, _beat(static, "s", instance="~one"))
    yield from _full_group(version)


def _full_group(version: int) -> Iterator[Any]:
    """A group with as many members as it may have, and one more."""
    of = f"~full{version}"
    first, *others, last = (f"{of}-{number}" for number in range(MOST_MEMBERS + 1))
    for each in (first, *others) if version >= ASKED_TWICE else ():
        yield join(of, each, version, member="")
    yield join(of, first, version)
    for each in others:
        yield join(of, each, version)
    yield join(of, first, version)
    yield join(of, last, version, member="")
    for each in (*others, first):
        yield _sync(of, each, min(version, 5))
    yield join(of, last, version, member="")
    yield join(of, last, version, member="nobody")


def _beat(of: str, actor: str, generation: Any = None, instance: str | None = None) -> HeartbeatRequest:
    return HeartbeatRequest(
        group_id=of,
        generation_id=learned("generation", actor) if generation is None else generation,
        member_id=learned("member_id", actor),
        group_instance_id=instance,
    )


def _sync_group(version: int) -> Iterator[Any]:
    of = f"~sync{version}"
    yield _sync(of, "z", version, 1, member="nobody")
    yield _sync("", "z", version, 1, member="nobody")
    yield from _first(of, "m")
    yield _sync(of, "m", version, 7)
    yield _sync(of, "m", version, -1)
    yield _sync(of, "z", version, 1, member="nobody")
    yield _sync(of, "z", version, 1, member="")
    if version >= 5:
        yield _sync(of, "m", version, protocol=("consumer", "other"))
        yield _sync(of, "m", version, protocol=("other", "range"))
        yield _sync(of, "m", version, protocol=(None, None))
    if version >= 3:
        yield _sync(of, "m", version, instance_id="~unknown")
    yield _sync(of, "m", version, assignments={"nobody": b"a"})
    yield _sync(of, "m", version)
    yield from _first(of, "n")
    yield _sync(of, "m", version)
    yield join(of, "m")
    yield _sync(of, "n", version)
    yield Hangup("m")
    yield Hangup("n")
    yield call("c", 5, DescribeGroupsRequest(groups=[of]))


def _heartbeat(version: int) -> Iterator[Any]:
    of = f"~beat{version}"
    yield _beat(of, "z", 1)
    yield _beat("", "z", 1)
    yield from _first(of, "m")
    yield call("h", version, _fit_instance(_beat(of, "m"), version))
    yield _sync(of, "m")
    yield _beat(of, "m")
    yield _beat(of, "m", 9)
    yield _beat(of, "m", -1)
    yield _beat(of, "nobody", 1)
    if version >= 3:
        yield _beat(of, "m", None, "~unknown")
        static = f"~beat-static{version}"
        yield join(static, "s", member="", instance_id="~one")
        yield _sync(static, "s", instance_id="~one")
        yield _beat(static, "m", 1, "~one")
        yield _beat(static, "s", None, "~one")
    yield from _first(of, "n")
    yield _beat(of, "m")
    yield Hangup("n")
    yield _beat(of, "m")


def _fit_instance(request: Any, version: int) -> Any:
    if version < 3:
        request.group_instance_id = None
    return request


def _leave_group(version: int) -> Iterator[Any]:
    of = f"~leave{version}"

    def leaving(*members: tuple[Any, str | None], group: str = of) -> LeaveGroupRequest:
        if version < 3:
            return LeaveGroupRequest(group_id=group, member_id=members[0][0])
        return LeaveGroupRequest(
            group_id=group,
            members=[MemberIdentity(member_id=member, group_instance_id=instance) for member, instance in members],
        )

    mine = learned("member_id", "m")
    yield leaving(("nobody", None))
    yield leaving(("nobody", None), group="")
    yield from two_members(of)
    yield leaving(("nobody", None))
    if version >= 3:
        yield leaving((mine, "~unknown"), ("", None), ("", "~unknown"), ("nobody", "~unknown"))
        yield leaving()
        static = f"~leave-static{version}"
        yield join(static, "s", member="", instance_id="~one")
        yield _sync(static, "s", instance_id="~one")
        yield leaving(("nobody", "~one"), group=static)
        yield leaving(("", "~one"), group=static)
        yield leaving(("", "~one"), group=static)
    yield leaving((mine, None))
    yield call("n", 4, _beat(of, "n"))
    yield leaving((mine, None))
    yield leaving((learned("member_id", "n"), None))


def _offset_commit(version: int) -> Iterator[Any]:
    of = f"~commit{version}"

    def asking(
        topic: Any = "~t0", group: str = of, metadata: str | None = "m", partition: int = 0, **fields: Any
    ) -> Any:
        request = committing(group, {topic: [(partition, 1, metadata)]}, version)
        if version >= 10:
            request.topics[0].name = ""
            request.topics[0].topic_id = UNKNOWN_ID if topic == "~nowhere" else learned("topic_id", topic)
        for name, value in fields.items():
            setattr(request, name, value)
        return request

    mine = {"member_id": learned("member_id", "m"), "generation_id_or_member_epoch": learned("generation", "m")}
    yield asking()
    yield asking(group="")
    yield asking("~nowhere")
    yield asking(partition=4)
    yield asking(partition=-1)
    yield asking(metadata=None)
    yield asking(metadata="x" * 4097)
    yield asking(generation_id_or_member_epoch=3)
    yield asking(member_id="nobody")
    yield asking(member_id="nobody", generation_id_or_member_epoch=3)
    yield from stable(of)
    yield asking()
    yield asking(**mine)
    yield asking(**{**mine, "generation_id_or_member_epoch": 9})
    yield asking(member_id="nobody", generation_id_or_member_epoch=1)
    yield asking(**mine, topics=[])
    if version >= 7:
        yield asking(**mine, group_instance_id="~unknown")
        static = f"~commit-static{version}"
        yield join(static, "s", member="", instance_id="~one")
        yield _sync(static, "s", instance_id="~one")
        yield asking(group=static, **mine, group_instance_id="~one")
    yield from _first(of, "n")
    yield asking(**mine)
    yield join(of, "m")
    yield asking(**mine)


def _offset_fetch(version: int) -> Iterator[Any]:
    of = f"~fetched{version}"
    yield call("c", 9, committing(of, {"~t0": [(0, 3, "m")]}))
    if version < 8:
        for group, topics in (
            (of, {"~t0": [0, 1]}),
            (of, {"~nowhere": [0]}),
            ("~none", {"~t0": [0]}),
            ("", {"~t0": [0]}),
        ):
            yield fetching_one(group, topics)
        yield fetching_one(of, {})
        if version >= 2:
            yield fetching_one(of, None)
            yield fetching_one("~none", None)
        if version >= STABLE_ON_REQUEST:
            yield from _pending(of, version, "~t0")
        return
    known, unknown = (learned("topic_id", "~t0"), UNKNOWN_ID) if version >= 10 else ("~t0", "~nowhere")
    asked: list[list[tuple[str, dict[Any, list[int]] | None]]] = [
        [(of, {known: [0, 1]})], [(of, {unknown: [0]})], [("~none", {known: [0]})], [("", {known: [0]})], [(of, {})],
        [(of, None)], [("~none", None), (of, None)], [(of, None), (of, None)], [],
    ]  # fmt: skip
    for groups in asked:
        request = fetching(*((group, None) for group, _ in groups))
        for one, (_, wanted) in zip(request.groups, groups, strict=True):
            one.topics = None if wanted is None else _topics_of(wanted, version)
        yield request
    yield from _pending(of, version, known)
    if version >= 9:
        yield from stable(of)
        for member, epoch in ((learned("member_id", "m"), 1), ("nobody", 1), (learned("member_id", "m"), 7), (None, 3)):
            request = fetching((of, None))
            request.groups[0].member_id, request.groups[0].member_epoch = member, epoch
            yield request


def _pending(of: str, version: int, topic: Any) -> Iterator[Any]:
    """An offset in a transaction that is still open, looked at by those who wait for its end and those who do not."""
    transaction = f"~of-offsets{version}"
    mine = {"producer_id": learned("producer_id", "t"), "producer_epoch": learned("producer_epoch", "t")}
    begun = InitProducerIdRequest(transactional_id=transaction, transaction_timeout_ms=MINUTE_MS)
    offset = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=5, committed_metadata="t")
    moved = [TxnOffsetCommitRequestTopic(name="~t0", partitions=[offset])]
    yield call("t", 4, begun)
    yield call("t", 3, AddOffsetsToTxnRequest(transactional_id=transaction, group_id=of, **mine))
    yield call("t", 3, TxnOffsetCommitRequest(transactional_id=transaction, group_id=of, topics=moved, **mine))
    for wanted, requires in product(({topic: [0]}, None, {topic: [1]}), (True, False)):
        if version < 8:
            request = fetching_one(of, wanted)
            request.require_stable = requires
        else:
            request = fetching((of, None), require_stable=requires)
            request.groups[0].topics = None if wanted is None else _topics_of(wanted, version)
        yield request
    yield call("t", 3, EndTxnRequest(transactional_id=transaction, committed=True, **mine))


def _topics_of(topics: Mapping[Any, list[int]], version: int) -> list[OffsetFetchRequestTopics]:
    found = []
    for topic, partitions in topics.items():
        one = OffsetFetchRequestTopics(partition_indexes=partitions)
        if version >= 10:
            one.topic_id = topic
        else:
            one.name = topic
        found.append(one)
    return found


def _offset_delete(version: int) -> Iterator[Any]:  # noqa: ARG001
    of = "~forgets"

    def asking(group: str, *topics: tuple[str, list[int]]) -> OffsetDeleteRequest:
        return OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequestTopic(
                    name=name, partitions=[OffsetDeleteRequestPartition(partition_index=index) for index in partitions]
                )
                for name, partitions in topics
            ],
        )

    yield asking("~none", ("~t0", [0]))
    yield asking("~none", ("~t0", []))
    yield asking("~none", ("~nowhere", []))
    yield asking("~none", ("~nowhere", [0]))
    yield asking("~none")
    yield asking("", ("~t0", [0]))
    yield call("c", 9, committing(of, {"~t0": [(0, 3, "m")]}))
    yield asking(of, ("~t0", [0, 1, -1]), ("~nowhere", [0]))
    yield asking(of, ("~t0", []))
    yield asking(of, ("~nowhere", []), ("~t0", [0]))
    yield asking(of, ("~nowhere", []))
    yield asking(of)
    yield from stable(of, protocols=[Protocol("range", CONSUMER)])
    yield asking(of, ("~t0", [0]), ("~compacted", [0]))
    yield from stable("~odd", protocol_type="other")
    yield asking("~odd", ("~t0", [0]))
    yield from stable("~garbled", protocols=[Protocol("range", b"\xff")])
    yield asking("~garbled", ("~t0", [0]))


def _delete_groups(version: int) -> Iterator[Any]:  # noqa: ARG001
    yield DeleteGroupsRequest(groups_names=["~none", ""])
    yield from stable("~kept")
    yield call("c", 9, committing("~gone", {"~t0": [(0, 3, "m")]}))
    yield DeleteGroupsRequest(groups_names=["~kept", "~gone"])
    yield DeleteGroupsRequest(groups_names=["~gone"])
    yield DeleteGroupsRequest(groups_names=["~none", "~none"])
    yield DeleteGroupsRequest(groups_names=[])


def _describe_groups(version: int) -> Iterator[Any]:
    of = f"~described{version}"
    yield DescribeGroupsRequest(groups=["~none", ""])
    yield from _first(of, "m")
    yield DescribeGroupsRequest(groups=[of])
    yield _sync(of, "m", assignments={"nobody": b"a"})
    yield DescribeGroupsRequest(groups=[of, of])
    yield from _first(of, "n")
    yield DescribeGroupsRequest(groups=[of])
    yield Hangup("n")
    yield DescribeGroupsRequest(groups=[of], include_authorized_operations=version >= 3)
    yield DescribeGroupsRequest(groups=[])


def _list_groups(version: int) -> Iterator[Any]:
    of = f"~listed{version}"
    yield from stable(of)
    yield call("c", 9, committing(f"{of}-empty", {"~t0": [(0, 3, "m")]}))
    yield ListGroupsRequest()
    if version >= 4:
        for states in (["Stable"], ["empty"], ["CompletingRebalance", "PreparingRebalance"], ["nonsense"], [""]):
            yield ListGroupsRequest(states_filter=states)
    if version >= 5:
        for types in (["classic"], ["CONSUMER"], ["share", "streams"], ["nonsense"], [""]):
            yield ListGroupsRequest(types_filter=types)


def _find_coordinator(version: int) -> Iterator[Any]:
    for kind in (0, 1, 3, -1, 127) if version >= 1 else (0,):
        for key in ("~g", "", "x" * 300):
            if version >= 4:
                yield FindCoordinatorRequest(key_type=kind, coordinator_keys=[key, "~h"])
            else:
                yield FindCoordinatorRequest(key_type=kind, key=key)
    if version >= 4:
        yield FindCoordinatorRequest(key_type=2, coordinator_keys=["~g", f"~g:{to_string(bytes(range(16)))}:x", ""])
        yield FindCoordinatorRequest(key_type=0, coordinator_keys=[])


def clients_that_die() -> list[Step]:
    """A group of three, of which one after the other goes without a word, and is waited for until its session ends."""
    of, short = "~dying", {"session_ms": 3000, "rebalance_ms": 4500}
    steps: list[Step] = [*stable(of, "m", **short)]
    asked = call("c", 5, DescribeGroupsRequest(groups=[of]))
    beat = call("m", 4, _beat(of, "m"))
    steps += [*_first(of, "n", **short), join(of, "m", **short), _sync(of, "n"), _sync(of, "m"), asked]
    steps += [Hangup("n"), beat, Pause(1200), beat, Pause(1200), beat, Pause(1200), beat, asked]
    steps += [join(of, "m", **short), _sync(of, "m"), asked, call("c", 9, committing(of, {"~t0": [(0, 3, "m")]}))]
    steps += [*_first(of, "o", **short), Hangup("o"), Pause(1200), beat, Pause(1200), beat, asked]
    steps += [join(of, "m", **short), Pause(5500), asked, Hangup("m"), Pause(4000), asked]
    steps += [
        call("c", 9, committing(of, {"~t0": [(0, 3, "m")]})),
        call("c", 2, DeleteGroupsRequest(groups_names=[of])),
    ]
    return steps


PATHS: Mapping[int, Any] = {
    api.JOIN_GROUP: _join_group,
    api.SYNC_GROUP: _sync_group,
    api.HEARTBEAT: _heartbeat,
    api.LEAVE_GROUP: _leave_group,
    api.OFFSET_COMMIT: _offset_commit,
    api.OFFSET_FETCH: _offset_fetch,
    api.OFFSET_DELETE: _offset_delete,
    api.DELETE_GROUPS: _delete_groups,
    api.DESCRIBE_GROUPS: _describe_groups,
    api.LIST_GROUPS: _list_groups,
    api.FIND_COORDINATOR: _find_coordinator,
}
"""By api key; see `error_paths.Paths`."""
