"""Access to the console: by default nobody changes anything, and ACLs count for the console as for clients."""

import http.client
import json
import logging
import re
import socket
import subprocess
import sys
import threading
from base64 import b64encode
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from time import time
from urllib.parse import urlencode

import pytest
from console_node import FORM, JSON, ConsoleNode, Reply, console_node
from test_transactions_page import open_transaction

from kpybroker.monitoring.console import console, rendering
from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.answers.group_changes import settle
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.runtime.http import gate
from kpywire.messages.create_acls import AclCreation, CreateAclsRequest
from kpywire.messages.metadata import MetadataRequest
from kpywire.record import Record
from support.waiting import eventually

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
TOPIC, GROUP, LITERAL, READ, DESCRIBE, ALLOW = 2, 3, 3, 3, 8, 3


def test_the_console_changes_nothing_unless_writing_is_enabled() -> None:
    with console_node() as node:
        node.create("t")
        for path in ("/topics", "/topics/t/configs", "/topics/t/records", "/transactions/abort"):
            reply = node.post(path, name="x", value="y", transactional_id="z")
            assert (reply.status, "kpybroker.console.write.enable" in reply.json["error"]) == (403, True)
        assert '<form method="post"' not in node.get("/topics").text
        assert node.post("/searches", topic="t", text="x").status == 200, "a search changes nothing"
        for method in ("DELETE", "POST"):
            assert node.request(method, "/api/cluster", JSON, "{}").status == 405


@pytest.fixture
def writable() -> Iterator[ConsoleNode]:
    with console_node(kpybroker_console_write_enable="true") as node:
        yield node


def token_on(node: ConsoleNode, page: str) -> str:
    return node.get(page).text.partition('name="token" value="')[2].partition('"')[0]


def send(node: ConsoleNode, path: str, headers: dict[str, str] | None = None, **fields: str) -> Reply:
    return node.request("POST", path, {**FORM, **(headers or {})}, urlencode(fields))


def test_a_form_of_the_page_creates_and_configures_a_topic(
    writable: ConsoleNode, caplog: pytest.LogCaptureFixture
) -> None:
    token = token_on(writable, "/topics")
    with caplog.at_level("INFO", "kpybroker.console"):
        reply = send(
            writable,
            "/topics",
            token=token,
            name="made",
            partitions="3",
            configs="retention.ms=1000\n\nsegment.ms = 99\n",
        )
    assert (reply.status, reply.headers["location"]) == (303, "/topics/made")
    assert "User:ANONYMOUS at 127.0.0.1 created topic made with 3 partitions" in caplog.text
    assert len(writable.get("/api/topics/made").json["partitions"]) == 3

    def config(name: str) -> tuple[str, bool]:
        (found,) = [each for each in writable.get("/api/topics/made").json["configs"] if each["name"] == name]
        return found["value"], found["is_set"]

    assert config("segment.ms") == ("99", True)
    assert send(writable, "/topics/made/configs", token=token, name="retention.ms", value="2000").status == 303
    assert config("retention.ms") == ("2000", True)
    with caplog.at_level("INFO", "kpybroker.console"):
        assert send(writable, "/topics/made/configs", token=token, name="retention.ms", remove="1").status == 303
    assert config("retention.ms") == ("604800000", False)
    assert "config retention.ms of topic made is removed" in caplog.text


def test_a_forged_form_changes_nothing(writable: ConsoleNode) -> None:
    token = token_on(writable, "/topics")
    good = {"token": token, "name": "forged"}
    assert send(writable, "/topics", name="forged").status == 403
    assert send(writable, "/topics", token="0" * 64, name="forged").status == 403
    assert send(writable, "/topics", {"Origin": "http://evil.example"}, **good).status == 403
    assert send(writable, "/topics", {"Sec-Fetch-Site": "cross-site"}, **good).status == 403
    assert send(writable, "/topics", {"Host": "evil.example"}, **good).status == 421
    assert writable.request("POST", "/topics", {"Content-Type": "text/plain"}, urlencode(good)).status == 415
    assert writable.request("POST", "/api/topics", FORM, urlencode(good)).status == 415, "a form is no JSON"
    assert writable.get("/api/topics/forged").status == 404


