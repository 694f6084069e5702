"""Every page of the console, as HTML and as JSON that its OpenAPI document describes."""

import json
import re
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
from console_node import Reply, console_node, often_sampled
from stage import Stage, flight

from kpybroker.monitoring.console import taps
from kpybroker.monitoring.console.page import ConsolePage, Download, match
from kpybroker.monitoring.console.pages import PAGES
from kpywire.messages.find_coordinator import FindCoordinatorRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from release.documents import openapi
from support.share_group_requests import sharing
from support.waiting import eventually

DOCUMENT = openapi.document()
UNKNOWN_VERSION = bytes.fromhex("0000000e 0012 7fff 00000009 0003 783939 00")


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    with often_sampled(), console_node() as node:
        made = Stage(node)
        yield made
        made.close()


def check(reply: Reply, schema: dict[str, Any]) -> None:
    """Whether an answer is what the document says."""
    assert reply.headers["content-type"] == "application/json"
    jsonschema.validate(reply.json, {**schema, "components": DOCUMENT["components"]})


def schema_of(path: str, status: int, method: str = "get") -> dict[str, Any]:
    (pattern,) = [
        each for each in DOCUMENT["paths"] if method in DOCUMENT["paths"][each] and match(each, path) is not None
    ][:1]
    responses = DOCUMENT["paths"][pattern][method]["responses"]
    found: dict[str, Any] = responses.get(str(status), responses["default"])["content"]["application/json"]["schema"]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.path)
def test_every_page_is_there_for_people_and_as_the_documented_json(stage: Stage, page: ConsolePage) -> None:
    address = stage.address(page, page.api_path)
    reply = stage.node.get(address)
    assert reply.status == 200, reply.text
    if page.path == "/records/raw":
        assert '"flight": 3' in reply.text
        assert reply.headers["content-disposition"] == 'attachment; filename="flights-0-3.value.bin"'
        return
    if page.value is Download:
        assert reply.headers["content-disposition"].endswith('.csv"')
        assert reply.text.count("LX1") > 5
        return
    check(reply, schema_of(address.partition("?")[0], 200))
    html = stage.node.get(stage.address(page, page.path))
    assert html.status == 200, html.text
    assert html.headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in html.headers["content-security-policy"]
    assert html.text.count("<h1") == 1
    assert not re.search(r'(src|href|action)="(https?:)?//', html.text), "nothing comes from another host"
    assert "style=" not in html.text, "the policy forbids it"


def test_the_document_is_served_and_is_openapi(stage: Stage) -> None:
    served = stage.node.get("/api/openapi.json").json
    assert served == DOCUMENT
    for path in served["paths"].values():
        for operation in path.values():
            assert {"summary", "parameters", "responses"} <= set(operation)
    for schema in served["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/api/nothing", 404),
        ("/api/topics/none", 404),
        ("/api/topics/flights/7", 404),
        ("/api/topics/flights/x", 400),
        ("/api/topics/flights/0/99", 400),
        ("/api/records?topic=flights&most=0", 400),
        ("/api/records?topic=flights&start=middle", 400),
        ("/api/records?topic=flights&start=time&time=soon", 400),
        ("/api/records/raw?topic=flights&partition=0&offset=999", 404),
        ("/api/group?id=none", 404),
        ("/api/group", 400),
        ("/api/searches/none", 404),
        ("/api/connections/1.2.3.4:5", 400),
    ],
)
def test_a_refusal_is_one_documented_line(stage: Stage, path: str, status: int) -> None:
    reply = stage.node.get(path)
    assert reply.status == status, reply.text
    jsonschema.validate(reply.json, DOCUMENT["components"]["schemas"]["Error"])
    assert reply.json["error"].count("\n") == 0
    if path != "/api/nothing":
        page = stage.node.get(path.removeprefix("/api"))
        assert page.status == status
        assert "<h1>" in page.text


def test_the_cluster_page_says_that_all_is_well(stage: Stage) -> None:
    found = stage.node.get("/api/cluster").json
    assert found["health"]["state"] == "good", found["health"]
    assert (found["without_leader"], found["under_replicated"], found["troubles"]) == (0, 0, [])
    assert found["quorum_leader"] == 1
    assert [node["is_here"] for node in found["nodes"]] == [True]
    assert found["disks"][0]["total_bytes"] > 0


def test_plots_fill_with_what_clients_do(stage: Stage) -> None:
    stage.node.get("/api/cluster")

    def has_values() -> bool:
        stage.node.produce("flights", [flight(0)], 1)
        plots = {plot["title"]: plot for plot in stage.node.get("/api/cluster").json["history"]["plots"]}
        return any(plots["Records in"]["lines"][0]["values"])

    eventually(has_values, "a rate of records")
    assert "<polyline" in stage.node.get("/").text


def test_configs_of_the_node_are_those_that_are_set_or_all(stage: Stage) -> None:
    found = {each["name"]: each for each in stage.node.get("/api/configs").json["configs"]}
    assert (found["log.dirs"]["value"], found["log.dirs"]["source"]) == ("/data", "the broker's file")
    assert "log.retention.hours" not in found
    (row,) = stage.node.get("/api/configs", all=1, q="LOG.retention.Hours").json["configs"]
    assert (row["value"], row["source"], row["is_set"]) == ("168", "default", False)
    assert "hours" in row["documentation"]
    assert stage.node.get("/configs", q="nothing like it").status == 200


