"""The second port is protected in the same way in KRaft mode and in ZooKeeper mode, whatever its configuration."""

import asyncio
import http.client
import json
import socket
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asking import play
from test_zookeeper_node import World, lead, ordered, until
from test_zookeeper_protection import asked as broker_answer

from kpybroker.config.broker import BrokerConfig
from kpybroker.console.pages import PAGES
from kpybroker.http import gate
from kpybroker.node import Node
from kpybroker.quorum.recovery import StartRefused
from kpybroker.sasl.scram import SCRAM_SHA_512
from kpybroker.tls.issuing import Authority
from kpybroker.zookeeper_node import ZooKeeperNode
from kpystorage.memory_disk import MemoryDisk
from kpywire.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest, ScramCredentialUpsertion

AnyNode = Node | ZooKeeperNode
AUTHORITY = Authority.made("an authority", datetime.now(UTC))
PATHS = ("/metrics", "/", "/api/cluster", "/topics", "/static/console.css", "/leases", "/nowhere")
PROBES = ("/live", "/ready")


@pytest.fixture(autouse=True)
def _no_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "FAILURE_DELAY_S", 0.0)


@pytest.fixture(params=["KRaft", "ZooKeeper"])
def mode(request: pytest.FixtureRequest) -> str:
    chosen: str = request.param
    return chosen


@asynccontextmanager
async def running(mode: str, **configs: str) -> AsyncIterator[AnyNode]:
    """A node with these configs of the second port, ``_`` for ``.``."""
    own = {f"kpybroker.http.{name.replace('_', '.')}": value for name, value in configs.items()}
    own.setdefault("kpybroker.http.listener", "127.0.0.1:0")
    node: AnyNode
    if mode == "ZooKeeper":
        world = World()
        disk = world.disk
        node = world.node(**own)
    else:
        disk = MemoryDisk()
        base = {"log.dirs": "/data", "listeners": "PLAINTEXT://127.0.0.1:0"}
        node = Node(BrokerConfig.load(None, {**base, **own}), asyncio.get_running_loop(), pytest.fail)
    try:
        await node.start(disk)
        yield node
    finally:
        await node.stop()


def asked(
    node: AnyNode, path: str, headers: dict[str, str] | None = None, user: str = "", context: Any = None
) -> Awaitable[tuple[int, str]]:
    """The status and the text of an answer to GET, or to POST where leases are asked for."""

    def ask() -> tuple[int, str]:
        assert node.http_port is not None
        connection = http.client.HTTPConnection("127.0.0.1", node.http_port, timeout=30)
        if context is not None:
            connection = http.client.HTTPSConnection("127.0.0.1", node.http_port, timeout=30, context=context)
        given = {"Authorization": "Basic " + b64encode(user.encode()).decode()} if user else {}
        body = json.dumps({"partitions": []}) if path == "/leases" else None
        given |= {"Content-Type": "application/json"} if body else {}
        connection.request("POST" if body else "GET", path, body=body, headers={**given, **(headers or {})})
        answer = connection.getresponse()
        text = answer.read().decode()
        connection.close()
        return answer.status, text

    return asyncio.to_thread(ask)


async def statuses(node: AnyNode, paths: tuple[str, ...], **how: Any) -> list[int]:
    return [(await asked(node, path, **how))[0] for path in paths]


def played(mode: str, story: Callable[[AnyNode], Awaitable[None]], **configs: str) -> None:
    async def run() -> None:
        async with running(mode, **configs) as node:
            await story(node)

    play(run)


def test_on_loopback_every_page_is_served_without_a_login(mode: str) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PATHS) == [200] * 6 + [404]
        assert await statuses(node, PROBES) == [200, 200]

    played(mode, story)


@pytest.mark.parametrize("listener", ["0.0.0.0:0", "[::]:0"])
def test_beyond_loopback_only_the_probes_are_served_without_a_login(mode: str, listener: str) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PATHS) == [403] * 7
        assert await statuses(node, PROBES) == [200, 200]

    played(mode, story, listener=listener)


def test_a_path_is_opened_by_its_config(mode: str) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PATHS) == [200] + [403] * 6

    played(mode, story, listener="0.0.0.0:0", open_paths="/metrics")


