"""The second port of a node behind TLS and a login: its keys, its users, and what they may see."""

import asyncio
import http.client
import os
import socket
import ssl
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from running_node import RunningNode
from test_logins import add_scram_user

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl import scram
from kpybroker.node.assembly import second_port
from kpybroker.node.assembly.second_port import FileUsers
from kpybroker.runtime.http import gate
from kpybroker.runtime.http.server import MOST_CONNECTIONS
from kpybroker.security.tls.issuing import Authority

NOW = datetime.now(UTC)
AUTHORITY = Authority.made("an authority", NOW)


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FAILURE_DELAY_S", 0.0)


@contextmanager
def node_with(directory: Path, **settings: str) -> Iterator[RunningNode]:
    """A node; keys are those of the second port."""
    own = {f"kpybroker.http.{key.replace('_', '.')}": value for key, value in settings.items()}
    node = RunningNode({"log.dirs": str(directory / "data"), **own})
    try:
        yield node
    finally:
        node.stop()


def get(node: RunningNode, path: str, user: str = "", context: ssl.SSLContext | None = None) -> tuple[int, str]:
    """The status and the body of an answer."""
    port = node.node.http_port
    assert port is not None
    connection: http.client.HTTPConnection
    if context is None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    else:
        connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=30, context=context)
    headers = {"Authorization": "Basic " + b64encode(user.encode()).decode()} if user else {}
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def trusting(authority: Authority = AUTHORITY) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=authority.issued.certificate)


def users_file(directory: Path, users: Mapping[str, str]) -> Path:
    file = directory / "users.properties"
    file.write_text("".join(f"{name}={password}\n" for name, password in users.items()))
    file.chmod(0o600)
    return file


def test_users_of_a_file_see_the_metrics_and_probes_need_no_login(tmp_path: Path) -> None:
    file = users_file(tmp_path, {"prometheus": "sées all"})
    with node_with(tmp_path, users=str(file)) as node:
        assert get(node, "/metrics")[0] == 401
        assert get(node, "/metrics", "prometheus:wrong")[0] == 401
        assert get(node, "/metrics", "nobody:sées all")[0] == 401
        status, text = get(node, "/metrics", "prometheus:sées all")
        assert (status, "kafka_" in text) == (200, True)
        assert get(node, "/live") == (200, "live\n")
        assert get(node, "/ready") == (200, "ready\n")
        users_file(tmp_path, {"prometheus": "another", "ann": "more"})
        assert get(node, "/metrics", "prometheus:sées all")[0] == 401
        assert get(node, "/metrics", "ann:more")[0] == 200
        file.write_text("")
        assert get(node, "/metrics", "ann:more")[0] == 200, "the former users stay"


def test_probes_can_be_closed_too(tmp_path: Path) -> None:
    file = users_file(tmp_path, {"ann": "x"})
    with node_with(tmp_path, users=str(file), open_paths="") as node:
        assert [get(node, path)[0] for path in ("/live", "/ready")] == [401, 401]
        assert get(node, "/live", "ann:x") == (200, "live\n")


def test_users_of_the_cluster_log_in_by_their_scram_passwords(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[Any] = []
    fits = second_port._fits
    monkeypatch.setattr(second_port, "_fits", lambda *words: computed.append(words) or fits(*words))
    with node_with(tmp_path, users="scram") as node:
        add_scram_user(node, scram.SCRAM_SHA_512, "ann", "secret")
        assert get(node, "/metrics", "ann:secret")[0] == 200
        assert get(node, "/metrics", "ann:secret")[0] == 200
        assert len(computed) == 1, "a password that was right is not computed again"
        assert get(node, "/metrics", "ann:wrong")[0] == 401
        assert get(node, "/metrics", "eve:wrong")[0] == 401
        assert len(computed) == 3, "an unknown user takes as long as a wrong password"
        add_scram_user(node, scram.SCRAM_SHA_512, "ann", "changed")
        assert get(node, "/metrics", "ann:secret")[0] == 401
        assert get(node, "/metrics", "ann:changed")[0] == 200


@pytest.mark.parametrize("source", ["file", "scram"])
@pytest.mark.parametrize("count", [32, 200])
def test_wrong_passwords_do_not_keep_a_right_one_of_their_address_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, count: int
) -> None:
    monkeypatch.setattr(gate, "FAILURE_DELAY_S", 0.5)
    users = source if source == "scram" else str(users_file(tmp_path, {"ann": "right"}))
    wrong = b"GET /metrics HTTP/1.1\r\nAuthorization: Basic " + b64encode(b"ann:wrong") + b"\r\n\r\n"
    with node_with(tmp_path, users=users) as node:
        add_scram_user(node, scram.SCRAM_SHA_512, "ann", "right")
        port = node.node.http_port
        assert port is not None
        for _ in range(2):
            guesses = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(count)]
            for each in guesses:
                each.sendall(wrong)
            assert get(node, "/metrics", "ann:right")[0] == 200
            assert get(node, "/live")[0] == 200
            for each in guesses:
                each.close()


