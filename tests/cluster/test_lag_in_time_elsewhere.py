"""The lag in time of groups in partitions that the other node leads: it is asked, seldom, and named if it is silent."""

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from time import time
from typing import Any

import confluent_kafka
import pytest
from running_cluster import COMBINED, RunningCluster, cluster_of
from test_console_of_two_nodes import SETTINGS, create, get, page, post

from kpybroker.client.asyncio_connection import AsyncioConnection
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console import overviews
from kpybroker.monitoring.console.answers import fetched_times, lag_times, log_offsets
from kpybroker.monitoring.console.elsewhere import Elsewhere
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.console.viewer_ways import ViewerWay, ViewerWays
from kpybroker.monitoring.history import recorder
from kpywire import error_codes
from kpywire.messages.fetch import FetchRequest
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.list_offsets import ListOffsetsRequest
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.waiting import eventually

NOW_MS = int(time() * 1000)
HOUR_S = 3_600
LEADER = 2
"""The node that leads all topics but one."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("nodes")
    with cluster_of(directory, [COMBINED, "broker"], SETTINGS) as running:
        yield running
        assert running.failures == []


@pytest.fixture(autouse=True)
def _made_for_each_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """The list of groups is made again for each look."""
    monkeypatch.setattr(overviews, "FRESH", 0)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The requests of consoles for records and for offsets."""
    found: list[Any] = []
    call = AsyncioConnection.call

    async def noted(connection: AsyncioConnection, request: Any) -> Any:
        if isinstance(request, FetchRequest | ListOffsetsRequest):
            found.append(request)
        return await call(connection, request)

    monkeypatch.setattr(AsyncioConnection, "call", noted)
    return found


def produce(cluster: RunningCluster, topic: str, hours_ago: int, value: bytes = b"v", leader: int = LEADER) -> None:
    """Append a batch of one record of this age."""
    records = build_batch([Record(timestamp=NOW_MS - hours_ago * HOUR_S * 1000, value=value)])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=records)])]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
    with RawClient(cluster.ports[leader][0]) as client:
        eventually(lambda: client.call(request, 9).responses[0].partition_responses[0].error_code == 0, "a record")


def commit(cluster: RunningCluster, group: str, positions: Mapping[str, int]) -> int:
    """Commit positions. Returns the coordinator."""
    topics = [
        OffsetCommitRequestTopic(
            name=topic,
            partitions=[
                OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="")
            ],
        )
        for topic, offset in positions.items()
    ]
    find = FindCoordinatorRequest(key=group, key_type=0)
    with RawClient(cluster.ports[1][0]) as client:
        eventually(lambda: client.call(find, 3).port > 0, "a coordinator")
        found = client.call(find, 3)
    with RawClient(found.port) as client:
        request = OffsetCommitRequest(group_id=group, member_id="", topics=topics)
        eventually(lambda: client.call(request, 2).topics[0].partitions[0].error_code == 0, "a commit")
    node_id: int = found.node_id
    return node_id


