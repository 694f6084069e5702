"""The second port is protected in the same way in KRaft mode and in ZooKeeper mode, whatever its configuration."""

import json
import socket
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import both_modes
import pytest
from asking import play
from both_modes import asked, never, statuses
from test_zookeeper_node import World, lead, ordered
from test_zookeeper_protection import asked as broker_answer

from kpybroker.hosts.quorum.recovery import StartRefused
from kpybroker.machines.sasl.scram import SCRAM_SHA_256, SCRAM_SHA_512
from kpybroker.monitoring.console.pages import PAGES
from kpybroker.node.node import Node
from kpybroker.runtime.http import gate
from kpybroker.security.tls.issuing import Authority
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion
from kpywire.metadata_records.user_scram_credential_record import UserScramCredentialRecord
from support.certificates import Authority as OtherAuthority
from support.waiting import until

AUTHORITY = Authority.made("an authority", datetime.now(UTC))
PATHS = ("/metrics", "/", "/api/cluster", "/topics", "/static/console.css", "/leases", "/nowhere")
PROBES = ("/live", "/ready")


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FAILURE_DELAY_S", 0.0)


@pytest.fixture(params=both_modes.MODES)
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


def played(mode: str, story: Callable[[Node], Awaitable[None]], **configs: str) -> None:
    """Play a story on a node with these configs of the second port, ``_`` for ``.``."""
    own = {f"kpybroker.http.{name.replace('_', '.')}": value for name, value in configs.items()}
    both_modes.played(mode, story, {"kpybroker.http.listener": "127.0.0.1:0", **own})


def test_on_loopback_every_page_is_served_without_a_login(mode: str) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS) == [200] * 6 + [404]
        assert await statuses(node, PROBES) == [200, 200]

    played(mode, story)


@pytest.mark.parametrize("listener", ["0.0.0.0:0", "[::]:0"])
def test_beyond_loopback_only_the_probes_are_served_without_a_login(mode: str, listener: str) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS) == [403] * 7
        assert await statuses(node, PROBES) == [200, 200]

    played(mode, story, listener=listener)


def test_a_path_is_opened_by_its_config(mode: str) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS) == [200] + [403] * 6

    played(mode, story, listener="0.0.0.0:0", open_paths="/metrics")


def test_names_of_other_sites_are_refused(mode: str) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS, headers={"Host": "evil.example"}) == [421] * 7
        assert await statuses(node, PROBES, headers={"Host": "evil.example"}) == [200, 200]
        for name in ("own.example:9404", socket.gethostname(), "localhost", "[::1]:80"):
            assert await statuses(node, ("/metrics",), headers={"Host": name}) == [200]

    played(mode, story, hosts="own.example")
    both_modes.played(mode, story, {"kpybroker.http.listener": "127.0.0.1:0", "kpybroker.console.hosts": "own.example"})


def test_users_of_a_file_log_in(mode: str, tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS) == [401] * 7
        assert await statuses(node, PATHS, user="ann:wrong") == [401] * 7
        assert await statuses(node, PATHS, user="ann:right") == [200] * 6 + [404]
        assert await statuses(node, PROBES) == [200, 200]

    file = tmp_path / "users.properties"
    file.write_text("ann=right\n")
    file.chmod(0o600)
    played(mode, story, users=str(file))


def test_probes_can_be_closed(mode: str, tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PROBES) == [401, 401]

    file = tmp_path / "users.properties"
    file.write_text("ann=right\n")
    played(mode, story, users=str(file), open_paths="")


def with_user(node: Node, name: str, password: str) -> None:
    """Put a user into the metadata as this node knows them."""
    credential = SCRAM_SHA_256.credential(SCRAM_SHA_256.salted_password(password, b"salt", 4096), b"salt", 4096)
    record = UserScramCredentialRecord(
        name=name,
        mechanism=SCRAM_SHA_256.code,
        salt=b"salt",
        stored_key=credential.stored_key,
        server_key=credential.server_key,
        iterations=4096,
    )
    assert node.broker is not None
    node.broker.image.scram_credentials[(SCRAM_SHA_256.code, name)] = record


def test_users_of_the_cluster_log_in(mode: str) -> None:
    async def story(node: Node) -> None:
        assert await statuses(node, PATHS, user="ann:right") == [401] * 7
        with_user(node, "ann", "right")
        assert await statuses(node, PATHS, user="ann:right") == [200] * 6 + [404]
        assert await statuses(node, PATHS, user="ann:wrong") == [401] * 7
        assert await statuses(node, PATHS) == [401] * 7
        assert await statuses(node, PROBES) == [200, 200]

    played(mode, story, users="scram")


