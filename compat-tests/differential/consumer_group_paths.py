"""Paths of the APIs of consumer groups (KIP-848): see `error_paths`."""

from collections.abc import Iterator, Mapping
from typing import Any

from differential.group_paths import join, stable
from differential.steps import Pause, Step, learned
from differential.world import call
from kpywire import api
from kpywire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from support.group_requests import Protocol, beating, committing, fetching
from support.raw_requests import UNKNOWN_ID

T0 = learned("topic_id", "~t0")
MOST_MEMBERS = 4
"""``group.consumer.max.size`` of both brokers."""
SUBSCRIBED = [Protocol("range", bytes.fromhex("00010000000100") + b"\x03~t0" + bytes.fromhex("ffffffff00000000"))]
UNSETTLED_MS = 400
"""Long enough for a regular expression to be resolved."""


def _described(*groups: str, version: int = 1, operations: bool = False) -> Step:
    return call(
        "d", version, ConsumerGroupDescribeRequest(group_ids=list(groups), include_authorized_operations=operations)
    )


def _beat(of: str, actor: str, version: int, epoch: Any = None, **fields: Any) -> Step:
    """A heartbeat of the member that is named like its actor; at its own epoch unless ``epoch`` says otherwise."""
    member = fields.pop("member", actor if version >= 1 else learned("member_id", actor))
    return call(actor, version, beating(of, member, learned("generation", actor) if epoch is None else epoch, **fields))


def _heartbeat(version: int) -> Iterator[Any]:
    yield from _impossible(version)
    yield from _one_member(version)
    yield from _two_members(version)
    yield from _static_member(version)
    yield from _full_group(version)
    yield from _other_kinds(version)
    if version >= 1:
        yield from _regular_expressions(version)


def _impossible(version: int) -> Iterator[Any]:
    """Requests that cannot be right, whatever the group."""
    of = f"~wrong{version}"
    yield beating("", "m", 0, topics=["~t0"])
    yield beating(of, "", 0, topics=["~t0"]) if version >= 1 else beating(of, "", 1)
    yield from (beating(of, "", -1), beating(of, "  ", -1), beating(of, "m", -3), beating(of, "m", -2))
    yield beating(of, "m", 0)
    yield beating(of, "m", 0, topics=["~t0"], rebalance_timeout_ms=-1)
    yield beating(of, "m", 0, topics=["~t0"], owned={UNKNOWN_ID: [0]})
    yield beating(of, "m", 0, topics=["~t0"], instance_id="")
    yield beating(of, "m", 0, topics=["~t0"], rack_id="")
    yield beating(of, "m", 0, topics=["~t0"], server_assignor="sticky")
    yield beating(of, "m", 0, topics=["~t0"], server_assignor="")
    yield from (beating(of, "m", 1), beating(of, "m", -1), beating(of, "m", -2, instance_id="~i"))


def _one_member(version: int) -> Iterator[Any]:
    of = f"~one{version}"
    new = "" if version == 0 else "m"
    yield _beat(of, "m", version, 0, topics=["~nowhere"], member=new)
    yield _beat(of, "m", version)
    yield _beat(of, "m", version, topics=["~t0"], server_assignor="range")
    yield _described(of)
    yield _beat(of, "m", version, owned={T0: [0, 1]})
    yield _beat(of, "m", version, owned={T0: [7], UNKNOWN_ID: [0]})
    yield _beat(of, "m", version, owned={})
    yield from (_beat(of, "m", version, 1), _beat(of, "m", version, 9), _beat(of, "m", version, owned={T0: [0]}))
    yield _beat(of, "m", version, topics=["~t0"], owned={T0: [0, 1]}, rebalance_timeout_ms=9_000)
    yield _beat(of, "m", version, topics=[])
    yield _beat(of, "m", version, owned={})
    yield _beat(of, "m", version, topics=["~t0"])
    yield beating(of, "nobody", 1)
    yield beating(of, "nobody", -1)
    yield from _commits(of, version)
    yield _beat(of, "m", version, 0, topics=["~t0"])
    yield call("c", 2, DeleteGroupsRequest(groups_names=[of]))
    yield _beat(of, "m", version, -1)
    yield _beat(of, "m", version)
    yield _described(of, version=0, operations=True)
    yield call("c", 2, DeleteGroupsRequest(groups_names=[of]))
    yield _described(of)


def _commits(of: str, version: int) -> Iterator[Any]:
    """Commits and fetches of the member, at its epoch and at others."""
    member = "m" if version >= 1 else learned("member_id", "m")
    for epoch in (learned("generation", "m"), 1, 99, -1):
        for of_version in (8, 9):
            request = committing(of, {"~t0": [(0, 5, "x")]}, of_version)
            request.member_id, request.generation_id_or_member_epoch = member, epoch
            yield call("m", of_version, request)
        asking = fetching((of, {"~t0": [0]}))
        asking.groups[0].member_id, asking.groups[0].member_epoch = member, epoch
        yield call("m", 9, asking)
    yield call("m", 9, committing(of, {"~t0": [(0, 5, "x")]}, 9))


