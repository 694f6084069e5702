"""The console of one node of two: what it knows of the other, what it asks it, and how it says that it is gone."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from time import time
from typing import Any
from urllib.parse import urlencode

import pytest
from running_cluster import COMBINED, RunningCluster, cluster_of

from kpybroker.monitoring.console.asking import Asking
from kpybroker.monitoring.console.viewer import Viewer
from kpywire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kpywire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kpywire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kpywire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kpywire.record import Record, build_batch
from support.raw_client import RawClient
from support.waiting import eventually

SETTINGS = {
    "kpybroker.http.listener": "127.0.0.1:0",
    "kpybroker.console.write.enable": "true",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
}
ELSEWHERE = "elsewhere"
NOW_MS = int(time() * 1000)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("nodes")
    with cluster_of(directory, [COMBINED, "broker"], SETTINGS) as running:
        create(running, ELSEWHERE, [2])
        create(running, "everywhere", [1, 2])
        running.wait_for_isr("everywhere", 2)
        produce(running, 2, ELSEWHERE)
        yield running


def create(cluster: RunningCluster, topic: str, replicas: list[int]) -> None:
    assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=replicas)]
    wanted = CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1, assignments=assignments, configs=[])
    with RawClient(cluster.ports[1][0]) as client:
        (answer,) = client.call(CreateTopicsRequest(topics=[wanted], timeout_ms=10_000), 5).topics
    assert answer.error_code == 0, answer
    cluster.eventually(lambda: all(topic in node.image.topics for node in cluster.nodes.values()), topic)


def produce(cluster: RunningCluster, node_id: int, topic: str, value: bytes | None = None) -> None:
    values = [b"v%d" % n for n in range(10)] if value is None else [value]
    batch = build_batch([Record(timestamp=NOW_MS + n, value=each) for n, each in enumerate(values)])
    data = [TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])]
    request = ProduceRequest(acks=-1, timeout_ms=10_000, topic_data=data)
    with RawClient(cluster.ports[node_id][0]) as client:
        eventually(
            lambda: client.call(request, 9).responses[0].partition_responses[0].error_code == 0, "records of a topic"
        )


def get(cluster: RunningCluster, node_id: int, path: str, **query: object) -> tuple[int, Any]:
    return ask(cluster, node_id, "GET", f"/api{path}?{urlencode(query)}")


def post(cluster: RunningCluster, node_id: int, path: str, **values: object) -> tuple[int, Any]:
    return ask(cluster, node_id, "POST", f"/api{path}", json.dumps(values))


def ask(cluster: RunningCluster, node_id: int, method: str, path: str, body: str | None = None) -> tuple[int, Any]:
    port = cluster.nodes[node_id].http_port
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body, {} if body is None else {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    return answer.status, found


def values(found: Any) -> list[str]:
    return [record["value"]["text"] for record in found["records"]]


@pytest.mark.parametrize(
    ("query", "wanted"),
    [
        ({}, ["v9", "v8", "v7"]),
        ({"start": "oldest"}, ["v0", "v1", "v2"]),
        ({"start": "offset", "offset": 4}, ["v4", "v5", "v6"]),
        ({"start": "time", "time": NOW_MS + 7}, ["v7", "v8", "v9"]),
        ({"start": "time", "time": NOW_MS + 70}, []),
        ({"start": "oldest", "committed": 1}, ["v0", "v1", "v2"]),
    ],
)
def test_records_of_another_node_are_fetched_as_a_client_does(
    cluster: RunningCluster, query: dict[str, Any], wanted: list[str]
) -> None:
    for node_id in (1, 2):
        status, found = get(cluster, node_id, "/records", topic=ELSEWHERE, most=3, **query)
        assert (status, values(found), found["gaps"], found["elsewhere"]) == (200, wanted, [], [])


def test_a_node_without_a_replica_names_the_node_to_open(cluster: RunningCluster) -> None:
    status, found = get(cluster, 1, f"/topics/{ELSEWHERE}/0")
    assert (status, "open the console of node 2" in found["error"]) == (421, True)


def test_the_contents_of_a_partition_elsewhere_are_asked_of_its_leader(cluster: RunningCluster) -> None:
    found = [get(cluster, node_id, f"/topics/{ELSEWHERE}")[1] for node_id in (1, 2)]
    (there,), (here,) = (each["partitions"] for each in found)
    assert (there["leader"], there["is_here"], here["is_here"]) == (2, False, True)
    for name in ("start_offset", "end_offset", "bytes"):
        assert there[name] == here[name], name
    assert (there["start_offset"], there["end_offset"]) == (0, 10)
    for each in found:
        assert (each["known_partitions"], each["records"], each["silent_nodes"]) == (1, 10, [])
        assert each["bytes"] == here["bytes"] > 0
    listed = {each["name"]: each for each in get(cluster, 1, "/topics")[1]["topics"]}
    assert [listed[name]["local_partitions"] for name in (ELSEWHERE, "everywhere")] == [0, 1]
    assert listed[ELSEWHERE]["records_in_per_s"] is None


def test_both_nodes_list_the_groups_of_the_cluster(cluster: RunningCluster) -> None:
    spot = OffsetCommitRequestPartition(partition_index=0, committed_offset=3, committed_metadata="")
    topics = [OffsetCommitRequestTopic(name=ELSEWHERE, partitions=[spot])]
    with RawClient(cluster.ports[1][0]) as client:
        answer = client.call(FindCoordinatorRequest(key="g", key_type=0), 3)
        eventually(lambda: client.call(FindCoordinatorRequest(key="g", key_type=0), 3).port > 0, "a coordinator")
        answer = client.call(FindCoordinatorRequest(key="g", key_type=0), 3)
    with RawClient(answer.port) as coordinator:
        request = OffsetCommitRequest(group_id="g", member_id="", topics=topics)
        eventually(lambda: coordinator.call(request, 2).topics[0].partitions[0].error_code == 0, "a commit")
    for node_id in (1, 2):
        _, found = get(cluster, node_id, "/groups")
        assert [(each["id"], each["node"]) for each in found["groups"]] == [("g", answer.node_id)]
        assert found["unreachable"] == []


def test_a_group_of_another_node_is_shown_with_the_way_to_its_console(cluster: RunningCluster) -> None:
    coordinator = next(each["node"] for each in get(cluster, 1, "/groups")[1]["groups"] if each["id"] == "g")
    other = 3 - coordinator
    _, there = get(cluster, coordinator, "/group", id="g")
    status, here = get(cluster, other, "/group", id="g")
    assert status == 200
    assert (there["is_here"], there["console"], here["is_here"], here["node"]) == (True, None, False, coordinator)
    assert here["console"] == f"http://127.0.0.1:{cluster.nodes[coordinator].http_port}/"
    for name in ("topic", "partition", "committed", "end_offset", "lag", "member"):
        assert [each[name] for each in here["positions"]] == [each[name] for each in there["positions"]], name
    assert (here["lag"], here["verdict"], here["is_stuck"]) == (there["lag"], there["verdict"], there["is_stuck"])
    assert (here["may_reset"], here["may_delete"]) == (False, False)
    assert f'coordinates this group: <a href="{here["console"]}group?id=g"' in page(cluster, other, "/group?id=g")
    status, found = get(cluster, other, "/group", id="not-there")
    assert (status, "GROUP_ID_NOT_FOUND" in found["error"]) == (404, True)


def test_a_change_of_a_group_leads_to_the_console_of_its_coordinator(cluster: RunningCluster) -> None:
    coordinator = next(each["node"] for each in get(cluster, 1, "/groups")[1]["groups"] if each["id"] == "g")
    other = 3 - coordinator
    line = f"NOT_COORDINATOR: node {coordinator} coordinates it; change it on the console of node {coordinator}"
    url = f"http://127.0.0.1:{cluster.nodes[coordinator].http_port}"
    link = f'<a href="{url}/group?id=g" rel="noreferrer">Open that console</a>'
    for path, values in (
        ("/group/members/remove", {}),
        ("/group/positions/delete", {"topic": ELSEWHERE}),
        ("/group/delete", {"typed": "g"}),
        ("/group/reset", {"plan": f"{ELSEWHERE},0,1"}),
    ):
        status, found = post(cluster, other, path, id="g", **values)
        assert (status, line in found["error"]) == (421, True), path
        text = page(cluster, other, path, id="g", **values)
        assert line in text, path
        assert link in text, path
    assert link in page(cluster, other, "/group/reset?id=g")
    partition = f"/topics/{ELSEWHERE}/0"
    assert f'<a href="http://127.0.0.1:{cluster.nodes[2].http_port}{partition}"' in page(cluster, 1, partition)


def test_a_change_that_the_controller_makes_leads_to_its_console(
    cluster: RunningCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = Asking.__call__

    async def without_forwarding(asking: Asking, viewer: Viewer, request: Any) -> Any:
        if isinstance(request, CreateTopicsRequest):
            asking._must_be_controller()  # as in ZooKeeper mode
        return await call(asking, viewer, request)

    monkeypatch.setattr(Asking, "__call__", without_forwarding)
    text = page(cluster, 2, "/topics", name="new", partitions="1")
    assert "NOT_CONTROLLER: node 1 is the controller; make it on the console of node 1" in text
    url = f"http://127.0.0.1:{cluster.nodes[1].http_port}/"
    assert f'<a href="{url}" rel="noreferrer">Open that console</a>' in text


def page(cluster: RunningCluster, node_id: int, path: str, **form: str) -> str:
    """A page, or the answer to a form."""
    port = cluster.nodes[node_id].http_port
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    if form:
        token = page(cluster, node_id, "/topics").partition('name="token" value="')[2].partition('"')[0]
        kind = {"Content-Type": "application/x-www-form-urlencoded"}
        connection.request("POST", path, urlencode({"token": token, **form}), kind)
    else:
        connection.request("GET", path)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


def test_records_of_a_partition_elsewhere_are_deleted_by_its_leader(cluster: RunningCluster) -> None:
    def offsets() -> tuple[int, int]:
        (row,) = get(cluster, 2, f"/topics/{ELSEWHERE}")[1]["partitions"]
        return row["start_offset"], row["end_offset"]

    address = f"/topics/{ELSEWHERE}/records/delete"
    status, found = post(cluster, 1, address, before="11")
    assert (status, f"{ELSEWHERE}-0: OFFSET_OUT_OF_RANGE" in found["error"]) == (400, True)
    assert post(cluster, 1, address, before="4") == (200, {"see": f"/topics/{ELSEWHERE}"})
    assert offsets() == (4, 10)
    assert post(cluster, 1, address, before="all")[0] == 200
    assert offsets() == (10, 10)


def test_what_a_node_changes_is_on_its_next_page(cluster: RunningCluster) -> None:
    for node_id in (1, 2):
        name = f"brief-{node_id}"
        for path, values in (
            ("/topics", {"name": name, "partitions": 2}),
            (f"/topics/{name}/partitions", {"count": 3}),
            (f"/topics/{name}/delete", {"confirm": name}),
        ):
            status, found = post(cluster, node_id, path, **values)
            assert status == 200, found
            status, page = get(cluster, node_id, found["see"])
            assert status == 200
            if "partitions" in page:
                assert len(page["partitions"]) == values.get("count", 2)
            else:
                assert name not in [each["name"] for each in page["topics"]]


def test_each_node_shows_all_nodes_with_their_consoles_and_log_directories(cluster: RunningCluster) -> None:
    for here, there in ((1, 2), (2, 1)):
        _, found = get(cluster, here, "/cluster")
        nodes = {each["id"]: each for each in found["nodes"]}
        assert nodes[there]["console"] == f"http://127.0.0.1:{cluster.nodes[there].http_port}/"
        assert (nodes[here]["console"], nodes[here]["console_note"]) == (None, "")
        disks = {each["node"]: each for each in found["disks"]}
        assert disks.keys() == {1, 2}
        assert disks[there]["path"] == str(cluster.config(there).log_dirs[0])
        assert disks[there]["total_bytes"] == disks[here]["total_bytes"]
        assert (disks[there]["state"], disks[there]["logs"]) == ("working", None)


def test_a_move_is_shown_with_what_is_left_until_it_is_cancelled(cluster: RunningCluster) -> None:
    create(cluster, "wandering", [2])
    for _ in range(4):  # a follower gets at least one batch, however small its share is
        produce(cluster, 2, "wandering", b"x" * 900_000)
    throttle = [
        (4, "", "follower.replication.throttled.rate", "1000"),
        (2, "wandering", "follower.replication.throttled.replicas", "*"),
    ]
    for kind, name, config, value in throttle:
        alter(cluster, kind, name, config, value)
    part = ReassignablePartition(partition_index=0, replicas=[1])
    with RawClient(cluster.ports[1][0]) as client:
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="wandering", partitions=[part])])
        answer = client.call(request, 0)
    assert answer.responses[0].partitions[0].error_code == 0, answer

    def moves(node_id: int) -> Any:
        return get(cluster, node_id, "/cluster")[1]["moves"]

    for node_id in (1, 2):  # one leads it, and the other gets it
        eventually(lambda node_id=node_id: moves(node_id), "the move is shown")  # type: ignore[misc]
        for (move,) in filter(None, (moves(node_id),)):
            assert (move["topic"], move["leader"], move["adding"], move["removing"]) == ("wandering", 2, [1], [2])
            assert move["total_bytes"] > 0
            assert 0 <= move["left_bytes"] <= move["total_bytes"]
    port = cluster.nodes[1].http_port
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    wanted = json.dumps({"topic": "wandering", "partition": 0})
    connection.request("POST", "/api/moves/cancel", wanted, {"Content-Type": "application/json"})
    assert connection.getresponse().status == 200
    connection.close()
    for kind, name, config, _ in throttle:
        alter(cluster, kind, name, config, None)
    eventually(lambda: moves(1) == [] and moves(2) == [], "the move is gone")
    assert cluster.partition("wandering").replicas == (2,)


def test_a_throttle_that_is_removed_lets_a_move_go_on_at_once(cluster: RunningCluster) -> None:
    create(cluster, "released", [2])
    for _ in range(4):
        produce(cluster, 2, "released", b"x" * 900_000)
    rate, replicas = "follower.replication.throttled.rate", "follower.replication.throttled.replicas"
    alter(cluster, 4, "", rate, "1000")
    alter(cluster, 2, "released", replicas, "*")
    part = ReassignablePartition(partition_index=0, replicas=[1])
    with RawClient(cluster.ports[1][0]) as client:
        request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name="released", partitions=[part])])
        client.call(request, 0)
    eventually(lambda: get(cluster, 1, "/cluster")[1]["moves"][0]["left_bytes"], "the move waits")
    alter(cluster, 4, "", rate, None)
    eventually(lambda: cluster.partition("released").replicas == (1,), "the move is done")
    alter(cluster, 2, "released", replicas, None)


def alter(cluster: RunningCluster, kind: int, name: str, config: str, value: str | None) -> None:
    change = AlterableConfig(name=config, config_operation=value is None, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    with RawClient(cluster.ports[1][0]) as client:
        (answer,) = client.call(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False), 1).responses
    assert answer.error_code == 0, answer


def test_a_node_that_is_gone_is_named_as_the_reason(cluster: RunningCluster) -> None:
    cluster.kill(2)

    def says_so() -> bool:
        found = get(cluster, 1, "/cluster")[1]
        return bool(found["without_leader"]) and found["health"]["state"] == "bad"

    eventually(says_so, "the loss of a node", 30)
    found = get(cluster, 1, "/cluster")[1]
    assert found["health"]["line"].endswith("no leader (broker 2 is away)")
    gone = found["nodes"][1]
    assert (gone["state"], gone["is_away_longer"], gone["console"]) == ("fenced", False, None)
    assert gone["away_s"] >= 0
    assert gone["advice"].endswith("no leader until it is back.")
    troubles = {each["topic"]: each["reason"] for each in found["troubles"]}
    assert troubles[ELSEWHERE] == "only its last replicas in sync may lead: broker 2 does not answer the controller"
    assert troubles["everywhere"] == "broker 2 does not answer the controller"
    _, records = get(cluster, 1, "/records", topic=ELSEWHERE)
    assert (records["records"], records["elsewhere"]) == ([], [])
    (gap,) = records["gaps"]
    assert (gap["partition"], gap["reason"]) == (0, "no replica of it is on this node, and it has no leader now")