def test_kafkas_refusals_are_passed_on(writable: ConsoleNode) -> None:
    assert "INVALID_TOPIC_EXCEPTION" in writable.post("/topics", name="no/slash").json["error"]
    assert "INVALID_PARTITIONS" in writable.post("/topics", name="t", partitions=0).json["error"]
    assert "INVALID_CONFIG" in writable.post("/topics", name="t", configs={"retention.ms": "x"}).json["error"]
    assert writable.post("/topics", name="t").status == 200
    assert writable.post("/topics", name="t").status == 409
    assert writable.post("/topics/t/configs", name="no.such.config", value="1").status == 400
    assert writable.post("/topics/none/configs", name="retention.ms", value="1").status == 404
    for configs in ("nothing", "{bad", '{"x": {"y": 1}}', "[" * 10_000):
        assert writable.post("/topics", name="t2", configs=configs).status == 400


def test_a_change_is_one_line_of_the_log_whatever_names_it_has(
    writable: ConsoleNode, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "kpybroker.console")
    forged = "\nUser:ada at 10.0.0.7 deleted topic flights"
    assert writable.post("/configs", name=f"no.such.config{forged}", value="1").status == 200
    settle(Viewer(ANONYMOUS, "127.0.0.1", None), "removed members of group 'g'", {f"m{forged}": 0})
    lines = [each.getMessage() for each in caplog.records if each.name == "kpybroker.console"]
    assert (len(lines), [each for each in lines if "\n" in each]) == (2, [])


def test_an_object_of_many_values_is_refused(writable: ConsoleNode) -> None:
    answer = writable.post("/topics", **{str(number): number for number in range(201)})
    assert (answer.status, answer.json) == (400, {"error": "there are more than 200 values"})