def test_with_an_authorizer_the_metrics_take_describe_on_the_cluster(tmp_path: Path) -> None:
    file = users_file(tmp_path, {"admin": "x", "ann": "y"})
    settings = {
        "log.dirs": str(tmp_path / "data"),
        "kpybroker.http.users": str(file),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
    }
    node = RunningNode(settings)
    try:
        assert get(node, "/metrics", "admin:x")[0] == 200
        assert get(node, "/metrics", "ann:y") == (403, "User:ann lacks DESCRIBE on the cluster\n")
        assert get(node, "/live", "ann:y")[0] == 200
    finally:
        node.stop()


def test_the_port_speaks_https_with_keys_that_are_exchanged_while_it_runs(tmp_path: Path) -> None:
    keys = tmp_path / "port.pem"
    keys.write_text(AUTHORITY.issue("port", ["127.0.0.1"], NOW).pem)
    with node_with(tmp_path, ssl_keystore_location=str(keys)) as node:
        assert "kafka_" in get(node, "/metrics", context=trusting())[1]
        assert get(node, "/live") == (400, "this port speaks https\n")
        other = Authority.made("another authority", NOW)
        with pytest.raises(ssl.SSLCertVerificationError):
            get(node, "/live", context=trusting(other))
        keys.write_text("broken")
        assert get(node, "/live", context=trusting())[0] == 200, "the former keys stay"
        keys.write_text(other.issue("port", ["127.0.0.1"], NOW).pem)
        os.utime(keys, (1, 1))
        assert get(node, "/live", context=trusting(other)) == (200, "live\n")


def test_handshakes_that_never_end_give_way(tmp_path: Path) -> None:
    keys = tmp_path / "port.pem"
    keys.write_text(AUTHORITY.issue("port", ["127.0.0.1"], NOW).pem)
    with node_with(tmp_path, ssl_keystore_location=str(keys)) as node:
        port = node.node.http_port
        assert port is not None
        stalled = [socket.create_connection(("127.0.0.1", port), 30) for _ in range(2 * MOST_CONNECTIONS)]
        for each in stalled:
            each.sendall(b"\x16\x03\x01\x02\x00\x01")
        for _ in range(3):
            assert get(node, "/live", context=trusting())[0] == 200
        for each in stalled:
            each.close()


@pytest.mark.parametrize(
    ("settings", "line"),
    [
        ({"users": "{dir}/none"}, "kpybroker.http.users={dir}/none: No such file or directory; name `scram` or a file"),
        ({"users": "{dir}/empty"}, "kpybroker.http.users={dir}/empty: it has no user"),
        ({"users": "{dir}/half"}, "kpybroker.http.users={dir}/half: a user has no password"),
        ({"ssl_keystore_location": "{dir}/none"}, "kpybroker.http.ssl.keystore.location: "),
        ({"ssl_keystore_location": "{dir}/empty"}, "kpybroker.http.ssl.keystore.location: "),
    ],
)
def test_unusable_settings_refuse_the_start_in_one_line(tmp_path: Path, settings: dict[str, str], line: str) -> None:
    (tmp_path / "empty").write_text("")
    (tmp_path / "half").write_text("ann=x\nbob=\n")
    named = {key: value.format(dir=tmp_path) for key, value in settings.items()}
    with pytest.raises(StartRefused) as refused, node_with(tmp_path, **named):
        pass
    assert str(refused.value).startswith(line.format(dir=tmp_path))
    assert "\n" not in str(refused.value)


def test_a_file_that_others_can_read_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = users_file(tmp_path, {"ann": "hush"})
    file.chmod(0o644)
    users = FileUsers(file)
    assert "can be read by other users" in caplog.text
    assert "hush" not in caplog.text
    assert asyncio.run(users("ann", "hush"))
