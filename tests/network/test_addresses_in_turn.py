"""A host with several addresses: they are tried in turn, and a closed port counts if all of them are closed."""

import asyncio
import socket
from typing import Any

import pytest

from kpybroker.hosts.network import outgoing
from kpybroker.hosts.network.outgoing import NoListener, Outgoing


def attempt(monkeypatch: pytest.MonkeyPatch, addresses: list[str], *, silent: str = "", listens: str = "") -> str:
    """Connect to a name with these addresses. Return "opened", or why it was not. ``silent`` takes packets and does
    not answer."""
    monkeypatch.setattr(outgoing, "SETUP_TIMEOUT_S", 0.05)

    async def run() -> str:
        loop = asyncio.get_running_loop()
        server = await asyncio.start_server(lambda _reader, _writer: None, listens or "127.0.0.9", 0)
        port = server.sockets[0].getsockname()[1]
        really = loop.sock_connect

        async def resolve(_host: str, port: int, **_hints: Any) -> list[Any]:
            return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port)) for each in addresses]

        async def connect(sock: socket.socket, address: Any) -> None:
            if address[0] == silent:
                await asyncio.sleep(3600)
            await really(sock, address)

        monkeypatch.setattr(loop, "getaddrinfo", resolve)
        monkeypatch.setattr(loop, "sock_connect", connect)
        ended: asyncio.Future[str] = loop.create_future()
        link = Outgoing(lambda: ended.set_result("opened"), lambda _frame: None, ended.set_result, 1000)
        link.connect(loop, "several.example", port)
        reason = await asyncio.wait_for(ended, 30)
        link.close()
        server.close()
        return reason

    return asyncio.run(run())


def test_the_next_address_is_tried_after_one_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempt(monkeypatch, ["127.0.0.2", "127.0.0.3"], listens="127.0.0.3") == "opened"


def test_the_next_address_is_tried_after_one_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    assert attempt(monkeypatch, ["127.0.0.2", "127.0.0.3"], silent="127.0.0.2", listens="127.0.0.3") == "opened"


def test_a_port_is_closed_if_it_is_closed_on_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(attempt(monkeypatch, ["127.0.0.2", "127.0.0.3"]), NoListener)
    unknown = attempt(monkeypatch, ["127.0.0.2", "127.0.0.3"], silent="127.0.0.3")
    assert unknown == "Connection timed out"
    assert not isinstance(unknown, NoListener)
