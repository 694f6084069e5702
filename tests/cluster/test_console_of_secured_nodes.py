"""The console of one of three brokers that have TLS, logins, or both on every listener: it still asks the others."""

import base64
import http.client
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from running_cluster import COMBINED, RunningCluster, cluster_of

from kpybroker.client.protection import ConnectionProtection
from kpybroker.machines.errors import KafkaError
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.console.viewer_ways import ViewerWays
from kpybroker.runtime.calls.principal import ANONYMOUS
from kpybroker.testing.oidc import TOKEN, OidcProvider
from oracle.process import HOST
from support import oauth_nodes
from support.access import SCRAM_MODULE
from support.kdc import MISSING, WHY_MISSING, Kdc, with_keytab
from support.secured import USER, USER_PASSWORD, between_nodes

pytestmark = pytest.mark.slow
SCRAM = "SCRAM-SHA-512"
LISTENERS = ("INTERNAL", "CONTROLLER", "PLAINTEXT")
CONSOLE = {"kpybroker.http.listener": "127.0.0.1:0"}


def every(protocol: str) -> str:
    """The protocol of all listeners."""
    return ",".join(f"{name}:{protocol}" for name in LISTENERS)


def secured(directory: Path, protocol: str, mechanism: str = "PLAIN", **more: str) -> dict[str, str]:
    """Settings under which no listener is plain, whatever its name is."""
    found = between_nodes(directory, mechanism, protocol, LISTENERS)
    return {**found, "listener.security.protocol.map": every(protocol), **CONSOLE, **more}


def cluster_page(cluster: RunningCluster, login: str = "") -> Any:
    port = cluster.nodes[1].http_port
    assert port is not None
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"} if login else {}
    connection.request("GET", "/api/cluster", headers=headers)
    answer = connection.getresponse()
    found = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, found
    return found


def shows_all(cluster: RunningCluster, found: Any) -> None:
    """Assert that every node has told its console and its log directories."""
    consoles = {each["id"]: each["console"] for each in found["nodes"]}
    assert consoles == {1: None, **{each: f"http://127.0.0.1:{cluster.nodes[each].http_port}/" for each in (2, 3)}}
    assert {each["node"]: each["state"] for each in found["disks"]} == dict.fromkeys((1, 2, 3), "working")


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL", "SASL_PLAINTEXT"])
def test_a_node_names_itself_for_viewers_where_no_authorizer_tells_them_apart(tmp_path: Path, protocol: str) -> None:
    more = {"ssl.client.auth": "required"} if protocol == "SSL" else {}
    with cluster_of(tmp_path, [COMBINED] * 3, secured(tmp_path, protocol, **more)) as cluster:
        shows_all(cluster, cluster_page(cluster))
        assert cluster.failures == []


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_nodes_that_log_in_to_each_other_by_kerberos_show_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str
) -> None:
    pytest.importorskip("gssapi", reason="gssapi is not installed: pip install 'kpybroker[kerberos]'")
    if MISSING:
        pytest.skip(WHY_MISSING)
    with Kdc(tmp_path) as kdc:
        for name, value in kdc.environment.items():
            monkeypatch.setenv(name, value)
        jaas = with_keytab(f"kafka/{HOST}", kdc.add(f"kafka/{HOST}"))
        found = secured(tmp_path, protocol, "GSSAPI", **{"sasl.kerberos.service.name": "kafka"})
        settings = {name: jaas if name.endswith(".jaas.config") else value for name, value in found.items()}
        with cluster_of(tmp_path, [COMBINED] * 3, settings) as cluster:
            shows_all(cluster, cluster_page(cluster))
            kdc.stop()
            shows_all(cluster, cluster_page(cluster))
            assert cluster.failures == []


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SASL_PLAINTEXT"])
def test_nodes_that_log_in_to_each_other_with_tokens_show_each_other(tmp_path: Path, protocol: str) -> None:
    with OidcProvider() as provider:
        of_tokens = oauth_nodes.between_nodes(provider, LISTENERS, protocol)
        settings = {**secured(tmp_path, protocol), **of_tokens, "listener.security.protocol.map": every(protocol)}
        with cluster_of(tmp_path, [COMBINED] * 3, settings) as cluster:
            asked = provider.requests.count(TOKEN)
            shows_all(cluster, cluster_page(cluster))
            assert provider.requests.count(TOKEN) == asked, (
                "the token of the node is shown, and no other one is fetched"
            )
            assert cluster.failures == []


@contextmanager
def with_acls(directory: Path) -> Iterator[RunningCluster]:
    """Three brokers with an authorizer. Clients log in by SCRAM."""
    settings = {
        **secured(directory, "SASL_SSL"),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:node;User:{USER}",
        "kpybroker.http.users": "scram",
        "listener.name.plaintext.sasl.enabled.mechanisms": SCRAM,
        "listener.name.plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM_MODULE} required;",
    }
    del settings["listener.name.plaintext.plain.sasl.jaas.config"]
    users = [f"{SCRAM}=[name={USER},password={USER_PASSWORD}]"]
    with cluster_of(directory, [COMBINED] * 3, settings, users) as cluster:
        yield cluster


def test_a_viewer_logs_in_by_its_own_password_over_tls(tmp_path: Path) -> None:
    with with_acls(tmp_path) as cluster:
        shows_all(cluster, cluster_page(cluster, f"{USER}:{USER_PASSWORD}"))
        node = cluster.nodes[1]
        assert node.broker is not None
        ways = ViewerWays(node.broker, lambda _: None)
        viewer = Viewer(ANONYMOUS, "127.0.0.1", node.broker.authorizer)
        with pytest.raises(KafkaError, match="open its own console"):
            cluster.run(ways.to(viewer, 2))


def test_no_certificate_of_the_node_stands_for_a_viewer_that_acls_are_for(tmp_path: Path) -> None:
    with cluster_of(tmp_path, [COMBINED] * 3, secured(tmp_path, "SSL")) as cluster:
        node = cluster.nodes[1]
        assert node.broker is not None
        ways = ViewerWays(node.broker, lambda _: None)
        authorizer: Any = object()
        shown = {}
        for each in (None, authorizer):
            way = cluster.run(ways.to(Viewer(ANONYMOUS, "127.0.0.1", each), 2))
            assert isinstance(way.protection, ConnectionProtection)
            shown[each] = way.protection.context
        assert shown[None] is not shown[authorizer]
        made = ways._contexts._made
        assert {key: bool(found.keystore_location) for key, (found, *_) in made.items()} == {
            ("INTERNAL", True): True,
            ("INTERNAL", False): False,
        }