def _two_members(version: int) -> Iterator[Any]:
    """The second member waits until the first has given something up."""
    of = f"~two{version}"
    if version == 0:
        return
    yield _beat(of, "m", version, 0, topics=["~t0"])
    yield _beat(of, "n", version, 0, topics=["~t0"])
    yield _described(of)
    yield _beat(of, "n", version)
    yield _beat(of, "m", version, owned={T0: [0, 1]})
    yield _beat(of, "n", version)
    yield _beat(of, "m", version)
    yield _described(of)
    yield _beat(of, "m", version, owned={T0: [0]})
    yield _beat(of, "n", version)
    yield _beat(of, "n", version, owned={T0: [1]})
    yield _described(of, of, "~none")
    yield _beat(of, "n", version, -1)
    yield _beat(of, "m", version)
    for states, types in (([], ["consumer"]), (["Stable"], []), (["assigning", "Reconciling"], [])):
        yield call("c", 5, ListGroupsRequest(states_filter=states, types_filter=types))


def _static_member(version: int) -> Iterator[Any]:
    of = f"~fixed{version}"
    if version == 0:
        return
    mine = {"instance_id": "~i"}
    yield _beat(of, "m", version, 0, topics=["~t0"], **mine)
    yield _beat(of, "n", version, 0, topics=["~t0"], **mine)
    yield _beat(of, "m", version, instance_id="~j")
    yield _beat(of, "n", version, 2, **mine)
    yield _beat(of, "m", version, -2, **mine)
    yield _described(of)
    yield _beat(of, "n", version, 0, topics=["~t0"], **mine)
    yield _beat(of, "m", version, 2, **mine)
    yield _beat(of, "n", version, -1, **mine)


def _full_group(version: int) -> Iterator[Any]:
    of = f"~crowd{version}"
    if version == 0:
        return
    for number in range(MOST_MEMBERS + 1):
        yield _beat(of, f"{of}-{number}", version, 0, topics=["~t0"])
    yield _beat(of, f"{of}-0", version, owned={T0: [0, 1]})


def _other_kinds(version: int) -> Iterator[Any]:
    """A heartbeat to groups of the classic protocol, and classic requests to a consumer group."""
    of = f"~classic{version}"
    yield call("c", 9, committing(of, {"~t0": [(0, 3, "m")]}))
    yield call("m", version, beating(of, "m", 1))
    yield from stable(f"{of}-held", "k", protocols=[Protocol("range", b"r")])
    yield call("m", version, beating(f"{of}-held", "m", 0, topics=["~t0"]))
    yield call("m", version, beating(f"{of}-held", "m", 3))
    yield from stable(f"{of}-other", "k", protocol_type="other")
    yield call("m", version, beating(f"{of}-other", "m", 0, topics=["~t0"]))
    new = "" if version == 0 else "m"
    yield _beat(of, "m", version, 0, topics=["~t0"], member=new)
    yield call("k", 4, HeartbeatRequest(group_id=of, generation_id=2, member_id="nobody"))
    yield call("k", 5, LeaveGroupRequest(group_id=of, members=[MemberIdentity(member_id="nobody")]))
    yield call("k", 6, DescribeGroupsRequest(groups=[of]))
    yield join(of, "j", member="", protocol_type="other")
    yield join(of, "j", member="", protocols=[])
    yield join(of, "j", member="", protocols=SUBSCRIBED)
    yield _beat(of, "m", version, -1)


def _regular_expressions(version: int) -> Iterator[Any]:
    of = f"~like{version}"
    for wrong in ("(", "a)", "[z-a]", "*", "a**", "\\", "(?<n", "a{2,1}", "\\8", "(?z)"):
        yield beating(of, "m", 0, subscribed_topic_regex=wrong)
    yield _beat(of, "m", version, 0, subscribed_topic_regex="~t0")
    yield Pause(UNSETTLED_MS)
    yield _beat(of, "m", version, owned={})
    yield _beat(of, "m", version, owned={T0: [0, 1]})
    yield _described(of)
    yield _beat(of, "m", version, subscribed_topic_regex="(")
    yield _beat(of, "m", version, subscribed_topic_regex="")
    yield _beat(of, "m", version, owned={})
    yield _beat(of, "m", version, -1)


def _describe(version: int) -> Iterator[Any]:
    of = f"~shown{version}"
    yield ConsumerGroupDescribeRequest(group_ids=["~none", ""], include_authorized_operations=False)
    yield ConsumerGroupDescribeRequest(group_ids=[], include_authorized_operations=False)
    yield from stable(f"{of}-classic")
    yield _beat(of, "m", 1, 0, topics=["~t0"], instance_id="~i", rack_id="here", server_assignor="uniform")
    yield ConsumerGroupDescribeRequest(group_ids=[of, f"{of}-classic"], include_authorized_operations=True)
    yield _beat(of, "n", 1, 0, topics=["~t0", "~nowhere"])
    yield ConsumerGroupDescribeRequest(group_ids=[of], include_authorized_operations=False)


PATHS: Mapping[int, Any] = {
    api.CONSUMER_GROUP_HEARTBEAT: _heartbeat,
    api.CONSUMER_GROUP_DESCRIBE: _describe,
}
"""By api key; see `error_paths.Paths`."""