def test_other_sites_and_names_get_nothing(writable: ConsoleNode) -> None:
    assert writable.request("GET", "/", {"Host": "evil.example"}).status == 421
    assert writable.request("GET", "/api/cluster", {"Sec-Fetch-Site": "cross-site"}).status == 403
    assert writable.request("GET", "/", {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status == 200
    assert writable.request("GET", "/metrics", {"Host": "prometheus.example"}).status == 421
    assert "access-control-allow-origin" not in writable.get("/api/cluster").headers


def test_files_below_static_are_those_of_the_console_only(writable: ConsoleNode) -> None:
    assert writable.get("/static/console.css").status == 200
    for path in ("/static/../console.py", "/static/%2e%2e/console.py", "/static//etc/passwd", "/static/"):
        assert writable.get(path).status == 404


def test_names_of_the_host_can_be_configured() -> None:
    with console_node(kpybroker_console_hosts="broker.example,Other.example") as node:
        for host in ("broker.example:9404", "other.example"):
            assert node.request("GET", "/api/cluster", {"Host": host}).status == 200


# With users and ACLs


@pytest.fixture
def secured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ConsoleNode]:
    """Ann may read one topic and one group; root may do everything; eve nothing."""
    monkeypatch.setattr(gate, "FAILURE_DELAY_S", 0.0)
    users = tmp_path / "users"
    users.write_text("ann=a\nroot=r\neve=e\n")
    users.chmod(0o600)
    settings = {
        "authorizer_class_name": AUTHORIZER,
        "super_users": "User:root;User:ANONYMOUS",
        "kpybroker_http_users": str(users),
        "kpybroker_console_write_enable": "true",
    }
    with console_node(**settings) as node:
        for topic in ("open", "closed"):
            node.create(topic)
            node.produce(topic, [Record(timestamp=int(time() * 1000), value=b"v")])
            node.commit(f"of-{topic}", topic, 0)
        acls = [
            AclCreation(
                resource_type=kind,
                resource_name=name,
                resource_pattern_type=LITERAL,
                principal="User:ann",
                host="*",
                operation=READ,
                permission_type=ALLOW,
            )
            for kind, name in ((TOPIC, "open"), (GROUP, "of-open"))
        ]
        with node.client as client:
            client.call(CreateAclsRequest(creations=acls), 3)
        eventually(lambda: ask(node, "ann", "/api/topics").json["total"] == 1, "the ACLs count")
        yield node


def ask(node: ConsoleNode, user: str, path: str, method: str = "GET", body: str = "") -> Reply:
    password = {"ann": "a", "root": "r", "eve": "e"}[user]
    login = {"Authorization": "Basic " + b64encode(f"{user}:{password}".encode()).decode()}
    return node.request(method, path, {**login, **(JSON if body else {})}, body)


def test_each_user_sees_what_its_acls_allow(secured: ConsoleNode) -> None:
    assert secured.get("/").status == 401
    assert ask(secured, "ann", "/api/cluster").json == {"error": "User:ann lacks DESCRIBE on the cluster"}
    assert ask(secured, "root", "/api/cluster").status == 200
    assert [each["name"] for each in ask(secured, "ann", "/api/topics").json["topics"]] == ["open"]
    assert ask(secured, "ann", "/api/topics/closed").status == 404, "as if it did not exist"
    assert ask(secured, "ann", "/api/records?topic=open").status == 200
    assert ask(secured, "ann", "/api/records?topic=closed").status == 404
    assert ask(secured, "ann", "/api/topics/open/0").status == 200
    assert (
        ask(secured, "ann", "/api/topics/open").json["configs_hidden"].startswith("configs: TOPIC_AUTHORIZATION_FAILED")
    )
    assert [each["id"] for each in ask(secured, "ann", "/api/groups").json["groups"]] == ["of-open"]
    assert ask(secured, "ann", "/api/group?id=of-closed").status == 403
    assert "lacks DESCRIBE on group x&lt;U+202E&gt;<" in ask(secured, "ann", "/group?id=x%E2%80%AE").text
    for path in ("/api/connections", "/api/quorum", "/api/configs", "/api/quotas"):
        assert ask(secured, "ann", path).status == 403
    assert ask(secured, "eve", "/api/topics").json["total"] == 0
    little = ask(secured, "eve", "/api/security").json
    assert (little["acls"], little["users"]) == ([], [])
    assert any("CLUSTER_AUTHORIZATION_FAILED" in line for line in little["hidden"])
    assert len(ask(secured, "root", "/api/security").json["acls"]) == 2


@pytest.mark.parametrize("is_post", [False, True])
def test_a_topic_that_a_user_may_not_see_looks_like_none_on_every_page(secured: ConsoleNode, is_post: bool) -> None:
    def answers(name: str) -> list[tuple[str, int, str]]:
        paths = [(action.path, "POST") for action in ACTIONS] if is_post else [(page.path, "GET") for page in PAGES]
        found = []
        for path, method in [*paths, ("/leases", "POST")]:
            at = path.format_map(defaultdict(lambda: "0", topic=name))
            values = {"topic": name, "name": name, "id": name, "transactional_id": name, "partition": 0, "text": "v"}
            values |= {"value": "v", "partitions": [[name, 0]] if path == "/leases" else 1}
            query = f"?{urlencode(values)}" if method == "GET" else ""
            prefix = "" if path == "/leases" else "/api"
            body = json.dumps(values) if method == "POST" else ""
            reply = ask(secured, "ann", f"{prefix}{at}{query}", method, body)
            text = re.sub(r'"(lease|[a-z_]*s)":("[0-9a-f]{32}"|[0-9.]+)', "", reply.text)
            found.append((path, reply.status, text.replace(name, "NAME")))
        return found

    assert answers("closed") == answers("absent")


def test_a_transactional_id_is_shown_only_with_permission_to_describe_it(secured: ConsoleNode) -> None:
    producer = open_transaction(secured, "payments", "open")
    pages = ("/api/transactions", "/api/groups", "/api/group?id=of-open", "/groups", "/group?id=of-open")
    eventually(lambda: ask(secured, "root", "/api/transactions").json["pins"], "the transaction holds records back")
    for path in pages:
        assert "payments" not in ask(secured, "ann", path).text, path
    assert "payments" in ask(secured, "root", "/api/transactions").text
    (pin,) = ask(secured, "ann", "/api/transactions").json["pins"]
    assert (pin["topic"], pin["transactional_id"]) == ("open", None)
    producer.abort_transaction(30)


def test_a_viewer_changes_no_more_than_its_acls_allow(secured: ConsoleNode) -> None:
    assert ask(secured, "ann", "/api/topics", "POST", '{"name": "x"}').status == 403
    assert (
        ask(secured, "ann", "/api/topics/open/configs", "POST", '{"name": "retention.ms", "value": "1"}').status == 403
    )
    assert ask(secured, "ann", "/api/topics/open/records", "POST", '{"value": "v"}').status == 403
    assert ask(secured, "ann", "/api/searches", "POST", '{"topic": "closed", "text": "v"}').status == 404
    assert ask(secured, "root", "/api/topics", "POST", '{"name": "x"}').status == 200


def test_a_search_belongs_to_the_user_that_began_it(secured: ConsoleNode) -> None:
    see = ask(secured, "ann", "/api/searches", "POST", '{"topic": "open", "text": "v"}').json["see"]
    assert ask(secured, "ann", f"/api{see}").status == 200
    assert ask(secured, "root", f"/api{see}").status == 404


@pytest.mark.parametrize("listener", ["0.0.0.0:0", "[::]:0"])
def test_beyond_loopback_everything_but_the_probes_needs_a_login(listener: str) -> None:
    with console_node(kpybroker_http_listener=listener) as node:
        reply = node.get("/api/cluster")
        assert (reply.status, "kpybroker.http.users" in reply.json["error"]) == (403, True)
        for path in ("/", "/metrics", "/static/console.css", "/nowhere"):
            assert node.get(path).status == 403
        assert node.request("POST", "/leases", JSON, '{"partitions": []}').status == 403
        for path in ("/live", "/ready"):
            assert node.request("GET", path, {"Host": "any.example"}).status == 200


def test_beyond_loopback_a_path_that_is_configured_as_open_needs_no_login() -> None:
    settings = {"kpybroker_http_listener": "0.0.0.0:0", "kpybroker_http_open_paths": "/live,/metrics"}
    with console_node(**settings) as node:
        assert [node.get(path).status for path in ("/live", "/metrics", "/ready", "/")] == [200, 200, 403, 403]
        assert node.request("GET", "/metrics", {"Host": "evil.example"}).status == 421


def test_the_port_is_served_under_every_name_of_the_node() -> None:
    settings = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "advertised_listeners": "PLAINTEXT://broker-1.example:9092",
        "kpybroker_http_hosts": "metrics.example",
        "kpybroker_console_hosts": "Console.Example",
    }
    with console_node(**settings) as node:
        own = ["BROKER-1.example:9404", "metrics.example", "console.example:80", socket.gethostname(), "10.1.2.3:9404"]
        for name in (*own, "[fe80::1]:9404", "localhost."):
            assert node.request("GET", "/metrics", {"Host": name}).status == 200, name
            assert node.request("GET", "/api/cluster", {"Host": name}).status == 200, name
        for path in ("/metrics", "/api/cluster", "/", "/static/console.css", "/leases", "/nowhere"):
            assert node.request("GET", path, {"Host": "broker-1.example.evil.example"}).status == 421, path


