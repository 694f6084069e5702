"""The answers to clients of groups when the coordinator, or the log below it, cannot take their request."""

from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.machines.metadata.topic import Partition, Topic
from kpybroker.requests.handlers import (
    delete_groups,
    describe_groups,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
)
from kpybroker.requests.serving.group_requests import java_address
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.gathered import gathered
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import at_once
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire.codec import encode
from kpywire.error_codes import (
    COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE,
    KAFKA_STORAGE_ERROR,
    NONE,
    NOT_COORDINATOR,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
)
from kpywire.messages.delete_groups import DeleteGroupsRequest
from kpywire.messages.describe_groups import DescribeGroupsRequest
from kpywire.messages.heartbeat import HeartbeatRequest
from kpywire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kpywire.messages.list_groups import ListGroupsRequest
from kpywire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from support.group_requests import committing, fetching, fetching_one, joining, syncing

TOPIC_ID = bytes(range(16))
AS_KAFKA_SAYS = {
    NOT_COORDINATOR: NOT_COORDINATOR,
    COORDINATOR_LOAD_IN_PROGRESS: COORDINATOR_LOAD_IN_PROGRESS,
    COORDINATOR_NOT_AVAILABLE: COORDINATOR_NOT_AVAILABLE,
    NOT_ENOUGH_REPLICAS: COORDINATOR_NOT_AVAILABLE,
    REQUEST_TIMED_OUT: COORDINATOR_NOT_AVAILABLE,
    NOT_LEADER_OR_FOLLOWER: NOT_COORDINATOR,
    KAFKA_STORAGE_ERROR: NOT_COORDINATOR,
    UNKNOWN_SERVER_ERROR: UNKNOWN_SERVER_ERROR,
}
WHEN_FETCHING = {**AS_KAFKA_SAYS, NOT_ENOUGH_REPLICAS: NOT_COORDINATOR, REQUEST_TIMED_OUT: NOT_COORDINATOR}


class Refusing:
    """A coordinator that refuses everything."""

    def __init__(self, code: int) -> None:
        self.code = code

    def answer_again(self, _key: str, _message: Any) -> None:
        return None

    def submit(self, _key: str, _event: Any, refuse: Any, **_options: Any) -> Any:
        return refuse(self.code)

    def submit_to_all(self, _event: Any, refuse: Any) -> Generator[None, None, list[Any]]:
        yield
        return [refuse(self.code)]


def answered(module: Any, request: Any, version: int, code: int) -> Any:
    """The answer of a handler whose coordinator says ``code``; it can be written in that version."""
    topic = Topic("t", TOPIC_ID)
    topic.partitions = {index: Partition([1], [1], 1) for index in range(3)}
    broker = SimpleNamespace(
        config=BrokerConfig.load(None, {}),
        scheduler=ManualScheduler(),
        image=SimpleNamespace(topics={"t": topic}, topics_by_id={TOPIC_ID: topic}),
        groups=Refusing(code),
    )
    call = SimpleNamespace(
        api_version=version, client_id="c", client=ConnectedClient("127.0.0.1", 1, "L"), listener_name="L"
    )
    answer = module.handle(broker, request, call)
    if hasattr(answer, "send"):
        answer = at_once(answer)
    encode(answer, version)
    return answer


@pytest.mark.parametrize("code", AS_KAFKA_SAYS)
def test_members_get_the_answers_of_the_coordinator(code: int) -> None:
    expected = AS_KAFKA_SAYS[code]
    for version in range(10):
        answer = answered(join_group, joining("g", "m", version), version, code)
        assert (answer.error_code, answer.member_id, answer.generation_id) == (expected, "", -1)
        assert answer.protocol_name == (None if version >= 7 else "")
    for version in range(6):
        answer = answered(sync_group, syncing("g", "m", 1, version=version), version, code)
        assert (answer.error_code, answer.assignment) == (expected, b"")
        leaving = LeaveGroupRequest(group_id="g", member_id="m")
        if version >= 3:
            leaving = LeaveGroupRequest(group_id="g", members=[MemberIdentity(member_id="m")])
        assert answered(leave_group, leaving, version, code).error_code == expected
    for version in range(5):
        request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        # Who is alive need not worry while the coordinator loads.
        alive = NONE if code == COORDINATOR_LOAD_IN_PROGRESS else expected
        assert answered(heartbeat, request, version, code).error_code == alive


