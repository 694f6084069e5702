"""A connection's next request of a kind is recognised by its header, and by nothing less than all of it."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from running_node import RunningNode

from kpybroker.requests.dispatching.repeated import kind_of

API_VERSIONS = 18


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    path: Path = tmp_path_factory.mktemp("node")
    running = RunningNode({"log.dirs": str(path)})
    yield running
    running.stop()


class Client:
    """A client that asks for versions, in version 0, whose body is empty."""

    def __init__(self, node: RunningNode) -> None:
        self.node = node
        self.sock = socket.create_connection(("127.0.0.1", node.port), 30)
        self.asked = 0

    def ask(self, client_id: bytes) -> None:
        """One request, whose answer has its correlation id."""
        self.asked += 1
        frame = struct.pack(">hhih", API_VERSIONS, 0, self.asked, len(client_id)) + client_id
        self.sock.sendall(struct.pack(">i", len(frame)) + frame)
        with self.sock.makefile("rb") as answers:
            (size,) = struct.unpack(">i", answers.read(4))
            assert struct.unpack_from(">i", answers.read(size))[0] == self.asked

    def known(self) -> list[tuple[int, str | None]]:
        """The kinds of request that the node would recognise on this connection, and their client ids."""
        ours = self.sock.getsockname()[1]

        def read() -> list[tuple[int, str | None]]:
            assert self.node.node.server is not None
            clients = [each.client for each in self.node.node.server.connections]
            return [
                (kind, known.call.client_id)
                for client in clients
                if client.port == ours
                for kind, known in client.calls.items()
            ]

        found: list[tuple[int, str | None]] = self.node.call(read)
        return found


@pytest.fixture
def client(node: RunningNode) -> Iterator[Client]:
    made = Client(node)
    yield made
    made.sock.close()


@pytest.mark.parametrize("other", [b"other", b"o", b"", b"one and more"], ids=["equally long", "short", "none", "long"])
def test_a_request_of_another_client_id_is_not_taken_for_the_last_one(client: Client, other: bytes) -> None:
    for client_id in (b"first", b"first", other, other, b"first"):
        client.ask(client_id)
        assert client.known() == [(kind_of(API_VERSIONS, 0), client_id.decode())]


def test_the_same_header_is_not_read_again(client: Client) -> None:
    client.ask(b"first")
    (before,) = client.node.call(lambda: _calls(client))
    client.ask(b"first")
    (after,) = client.node.call(lambda: _calls(client))
    assert after is before


def _calls(client: Client) -> list[object]:
    ours = client.sock.getsockname()[1]
    assert client.node.node.server is not None
    return [
        call
        for connection in client.node.node.server.connections
        if connection.client.port == ours
        for call in connection.client.calls.values()
    ]