def test_names_of_other_sites_are_refused(mode: str) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PATHS, headers={"Host": "evil.example"}) == [421] * 7
        assert await statuses(node, PROBES, headers={"Host": "evil.example"}) == [200, 200]
        for name in ("own.example:9404", socket.gethostname(), "localhost", "[::1]:80"):
            assert await statuses(node, ("/metrics",), headers={"Host": name}) == [200]

    played(mode, story, hosts="own.example")


def test_users_of_a_file_log_in(mode: str, tmp_path: Path) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PATHS) == [401] * 7
        assert await statuses(node, PATHS, user="ann:wrong") == [401] * 7
        assert await statuses(node, PATHS, user="ann:right") == [200] * 6 + [404]
        assert await statuses(node, PROBES) == [200, 200]

    file = tmp_path / "users.properties"
    file.write_text("ann=right\n")
    file.chmod(0o600)
    played(mode, story, users=str(file))


def test_probes_can_be_closed(mode: str, tmp_path: Path) -> None:
    async def story(node: AnyNode) -> None:
        assert await statuses(node, PROBES) == [401, 401]

    file = tmp_path / "users.properties"
    file.write_text("ann=right\n")
    played(mode, story, users=str(file), open_paths="")


def test_users_of_a_zookeeper_cluster_log_in_by_their_scram_passwords() -> None:
    async def story(node: ZooKeeperNode) -> None:
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

    async def run() -> None:
        async with running("ZooKeeper", users="scram") as node:
            assert isinstance(node, ZooKeeperNode)
            await story(node)

    play(run)


def test_the_port_speaks_https(mode: str, tmp_path: Path) -> None:
    async def story(node: AnyNode) -> None:
        trusting = ssl.create_default_context(cadata=AUTHORITY.issued.certificate)
        assert await statuses(node, PATHS, context=trusting) == [200] * 6 + [404]
        assert await asked(node, "/live") == (400, "this port speaks https\n")

    keys = tmp_path / "port.pem"
    keys.write_text(AUTHORITY.issue("port", ["127.0.0.1"], datetime.now(UTC)).pem)
    played(mode, story, ssl_keystore_location=str(keys))


@pytest.mark.parametrize("listener", ["127.0.0.1:0", ""])
@pytest.mark.parametrize("name", ["users", "ssl_keystore_location"])
def test_a_file_that_cannot_be_used_refuses_the_start(mode: str, name: str, listener: str, tmp_path: Path) -> None:
    async def story(_node: AnyNode) -> None:
        pytest.fail("it has started")

    with pytest.raises(StartRefused, match=rf"^kpybroker\.http\.{name.replace('_', '.')}"):
        played(mode, story, listener=listener, **{name: str(tmp_path / "none")})


def test_a_port_that_is_taken_refuses_the_start(mode: str) -> None:
    async def story(_node: AnyNode) -> None:
        pytest.fail("it has started")

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(StartRefused, match="cannot serve metrics on"):
        played(mode, story, listener=f"127.0.0.1:{taken.getsockname()[1]}")


def test_without_a_listener_there_is_no_second_port(mode: str) -> None:
    async def story(node: AnyNode) -> None:
        assert node.http_port is None

    played(mode, story, listener="")


def test_the_console_and_the_leases_of_a_broker_in_zookeeper_mode_show_its_topics() -> None:
    async def story() -> None:
        world = World()
        node = world.node(kpybroker_http_listener="127.0.0.1:0")
        await node.start(world.disk)
        broker, joined = node.broker, node._joined
        assert broker is not None
        assert joined is not None
        await until(lambda: broker.image.brokers)
        await ordered(node, lead(0, joined.registration.epoch()))
        for page in PAGES:
            if "{" not in page.path.replace("{topic}", "t").replace("{partition}", "0"):
                path = page.api_path.replace("{topic}", "t").replace("{partition}", "0")
                status, text = await asked(node, path)
                assert status in (200, 400, 404), text  # 400 and 404: it needs a query
        assert [each["name"] for each in json.loads((await asked(node, "/api/topics"))[1])["topics"]] == ["t"]
        assert (await asked(node, "/topics/t/0"))[0] == 200
        await node.stop()

    play(story)