@pytest.mark.parametrize("code", AS_KAFKA_SAYS)
def test_administrators_get_the_answers_of_the_coordinator(code: int) -> None:
    expected = AS_KAFKA_SAYS[code]
    for version in range(7):
        described = answered(describe_groups, DescribeGroupsRequest(groups=["g", "h"]), version, code).groups
        assert [(each.group_id, each.error_code, each.members) for each in described] == [
            ("g", expected, []), ("h", expected, [])
        ]  # fmt: skip
    for version in range(3):
        deleted = answered(delete_groups, DeleteGroupsRequest(groups_names=["g", "h", "g"]), version, code).results
        assert [(each.group_id, each.error_code) for each in deleted] == [("g", expected), ("h", expected)]
    for version in range(6):
        listed = answered(list_groups, ListGroupsRequest(), version, code)
        # A shard that went a moment ago has no groups here.
        assert (listed.error_code, listed.groups) == (NONE if expected == NOT_COORDINATOR else expected, [])


@pytest.mark.parametrize("code", AS_KAFKA_SAYS)
def test_committing_and_forgetting_is_refused_for_all_that_was_asked(code: int) -> None:
    expected = AS_KAFKA_SAYS[code]
    for version in range(2, 11):
        topics = ("t", "unknown") if version < 10 else (TOPIC_ID, bytes(16))
        asked: dict[Any, Any] = {topic: [(0, 1, ""), (7, 1, "")] for topic in topics}
        answer = answered(offset_commit, committing("g", asked, version), version, code)
        assert [[(each.partition_index, each.error_code) for each in topic.partitions] for topic in answer.topics] == [
            [(0, expected), (7, expected)]
        ] * 2
    wanted = OffsetDeleteRequestTopic(name="t", partitions=[OffsetDeleteRequestPartition(partition_index=0)])
    answer = answered(offset_delete, OffsetDeleteRequest(group_id="g", topics=[wanted]), 0, code)
    assert (answer.error_code, answer.topics) == (expected, [])


@pytest.mark.parametrize("code", WHEN_FETCHING)
def test_fetching_is_refused_by_the_group_or_before_that_by_the_partition(code: int) -> None:
    expected = WHEN_FETCHING[code]
    first = answered(offset_fetch, fetching_one("g", {"t": [0, 5]}), 1, code)
    assert [(each.partition_index, each.committed_offset, each.error_code) for each in first.topics[0].partitions] == [
        (0, -1, expected), (5, -1, expected)
    ]  # fmt: skip
    for version in range(2, 8):
        answer = answered(offset_fetch, fetching_one("g", {"t": [0]}), version, code)
        assert (answer.error_code, answer.topics) == (expected, [])
    for version in range(8, 11):
        topic: Any = "t" if version < 10 else TOPIC_ID
        answer = answered(offset_fetch, fetching(("g", {topic: [0]}), ("h", None)), version, code)
        assert [(each.group_id, each.error_code, each.topics) for each in answer.groups] == [
            ("g", expected, []), ("h", expected, [])
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("host", "shown"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("fe80::1:a%eth0", "/fe80:0:0:0:0:0:1:a"),
        ("::ffff:10.0.0.7", "/10.0.0.7"),
    ],
)
def test_addresses_are_shown_as_java_shows_them(host: str, shown: str) -> None:
    assert java_address(host) == shown


def test_answers_are_gathered_in_the_order_of_the_request() -> None:
    first, third = Pending(), Pending()
    whole = gathered([first, "b", third], "".join)
    third.resolve("c")
    assert not whole.resolved
    first.resolve("a")
    assert (whole.resolved, whole.response) == (True, "abc")
    assert gathered(["a", "b"], "".join) == "ab"


def test_a_group_does_not_wait_for_a_client_that_disconnected() -> None:
    gone = []
    first, second = Pending(), Pending()
    for pending in (first, second):
        pending.when_cancelled(lambda pending=pending: gone.append(pending))  # type: ignore[misc]
    gathered([first, second], list).cancel()
    assert gone == [first, second]
