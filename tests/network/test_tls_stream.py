"""TLS to another node over real sockets: what a failed handshake is called, and keys that are renewed."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kpybroker.config.broker import BrokerConfig
from kpybroker.hosts.network.outgoing import NoListener, Unprotected
from kpybroker.hosts.network.peers import connect_over
from kpybroker.hosts.network.tls_stream import ClientContext, tls_stream
from kpybroker.runtime.io.event_loop import new_event_loop
from kpybroker.security.tls.settings import TlsError
from oracle import free_port
from support.certificates import Authority, Certificate

FRAME = b"\0\0\0\x05hello"


class World:
    """An authority, a server's certificate, and the trust of the client."""

    def __init__(self, directory: Path, hosts: tuple[str, ...] = ("localhost", "127.0.0.1")) -> None:
        self.directory = directory
        self.authority = Authority()
        self.server = self.authority.issue(hosts=hosts)
        self.authority.save(directory / "trusted.pem")

    def config(self, **ssl_settings: str) -> BrokerConfig:
        settings = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.directory / "trusted.pem")}
        named = {f"ssl.{name.replace('_', '.')}": text for name, text in ssl_settings.items()}
        return BrokerConfig.load(None, {**settings, **named})

    def client(self, **ssl_settings: str) -> ClientContext:
        context = ClientContext("INTERNAL")
        context.load(self.config(**ssl_settings))
        return context

    def server_context(self, *, demands: bool = False, certificate: Certificate | None = None) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        path = (certificate or self.server).save_pem(self.directory / "server.pem")
        context.load_cert_chain(path)
        if demands:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(cadata=self.authority.pem)
        return context


async def outcome(client: Callable[[], ssl.SSLContext], server: ssl.SSLContext | None, host: str = "127.0.0.1") -> Any:
    """The frame that comes back from a server that echoes, or the reason why none does."""
    loop = asyncio.get_running_loop()

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            data = await reader.read(len(FRAME))
            if data[:1] != b"\x16":
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    listening = await asyncio.start_server(echo, "127.0.0.1", 0, ssl=server)
    ended: asyncio.Future[Any] = loop.create_future()

    def end(result: Any) -> None:
        if not ended.done():
            ended.set_result(result)

    port = listening.sockets[0].getsockname()[1]
    connect = connect_over(loop, open_stream=tls_stream(client))
    link = connect(host, port, lambda: link.send(FRAME[4:]), lambda frame: end(bytes(frame)), end)
    try:
        return await asyncio.wait_for(ended, 10)
    finally:
        link.close()
        listening.close()


@pytest.fixture(params=[asyncio.new_event_loop, new_event_loop])
def run(request: pytest.FixtureRequest) -> Any:
    """Run a coroutine in a loop as nodes have, and in the standard library's."""

    def in_loop(coroutine: Any) -> Any:
        loop = request.param()
        loop.set_exception_handler(lambda _loop, _context: None)  # a server's side of refused handshakes
        try:
            return loop.run_until_complete(coroutine)
        finally:
            loop.close()

    return in_loop


def test_frames_pass_to_a_server_that_is_trusted(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    assert run(outcome(world.client(), world.server_context())) == b"hello"


def test_a_node_shows_its_certificate_to_a_server_that_demands_one(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    own = world.authority.issue("node").save_pem(tmp_path / "own.pem")
    client = world.client(keystore_type="PEM", keystore_location=str(own))
    assert run(outcome(client, world.server_context(demands=True))) == b"hello"


def test_each_mistake_has_a_reason_that_says_what_to_mend(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    stranger = Authority("Somebody else").issue()
    elsewhere = world.authority.issue(hosts=("other.example",))
    old = world.authority.issue(days=(-3, -1))
    cases = [
        (world.server_context(certificate=stranger), "is not trusted"),
        (world.server_context(certificate=elsewhere), "is for another host"),
        (world.server_context(certificate=old), "is not valid now"),
        (None, "TLS"),
    ]
    for server, words in cases:
        reason = run(outcome(world.client(), server))
        assert isinstance(reason, Unprotected), reason
        assert words in reason


def test_a_certificate_of_another_host_is_believed_if_names_are_not_checked(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path, hosts=("other.example",))
    client = world.client(endpoint_identification_algorithm="")
    assert run(outcome(client, world.server_context())) == b"hello"


def test_a_server_that_demands_a_certificate_refuses_a_node_without_one(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path)
    reason = run(outcome(world.client(), world.server_context(demands=True)))
    assert isinstance(reason, str), "TLS 1.3: after the handshake, or the connection is reset"


def test_a_closed_port_is_no_failed_handshake(run: Any, tmp_path: Path) -> None:
    world = World(tmp_path)

    async def ask() -> Any:
        ended = asyncio.get_running_loop().create_future()
        connect = connect_over(asyncio.get_running_loop(), open_stream=tls_stream(world.client()))
        connect("127.0.0.1", free_port(), lambda: None, lambda _frame: None, ended.set_result)
        return await asyncio.wait_for(ended, 10)

    assert isinstance(run(ask()), NoListener)


def test_files_are_read_again_when_they_change_and_kept_if_they_cannot_be_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(tmp_path)
    context = world.client()
    first = context()
    assert context() is first
    (tmp_path / "trusted.pem").write_text("damaged")
    assert context() is first
    assert context() is first
    assert len(caplog.messages) == 1
    Authority("Another").save(tmp_path / "trusted.pem")
    assert context() is not first


def test_stores_that_cannot_be_read_are_refused_at_the_start_with_the_listener(tmp_path: Path) -> None:
    world = World(tmp_path)
    (tmp_path / "trusted.pem").unlink()
    with pytest.raises(TlsError, match="connections to listener INTERNAL: "):
        world.client()
