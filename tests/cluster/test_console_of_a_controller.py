"""The console of a node that is only a controller: cluster, quorum, connections, configs, and no page of a broker."""

import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from running_cluster import RunningCluster, cluster_of

from kpybroker.monitoring.console.actions import ACTIONS
from kpybroker.monitoring.console.console import ONLY_CONTROLLER
from kpybroker.monitoring.console.pages import PAGES
from support.waiting import eventually

SETTINGS = {
    "kpybroker.http.listener": "127.0.0.1:0",
    "kpybroker.console.write.enable": "true",
    "ssl.key.password": "hunter2",
}
JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    directory: Path = tmp_path_factory.mktemp("nodes")
    with cluster_of(directory, ["controller", "broker"], SETTINGS) as running:
        yield running


def ask(cluster: RunningCluster, path: str, method: str = "GET", node_id: int = 1) -> tuple[int, str]:
    port = cluster.nodes[node_id].http_port
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    connection.request(method, path, body="{}" if method == "POST" else None, headers=JSON)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def json_of(cluster: RunningCluster, path: str) -> Any:
    status, text = ask(cluster, f"/api{path}")
    assert status == 200, text
    return json.loads(text)


def test_a_controller_shows_the_cluster_and_the_quorum(cluster: RunningCluster) -> None:
    found = json_of(cluster, "/cluster")
    assert [(each["id"], each["roles"], each["is_here"]) for each in found["nodes"]] == [
        (1, ["controller"], True),
        (2, ["broker"], False),
    ]
    assert (found["quorum_leader"], found["health"]["state"]) == (1, "good")
    assert [(each["node"], each["state"]) for each in found["disks"]] == [(2, "working")]
    ports = {number: node.http_port for number, node in cluster.nodes.items()}
    assert [each["console"] for each in found["nodes"]] == [None, f"http://127.0.0.1:{ports[2]}/"]
    of_broker = json.loads(ask(cluster, "/api/cluster", node_id=2)[1])
    assert [each["console"] for each in of_broker["nodes"]] == [f"http://127.0.0.1:{ports[1]}/", None]
    assert not found["may_change"], "forms are for brokers"
    quorum = json_of(cluster, "/quorum")
    assert (quorum["leader"], quorum["local_role"], quorum["hidden"]) == (1, "leader", None)
    assert [(each["id"], each["role"]) for each in quorum["nodes"]] == [(1, "leader"), (2, "observer")]


def test_a_controller_shows_its_configs_with_documentation_and_no_secret(cluster: RunningCluster) -> None:
    found = json_of(cluster, "/configs")
    assert (found["node_id"], found["hidden"]) == (1, None)
    rows = {each["name"]: each for each in found["configs"]}
    assert rows["process.roles"]["value"] == "controller"
    assert rows["ssl.key.password"]["value"] is None
    assert all(each["is_set"] for each in rows.values())
    everything = json_of(cluster, "/configs?all=1&q=quorum")
    assert "controller.quorum.election.timeout.ms" in [each["name"] for each in everything["configs"]]
    assert all("quorum" in each["name"] and each["documentation"] for each in everything["configs"])
    for path in ("/api/configs?all=1", "/configs?all=1"):
        assert "hunter2" not in ask(cluster, path)[1]


def test_a_controller_finds_its_configs_and_clients(cluster: RunningCluster) -> None:
    kinds = {
        each["kind"]: [hit["name"] for hit in each["hits"]] for each in json_of(cluster, "/find?q=listeners")["kinds"]
    }
    assert kinds.keys() == {"Configs"}
    assert kinds["Configs"][0] == "listeners"


def test_a_controller_shows_and_watches_its_connections(cluster: RunningCluster) -> None:
    def of_broker() -> str | None:
        found = json_of(cluster, "/connections")["connections"]
        return next((each["id"] for each in found if any("BrokerHeartbeat" in name for name in each["versions"])), None)

    eventually(lambda: of_broker() is not None, "a heartbeat of the broker")
    name = of_broker()
    assert name is not None
    assert json_of(cluster, f"/connections/{quote(name, safe='')}")["connection"]["listener"] == "CONTROLLER"


def test_the_pages_of_brokers_say_where_they_are(cluster: RunningCluster) -> None:
    menu = ask(cluster, "/")[1].partition("</nav>")[0]
    for page in PAGES:
        path = page.path.replace("{", "").replace("}", "")
        if page.is_of_controllers:
            assert "{" in page.path or ask(cluster, path)[0] == 200, path
            continue
        assert f'href="{path}"' not in menu
        status, text = ask(cluster, f"/api{path}")
        assert (status, json.loads(text)["error"]) == (404, ONLY_CONTROLLER), path
    for action in ACTIONS:
        path = f"/api{action.path}".replace("{", "").replace("}", "")
        assert ask(cluster, path, "POST")[0] == 404, path
    assert ask(cluster, "/api/nothing")[1] == '{"error":"there is no such page"}\n'
    assert ask(cluster, "/api/configs", node_id=2)[0] == 200, "a broker has the page, too"
