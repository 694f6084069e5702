"""The first question for a coordinator waits for the topic that coordinators live in, and not for long."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from running_node import RunningNode, start

from kpybroker.requests.serving.expected_topics import PATIENCE_MS, ExpectedTopics
from kpybroker.runtime.io.scheduler import ManualScheduler
from kpywire import error_codes
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from support.raw_client import RawClient


def test_each_waiting_request_is_called_once_when_the_topic_is_created() -> None:
    scheduler = ManualScheduler()
    expected = ExpectedTopics(scheduler)
    called: list[str] = []
    assert expected.expect("t", lambda: called.append("first"))
    assert not expected.expect("t", lambda: called.append("second"))
    assert expected.expect("u", lambda: called.append("other"))
    expected.look({"v"})
    scheduler.run()
    assert not called
    expected.look({"t", "v"})
    expected.look({"t", "v"})
    scheduler.run()
    assert called == ["first", "second"]


def test_waiting_for_a_topic_ends_before_the_clients_timeout() -> None:
    scheduler = ManualScheduler()
    expected = ExpectedTopics(scheduler)
    called: list[int] = []
    assert expected.expect("t", lambda: called.append(1))
    expected.give_up("t")
    scheduler.run()
    assert called == [1]
    scheduler.advance(int(PATIENCE_MS) - 1)
    assert expected.expect("t", lambda: called.append(2))
    scheduler.advance(1)
    assert called == [1]
    scheduler.advance(int(PATIENCE_MS) - 1)
    assert called == [1, 2]
    assert expected.expect("t", lambda: called.append(3))


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    running = start(tmp_path)
    yield running
    running.stop()


@pytest.mark.parametrize("version", [3, 6])
def test_the_first_question_is_answered_with_a_coordinator(node: RunningNode, version: int) -> None:
    with RawClient(node.port) as client, RawClient(node.port) as other:
        request = FindCoordinatorRequest(key="g", key_type=0, coordinator_keys=["g"])
        if version >= 4:
            request.key = ""
        else:
            request.coordinator_keys = []
        client.send(request, version)
        other.send(request, version)
        for each in (client, other):
            answer = each.receive(10, version)
            found = answer.coordinators[0] if version >= 4 else answer
            assert (found.error_code, found.port) == (error_codes.NONE, node.port)


def test_a_request_with_many_keys_is_retried_by_its_client(node: RunningNode) -> None:
    request = FindCoordinatorRequest(key_type=0, coordinator_keys=[f"g{n}" for n in range(101)])
    with RawClient(node.port) as client:
        first = client.call(request, 6)
        assert {found.error_code for found in first.coordinators} == {error_codes.COORDINATOR_NOT_AVAILABLE}
        one = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
        assert one.coordinators[0].error_code == error_codes.NONE
        again = client.call(request, 6)
        assert {found.error_code for found in again.coordinators} == {error_codes.NONE}


def test_a_topic_that_cannot_be_created_is_reported_at_once(tmp_path: Path) -> None:
    node = start(tmp_path, offsets_topic_replication_factor="3")
    try:
        with RawClient(node.port) as client:
            for _ in range(3):
                answer = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["g"]), 6)
                assert answer.coordinators[0].error_code == error_codes.COORDINATOR_NOT_AVAILABLE
    finally:
        node.stop()