def test_a_busy_console_refuses_and_clients_do_not_notice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console, "MOST_AT_ONCE", 0)
    with console_node() as node:
        assert node.get("/api/cluster").status == 503
        node.create("t")


def test_a_crowd_of_tabs_is_served_or_refused_and_clients_do_not_notice() -> None:
    with console_node() as node, node.client as client:
        answers: list[int | None] = []

        def look() -> None:
            try:
                answers.append(node.get("/api/cluster").status)
            except (OSError, http.client.HTTPException):
                answers.append(None)  # beyond the connections of the port

        tabs = [threading.Thread(target=look) for _ in range(150)]
        for tab in tabs:
            tab.start()
        for _ in range(50):
            assert client.call(MetadataRequest(topics=[]), 12).controller_id == 1
        for tab in tabs:
            tab.join(60)
        assert set(answers) <= {200, 503, None}
        assert 200 in answers
        eventually(lambda: node.get("/api/cluster").status == 200, "it recovers")


def test_too_large_requests_are_refused_unread() -> None:
    with console_node(kpybroker_console_write_enable="true") as node:
        assert node.request("POST", "/api/topics", {**JSON, "Content-Length": str(2 << 20)}).status == 413
        many = "&".join(f"f{number}=1" for number in range(300))
        assert node.get(f"/api/topics?{many}").status == 400
        assert node.get("/api/topics", page="9" * 30).status == 400


# Costs


def test_the_console_is_loaded_with_its_first_request() -> None:
    program = """
import asyncio, sys
from kpybroker.config.broker import BrokerConfig
from kpybroker.node.node import Node
from kpystorage.memory_disk import MemoryDisk
async def run():
    config = BrokerConfig.load(None, {"log.dirs": "/d", "listeners": "PLAINTEXT://127.0.0.1:0",
        "kpybroker.http.listener": sys.argv[1]})
    node = Node(config, asyncio.get_running_loop(), print)
    await node.start(MemoryDisk())
    print(sorted(name for name in sys.modules if name == "jinja2" or name.startswith("kpybroker.monitoring.console")))
    await node.stop()
asyncio.run(run())
"""
    for listener in ("127.0.0.1:0", ""):
        found = subprocess.run(
            [sys.executable, "-c", program, listener], capture_output=True, text=True, timeout=60, check=True
        )
        assert (
            found.stdout.splitlines()[-1] == "['kpybroker.monitoring.console', 'kpybroker.monitoring.console.routes']"
        )


def test_without_jinja_the_pages_say_how_to_get_it_and_the_json_works(monkeypatch: pytest.MonkeyPatch) -> None:
    rendering.environment.cache_clear()
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with console_node() as node:
        page = node.get("/")
        assert (page.status, "pip install jinja2" in page.text) == (501, True)
        assert node.get("/api/cluster").status == 200
    rendering.environment.cache_clear()
