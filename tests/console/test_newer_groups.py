"""Share groups and streams groups in the console: their stories, and why they are stuck."""

from collections.abc import Iterator
from time import time
from typing import Any

import pytest
from console_node import ConsoleNode, console_node
from stage import flight

from kpywire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.streams_group_heartbeat import Topology
from kpywire.record import Record
from support.raw_client import RawClient
from support.share_group_requests import acknowledging, acquiring, sharing
from support.streams_requests import describing, source_of, streaming
from support.waiting import eventually

RELEASE = 2
TOPIC = "flights"


@pytest.fixture(scope="module")
def node() -> Iterator[ConsoleNode]:
    settings = {
        "group_share_record_lock_duration_ms": "60000",
        "share_coordinator_state_topic_num_partitions": "1",
        "group_streams_initial_rebalance_delay_ms": "0",
    }
    with console_node(**settings) as made:
        made.create(TOPIC, 1)
        made.produce(TOPIC, [flight(number) for number in range(4)])
        yield made


def page_of(node: ConsoleNode, group: str) -> Any:
    reply = node.get("/api/group", id=group)
    assert reply.status == 200, reply.text
    assert node.get("/group", id=group).status == 200
    return reply.json


def shown(page: Any) -> list[str]:
    return [each["text"] for each in reversed(page["story"])]


def test_a_share_group_shows_the_holder_of_each_record_and_repeated_deliveries(node: ConsoleNode) -> None:
    topic_id = node.node.image.topics[TOPIC].id
    with RawClient(node.node.ports["PLAINTEXT"], client_id="ann") as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["sharers"]), 6)
        eventually(lambda: client.call(sharing("sharers", "m", 0, [TOPIC]), 1).error_code == 0, "a member")
        eventually(
            lambda: client.call(sharing("sharers", "m", 0, [TOPIC]), 1).assignment.topic_partitions, "its partition"
        )
        epoch = 0
        client.call(acquiring("sharers", "m", epoch, topic_id), 2)
        node.produce(TOPIC, [flight(number) for number in range(4)])

        def acquired() -> bool:
            nonlocal epoch
            epoch += 1
            answer = client.call(acquiring("sharers", "m", epoch), 2)
            return any(part.acquired_records for each in answer.responses for part in each.partitions)

        eventually(acquired, "records")
        page = page_of(node, "sharers")
        (share,) = page["shares"]
        assert (share["topic"], share["partition"], share["locked"] > 0) == (TOPIC, 0, True)
        assert share["holder"] == "ann at 127.0.0.1"
        assert 0 <= share["held_s"] <= 60
        assert page["lag"] == share["unread"] > 0
        assert [each["silent_s"] is not None for each in page["members"]] == [True]
        assert shown(page)[0] == "ann at 127.0.0.1 joined"
        assert any(each.startswith("assignment of epoch ") for each in shown(page))
        held = share["held_offset"]
        for _ in range(2):
            epoch += 1
            client.call(acknowledging("sharers", "m", epoch, topic_id, (held, held, [RELEASE])), 2)
            eventually(acquired, "the record again")
        client.call(sharing("sharers", "m", 0, [TOPIC]), 1)  # or it is silent on a slow machine
        page = page_of(node, "sharers")
        assert page["is_stuck"]
        assert page["verdict"].startswith(f"Record {held} of {TOPIC}-0 was delivered 3 times of at most 5")
        client.call(sharing("sharers", "m", -1), 1)
        page = page_of(node, "sharers")
        assert shown(page)[-1] == "ann at 127.0.0.1 left"
        assert page["members"] == []


def test_a_streams_group_tells_its_tasks_and_what_they_wait_for(node: ConsoleNode) -> None:
    with RawClient(node.node.ports["PLAINTEXT"], client_id="app") as client:
        client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=["waiting"]), 6)
        missing = Topology(epoch=0, subtopologies=[source_of("0", "nowhere")])
        eventually(lambda: client.call(streaming("waiting", "m", 0, topology=missing), 0).error_code == 0, "a member")
        assert page_of(node, "waiting")["verdict"].startswith("It has no tasks: the next heartbeat")
        client.call(streaming("waiting", "m", 2), 0)
        page = page_of(node, "waiting")
        assert (page["type"], page["is_stuck"]) == ("streams", True)
        assert page["verdict"] == "It has no tasks: Source topics nowhere are missing."
        reading = Topology(epoch=0, subtopologies=[source_of("0", TOPIC)])
        first = client.call(streaming("reading", "one", 0, topology=reading), 0)
        assert first.error_code == 0, first.error_message
        page = page_of(node, "reading")
        assert [each["assigned"] for each in page["members"]] == [["task 0_0"]]
        assert shown(page) == ["app at 127.0.0.1 joined", "assignment of epoch 2, members: 1"]
        assert (page["topology"], page["topology_absence"]) == ([], "no member has described the topology")
        assert client.call(describing("reading", "one"), 0).error_code == 0
        rows = page_of(node, "reading")["topology"]
        assert [(each["name"], each["kind"], each["successors"]) for each in rows] == [
            ("source", "source", ["sum"]),
            ("sum", "processor", ["sink"]),
            ("sink", "sink", []),
        ]
        assert [each["stores"] for each in rows] == [[], ["totals"], []]
        assert "totals" in node.get("/group", id="reading").text
        assert client.call(streaming("reading", "one", 9), 0).error_code != 0
        assert (
            shown(page_of(node, "reading"))[-1] == "app at 127.0.0.1 is at another epoch and has to join again: epoch 9"
        )
        assert client.call(streaming("reading", "one", -1), 0).error_code == 0
        assert shown(page_of(node, "reading"))[-1] == "app at 127.0.0.1 left"


def test_a_reader_without_a_group_has_a_lag_in_records_and_in_time(node: ConsoleNode) -> None:
    node.create("read-alone")
    old_ms = int(time() * 1000) - 3_600_000
    for number in range(3):
        node.produce("read-alone", [Record(timestamp=old_ms, value=b"%d" % number)])
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=0,
        max_bytes=1,
        isolation_level=0,
        session_id=0,
        session_epoch=0,
        topics=[FetchTopic(topic="read-alone", partitions=[wanted])],
        forgotten_topics_data=[],
    )
    with RawClient(node.node.ports["PLAINTEXT"], client_id="spark-kafka-source-1") as client:
        client.call(request, 12)
        (reader,) = [each for each in node.get("/api/groups").json["readers"] if each["name"] == client.client_id]
        assert "Lag in time" in node.get("/groups").text
    assert (reader["partitions"], reader["lag"]) == (1, 3), "it begins where its last fetch did"
    assert reader["lag_s"] >= 3_600