@pytest.mark.parametrize("is_super", [False, True])
def test_with_an_authorizer_a_user_sees_what_acls_allow(mode: str, is_super: bool, tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        paths = ("/metrics", "/", "/api/cluster", "/static/console.css", "/api/topics")
        assert await statuses(node, paths, user="ann:right") == ([200] * 5 if is_super else [403, 403, 403, 200, 200])

    file = tmp_path / "users.properties"
    file.write_text("ann=right\n")
    name = "kafka.security.authorizer.AclAuthorizer"
    if mode == "KRaft":
        name = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
    own = {"authorizer.class.name": name, "super.users": "User:ANONYMOUS" + (";User:ann" if is_super else "")}
    port = {"kpybroker.http.listener": "127.0.0.1:0", "kpybroker.http.users": str(file)}
    both_modes.played(mode, story, {**own, **port})


@pytest.mark.parametrize("is_writable", [False, True])
def test_the_console_writes_only_where_that_is_enabled(mode: str, is_writable: bool) -> None:
    async def story(node: Node) -> None:
        assert json.loads((await asked(node, "/api/topics"))[1])["may_create"] is is_writable

    own = {"kpybroker.console.write.enable": str(is_writable).lower(), "kpybroker.http.listener": "127.0.0.1:0"}
    both_modes.played(mode, story, own)


def test_users_of_a_zookeeper_cluster_log_in_by_their_scram_passwords() -> None:
    async def story(node: Node) -> None:
        broker, salted = node.broker, SCRAM_SHA_512.salted_password("right", b"salt", 4096)
        assert broker is not None
        credential = ScramCredentialUpsertion(
            name="ann", mechanism=SCRAM_SHA_512.code, iterations=4096, salt=b"salt", salted_password=salted
        )
        assert await statuses(node, ("/metrics", "/"), user="ann:right") == [401, 401]
        await broker_answer(node, AlterUserScramCredentialsRequest(deletions=[], upsertions=[credential]), 0)
        await until(lambda: broker.image.scram_credentials)
        assert await statuses(node, ("/metrics", "/"), user="ann:right") == [200, 200]
        assert await statuses(node, ("/metrics", "/"), user="ann:wrong") == [401, 401]

    played("ZooKeeper", story, users="scram")


def test_the_port_speaks_https(mode: str, tmp_path: Path) -> None:
    async def story(node: Node) -> None:
        trusting = ssl.create_default_context(cadata=AUTHORITY.issued.certificate)
        assert await statuses(node, PATHS, context=trusting) == [200] * 6 + [404]
        assert await asked(node, "/live") == (400, "this port speaks https\n")

    keys = tmp_path / "port.pem"
    keys.write_text(AUTHORITY.issue("port", ["127.0.0.1"], datetime.now(UTC)).pem)
    played(mode, story, ssl_keystore_location=str(keys))


@pytest.mark.parametrize("password", ["right", "wrong", ""])
def test_the_password_of_the_ports_key_must_fit(mode: str, password: str, tmp_path: Path) -> None:
    other = OtherAuthority()

    async def story(node: Node) -> None:
        trusting = ssl.create_default_context(cadata=other.pem)
        assert await asked(node, "/live", context=trusting) == (200, "live\n")

    keys = other.issue("port", ["127.0.0.1"]).save_pem(tmp_path / "port.pem", "right")
    own = {"ssl_keystore_location": str(keys), **({"ssl_key_password": password} if password else {})}
    if password == "right":
        played(mode, story, **own)
    else:
        with pytest.raises(StartRefused, match=r"^kpybroker\.http\.ssl\.keystore\.location"):
            played(mode, never, **own)


@pytest.mark.parametrize("listener", ["127.0.0.1:0", ""])
@pytest.mark.parametrize("name", ["users", "ssl_keystore_location"])
def test_a_file_that_cannot_be_used_refuses_the_start(mode: str, name: str, listener: str, tmp_path: Path) -> None:
    with pytest.raises(StartRefused, match=rf"^kpybroker\.http\.{name.replace('_', '.')}"):
        played(mode, never, listener=listener, **{name: str(tmp_path / "none")})


def test_a_port_that_is_taken_refuses_the_start(mode: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartRefused, match="cannot serve metrics on"):
        played(mode, never, listener=f"127.0.0.1:{taken.getsockname()[1]}")


def test_without_a_listener_there_is_no_second_port(mode: str) -> None:
    async def story(node: Node) -> None:
        assert node.http_port is None

    played(mode, story, listener="")


def test_the_console_and_the_leases_of_a_broker_in_zookeeper_mode_show_its_topics() -> None:
    async def story() -> None:
        world = World()
        node = world.node(kpybroker_http_listener="127.0.0.1:0")
        await node.start(world.disk)
        broker = node.broker
        assert broker is not None
        await until(lambda: broker.image.brokers)
        await ordered(node, lead(0, broker.lifecycle.epoch()))
        for page in PAGES:
            if "{" not in page.path.replace("{topic}", "t").replace("{partition}", "0"):
                path = page.api_path.replace("{topic}", "t").replace("{partition}", "0")
                status, text = await asked(node, path)
                assert status in (200, 400, 404), text  # 400 and 404: it needs a query
        assert [each["name"] for each in json.loads((await asked(node, "/api/topics"))[1])["topics"]] == ["t"]
        assert (await asked(node, "/topics/t/0"))[0] == 200
        assert "There is no quorum in ZooKeeper mode." in (await asked(node, "/quorum"))[1]
        await node.stop()

    play(story)