def hours(seconds: float | None) -> int | None:
    """The whole hours of a lag, which is older than the records by the time that the test takes."""
    return None if seconds is None else int(seconds // HOUR_S)


def shown(cluster: RunningCluster, node_id: int, group: str) -> dict[str, int | None]:
    """The lag of a group in hours, by topic, on its page and in the list, which has to say the same."""
    _, found = get(cluster, node_id, "/group", id=group)
    listed = next(each for each in get(cluster, node_id, "/groups", q=group)[1]["groups"] if each["id"] == group)
    assert (hours(listed["lag_s"]), listed["untimed"]) == (hours(found["lag_s"]), found["untimed"])
    return {each["topic"]: hours(each["lag_s"]) for each in found["positions"]}


def test_every_node_shows_the_lag_in_time_of_every_group(cluster: RunningCluster) -> None:
    for topic in ("first", "second"):
        create(cluster, topic, [LEADER])
        for hours_ago in (5, 4, 3):
            produce(cluster, topic, hours_ago)
    commit(cluster, "both", {"first": 0, "second": 2})
    commit(cluster, "nearer", {"first": 1})
    commit(cluster, "done", {"first": 3})
    for node_id in (1, LEADER):
        assert shown(cluster, node_id, "both") == {"first": 5, "second": 3}
        assert shown(cluster, node_id, "nearer") == {"first": 4}
        assert shown(cluster, node_id, "done") == {"first": 0}
        _, by_time = get(cluster, node_id, "/groups", sort="-time")
        order = [each["id"] for each in by_time["groups"] if each["id"] in ("both", "nearer", "done")]
        assert order == ["both", "nearer", "done"]
        assert by_time["silent_nodes"] == []
        assert "without" not in page(cluster, node_id, "/group?id=both")


def test_a_leader_is_asked_once_for_all_its_partitions_and_not_again(cluster: RunningCluster, asked: list[Any]) -> None:
    topics = [f"many-{number}" for number in range(5)]
    for topic in topics:
        create(cluster, topic, [LEADER])
        produce(cluster, topic, 2)
    commit(cluster, "many", dict.fromkeys(topics, 0))
    asked.clear()
    for fetches in (1, 0):
        assert shown(cluster, 1, "many") == dict.fromkeys(topics, 2)
        assert len([each for each in asked if isinstance(each, FetchRequest)]) == fetches
        asked.clear()


def test_batches_that_no_answer_has_room_for_together_are_asked_for_one_after_the_other(
    cluster: RunningCluster, asked: list[Any]
) -> None:
    topics = [f"large-{number}" for number in range(3)]
    for number, topic in enumerate(topics):
        create(cluster, topic, [LEADER])
        produce(cluster, topic, number + 1, bytes(900_000))
    commit(cluster, "large", dict.fromkeys(topics, 0))
    assert shown(cluster, 1, "large") == {topic: number + 1 for number, topic in enumerate(topics)}
    assert len([each for each in asked if isinstance(each, FetchRequest)]) == len(topics)


def test_positions_of_several_groups_in_one_partition_are_found_in_one_answer(
    cluster: RunningCluster, asked: list[Any]
) -> None:
    create(cluster, "shared", [LEADER])
    for hours_ago in (9, 8, 7, 6, 5):
        produce(cluster, "shared", hours_ago)
    for offset in (3, 0, 4, 1, 1):
        commit(cluster, f"shared-{offset}", {"shared": offset})
    asked.clear()
    _, found = get(cluster, 1, "/groups", q="shared-")
    assert {each["id"]: hours(each["lag_s"]) for each in found["groups"]} == {
        "shared-0": 9,
        "shared-1": 8,
        "shared-3": 6,
        "shared-4": 5,
    }
    assert len([each for each in asked if isinstance(each, FetchRequest)]) == 1


def test_a_look_asks_a_bounded_number_of_times_and_the_next_one_goes_on(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = [f"wide-{number}" for number in range(4)]
    for topic in topics:
        create(cluster, topic, [LEADER])
        produce(cluster, topic, 3, bytes(900_000))
    commit(cluster, "wide", dict.fromkeys(topics, 0))
    monkeypatch.setattr(fetched_times, "MOST_REQUESTS", 1)
    monkeypatch.setattr(lag_times, "MOST_ASKED", 2)
    enough = f"node {LEADER}: it was asked for enough at once; the next look asks for more"
    for untimed, lines in (
        (3, [enough, "the next look asks for 2 more positions"]),
        (2, [enough, "the next look asks for 1 more position"]),
        (1, [enough]),
        (0, []),
    ):
        _, found = get(cluster, 1, "/group", id="wide")
        assert (found["untimed"], found["silent_nodes"]) == (untimed, lines)


def test_a_position_below_the_log_waits_for_its_first_record(cluster: RunningCluster, asked: list[Any]) -> None:
    create(cluster, "cut", [LEADER])
    for hours_ago in (9, 8, 7):
        produce(cluster, "cut", hours_ago)
    commit(cluster, "late", {"cut": 0})
    assert post(cluster, 1, "/topics/cut/records/delete", before="2")[0] == 200
    asked.clear()
    assert shown(cluster, 1, "late") == {"cut": 7}
    assert len([each for each in asked if isinstance(each, FetchRequest)]) == 2


def test_where_all_records_are_deleted_there_is_no_time_until_one_comes(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overviews, "MOST_TIMES", -1)  # so that nothing is kept of what leaders have told
    create(cluster, "emptied", [LEADER])
    produce(cluster, "emptied", 9)
    commit(cluster, "waiting", {"emptied": 0})
    for node_id in (1, LEADER):
        assert shown(cluster, node_id, "waiting") == {"emptied": 9}
    assert post(cluster, 1, "/topics/emptied/records/delete", before="all")[0] == 200
    for node_id in (1, LEADER):
        _, found = get(cluster, node_id, "/group", id="waiting")
        assert (found["lag_s"], found["untimed"], found["silent_nodes"]) == (None, 0, [])
    produce(cluster, "emptied", 2)
    for node_id in (1, LEADER):
        assert shown(cluster, node_id, "waiting") == {"emptied": 2}


def test_partitions_without_a_leader_are_named(cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [f"leaderless-{number}" for number in range(3)]
    for topic in topics:
        create(cluster, topic, [LEADER])
    commit(cluster, "left", dict.fromkeys(topics, 0))
    leader_id = log_offsets.leader_id

    def without(node: NodeParts, spot: tuple[str, int]) -> int:
        return -1 if spot[0] in topics else leader_id(node, spot)

    monkeypatch.setattr(log_offsets, "leader_id", without)
    for left, line in ((3, "leaderless-0-0 and 2 other partitions have"), (1, "leaderless-0-0 has")):
        del topics[left:]
        for path, query in (("/groups", {}), ("/group", {"id": "left"})):
            assert get(cluster, 1, path, **query)[1]["silent_nodes"] == [f"{line} no leader"]
        for node_id in (1, LEADER):
            assert get(cluster, node_id, "/group", id="left")[1]["unknown"] == (0 if node_id == LEADER else left)
            listed = next(each for each in get(cluster, node_id, "/groups")[1]["groups"] if each["id"] == "left")
            assert listed["unknown"] == (0 if node_id == LEADER else left)


def test_topics_that_the_viewer_may_not_read_are_named_and_not_asked_for(
    cluster: RunningCluster, asked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = ["hidden-a", "hidden-b", "open"]
    for topic in topics:
        create(cluster, topic, [LEADER])
        produce(cluster, topic, 2)
    commit(cluster, "curious", dict.fromkeys(topics, 0))
    asked.clear()
    monkeypatch.setattr(lag_times, "may_read", lambda _, topic: not topic.startswith("hidden"))
    assert shown(cluster, 1, "curious") == {"hidden-a": None, "hidden-b": None, "open": 2}
    _, found = get(cluster, 1, "/group", id="curious")
    line = "User:ANONYMOUS lacks READ on topic hidden-a and 1 other topic"
    assert (found["untimed"], found["silent_nodes"]) == (2, [line])
    fetches = [each for each in asked if isinstance(each, FetchRequest)]
    assert {topic.topic for each in fetches for topic in each.topics} == {"open"}


def test_a_record_without_a_time_leaves_nothing_to_ask(cluster: RunningCluster) -> None:
    create(cluster, "timeless", [LEADER])
    records = build_batch([Record(timestamp=-1, value=b"v")])
    data = [TopicProduceData(name="timeless", partition_data=[PartitionProduceData(index=0, records=records)])]
    with RawClient(cluster.ports[LEADER][0]) as client:
        client.call(ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data), 9)
    commit(cluster, "reader", {"timeless": 0})
    _, found = get(cluster, 1, "/group", id="reader")
    assert (found["lag"], found["lag_s"], found["untimed"], found["silent_nodes"]) == (1, None, 0, [])


def test_a_leader_that_hangs_is_named_and_the_others_are_shown(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "here", [1])
    produce(cluster, "here", 6, leader=1)
    create(cluster, "there", [LEADER])
    produce(cluster, "there", 7)
    commit(cluster, "mixed", {"here": 0, "there": 0})
    to = ViewerWays.to
    with socket.create_server(("127.0.0.1", 0)) as silent, monkeypatch.context() as patch:

        async def to_silence(ways: ViewerWays, viewer: Viewer, node_id: int) -> ViewerWay:
            if asking_for_times:
                return ViewerWay(*silent.getsockname(), None)
            return await to(ways, viewer, node_id)

        asking_for_times: list[bool] = []
        ask = fetched_times._ask

        async def only_times(*arguments: Any) -> None:
            asking_for_times.append(True)
            await ask(*arguments)
            asking_for_times.clear()

        patch.setattr(ViewerWays, "to", to_silence)
        patch.setattr(fetched_times, "_ask", only_times)
        patch.setattr(fetched_times, "PATIENCE_S", 0.2)
        assert shown(cluster, 1, "mixed") == {"here": 6, "there": None}
        line = f"node {LEADER}: it does not answer in time"
        _, found = get(cluster, 1, "/group", id="mixed")
        assert (hours(found["lag_s"]), found["untimed"], found["silent_nodes"]) == (6, 1, [line])
        assert get(cluster, 1, "/groups")[1]["silent_nodes"] == [line]
        for path in ("/group?id=mixed", "/groups"):
            text = page(cluster, 1, path)
            assert f"Some lags are missing: {line}" in text
            assert "without 1 partition<" in text
    assert shown(cluster, 1, "mixed") == {"here": 6, "there": 7}


def test_an_empty_partition_of_another_leader_has_no_lag_without_a_commit(cluster: RunningCluster) -> None:
    topics = {"empty-far": LEADER, "empty-near": 1, "written": 1}
    for topic, leader in topics.items():
        create(cluster, topic, [leader])
    produce(cluster, "written", 1, leader=1)
    settings = {"group.id": "members", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    servers = f"127.0.0.1:{cluster.ports[1][0]}"
    consumer = confluent_kafka.Consumer({"bootstrap.servers": servers, **settings})
    consumer.subscribe(list(topics))
    first = consumer.poll(60)
    assert first is not None
    assert not first.error()
    consumer.commit(first, asynchronous=False)
    for node_id in (1, LEADER):
        found = get(cluster, node_id, "/group", id="members")[1]
        assert {each["topic"]: each["lag"] for each in found["positions"]} == dict.fromkeys(topics, 0)
        assert (found["lag"], found["unknown"], found["verdict"]) == (0, 0, "It has read everything.")
        (listed,) = get(cluster, node_id, "/groups", q="members")[1]["groups"]
        assert (listed["lag"], listed["unknown"], listed["verdict"]) == (0, 0, "It has read everything.")
    consumer.close()


def test_the_page_of_a_group_counts_the_partitions_that_its_plots_are_without(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "FINE_MS", 500)
    for topic, leader in (("near", 1), ("far", LEADER)):
        create(cluster, topic, [leader])
        produce(cluster, topic, 2, leader=leader)
    here = commit(cluster, "any", {"near": 0})
    assert commit(cluster, "apart", {"far" if here == 1 else "near": 0}) == here
    assert commit(cluster, "spread", {"near": 0, "far": 0}) == here
    eventually(lambda: get(cluster, here, "/group", id="spread")[1]["unplotted"] == 1, "a sample of both groups", 60)
    assert "The plots are without 1 partition that other nodes lead" in page(cluster, here, "/group?id=spread")
    found = get(cluster, here, "/group", id="apart")[1]
    assert found["unplotted"] == 0
    assert set(found["history"]["plots"][0]["lines"][0]["values"]) - {None} == {1.0}


def test_a_leader_that_does_not_tell_the_ends_is_named(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(cluster, "endless", [LEADER])
    commit(cluster, "unsure", {"endless": 0})

    ask = Elsewhere.ask

    async def without_offsets(elsewhere: Elsewhere, viewer: Viewer, node_id: int, request: Any) -> Any:
        if isinstance(request, ListOffsetsRequest):
            raise KafkaError(error_codes.REQUEST_TIMED_OUT, "it does not answer")
        return await ask(elsewhere, viewer, node_id, request)

    monkeypatch.setattr(Elsewhere, "ask", without_offsets)
    for path, query in (("/groups", {}), ("/group", {"id": "unsure"})):
        _, found = get(cluster, 1, path, **query)
        assert found["silent_nodes"] == [f"node {LEADER}: it does not answer"]