def test_topics_are_found_by_name_and_kafkas_own_only_on_demand(stage: Stage) -> None:
    assert [each["name"] for each in stage.node.get("/api/topics").json["topics"]] == ["flights"]
    with_internal = stage.node.get("/api/topics", internal=1).json["topics"]
    assert [each["name"] for each in with_internal if each["is_internal"]] == ["__consumer_offsets"]
    assert stage.node.get("/api/topics", q="nothing like it").json["total"] == 0
    assert stage.node.get("/api/topics", q="LIGHT").json["topics"][0]["local_records"] >= 20


def test_a_topic_shows_partitions_configs_with_texts_and_readers(stage: Stage) -> None:
    found = stage.node.get("/api/topics/flights").json
    first = found["partitions"][0]
    assert (first["start_offset"], first["end_offset"], first["leader"]) == (0, 20, 1)
    assert "retention.ms" in first["next_deletion"]["line"]
    (retention,) = [each for each in found["configs"] if each["name"] == "retention.ms"]
    assert (retention["value"], retention["source"], retention["is_set"]) == ("604800000", "default", False)
    assert "retention" in retention["documentation"]
    assert "<" not in retention["documentation"]
    (reader,) = [each for each in found["readers"] if each["name"] == "readers"]
    assert (reader["is_group"], reader["lag"]) == (True, 15)
    assert reader["lag_s"] > 0


def test_segments_are_shown_down_to_batches(stage: Stage) -> None:
    found = stage.node.get("/api/topics/flights/0").json
    (segment,) = found["segments"]
    assert (segment["base_offset"], segment["next_offset"], segment["is_active"]) == (0, 20, True)
    (batch,) = stage.node.get("/api/topics/flights/0/0").json["batches"]
    assert (batch["base_offset"], batch["last_offset"], batch["records"], batch["codec"]) == (0, 19, 20, "none")
    assert batch["bytes"] == segment["bytes"]


def test_a_group_page_shows_the_lag_and_why_there_are_no_readers(stage: Stage) -> None:
    found = stage.node.get("/api/group", id="readers").json
    assert (found["lag"], found["is_stuck"]) == (15, True)
    assert found["verdict"] == "It has no member: nobody reads the 15 records that are left."
    joined = stage.node.get("/api/group", id="joined").json
    (member,) = joined["members"]
    assert (member["client_id"], member["host"]) == ("watched", "127.0.0.1")
    shown = [each["text"] for each in reversed(joined["story"])]
    assert shown[0] == "watched at 127.0.0.1 joined"
    assert shown[-1] == "generation 1, members: 1"


def test_a_share_group_has_members_and_no_positions(stage: Stage) -> None:
    with stage.node.client as client:
        client.call(FindCoordinatorRequest(key="sharers", key_type=0), 3)
        eventually(lambda: client.call(sharing("sharers", "m", 0, ["flights"]), 1).error_code == 0, "a member")
        beat = sharing("sharers", "m", 0, ["flights"])
        eventually(lambda: client.call(beat, 1).assignment.topic_partitions, "its partitions")
        page = stage.node.get("/api/group", id="sharers").json
    assert (page["type"], page["state"], page["is_stuck"]) == ("share", "Stable", False)
    assert page["verdict"] == "Nobody reads in it on this node; the leaders of its partitions know more."
    assert [each["assigned"] for each in page["members"]] == [["flights-0", "flights-1"]]
    assert (page["positions"], page["lag"], page["unknown"]) == ([], None, 0)
    assert ("sharers", "share", 1) in [
        (each["id"], each["type"], each["members"]) for each in stage.node.get("/api/groups").json["groups"]
    ]


def test_the_page_of_a_connection_updates_live(stage: Stage) -> None:
    address = f"/api/connections/{stage.values['connection']}"
    assert stage.node.get(address).status == 200
    stage.connected.call(MetadataRequest(topics=[]), 12)
    found = stage.node.get(address).json
    newest = found["exchanges"][0]
    assert (newest["request"], newest["version"], newest["client_id"]) == ("Metadata", 12, "watched")
    assert json.loads(newest["request_json"])["topics"] == []
    assert json.loads(newest["answer_json"])["brokers"][0]["nodeId"] == 1
    assert newest["took_ms"] >= 0
    stage.connected.sock.sendall(UNKNOWN_VERSION)
    stage.connected.receive(18, 0)
    assert stage.node.get(address).status == 200, "a request of a later version harms nothing"
    stage.connected.send(SaslAuthenticateRequest(auth_bytes=b"\0ann\0hunter2"), 2)
    eventually(lambda: "SaslAuthenticate" in (text := stage.node.get(address).text) or "closed" in text, "it is noted")
    text = stage.node.get(address).text
    assert "hunter2" not in text
    assert b64encode(b"\0ann\0hunter2").decode() not in text


def test_a_connection_is_watched_only_while_somebody_looks(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"/api/connections/{stage.values['connection']}"
    assert stage.node.get(address).status in (200, 400)
    server = stage.node.node.server
    assert server is not None
    with stage.node.client as client:
        client.call(MetadataRequest(topics=[]), 12)
        host, port = client.sock.getsockname()
        (connection,) = [each for each in server.connections if str(each.client) == f"{host}:{port}"]
        plain = connection.dispatch
        assert stage.node.get(f"/api/connections/{host}:{port}").status == 200
        assert isinstance(connection.dispatch, taps.Tap)
        monkeypatch.setattr(taps, "IDLE_MS", -1)
        stage.node.get(address)  # each look removes what nobody looks at
        assert connection.dispatch is plain
        client.call(MetadataRequest(topics=[]), 12)
