"""Bytes on their way to one client arrive whole and in order, and are counted for as long as they are held."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest_server import TemporarySlice, unwatched

from kpybroker.requests.server.outbox import SMALL_SLICE_BYTES, Outbox, Reply
from kpybroker.runtime.calls.pending import NOBODYS


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()) as client,
    ):
        accepted, _ = listening.accept()
        with accepted:
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            accepted.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
            yield accepted, client


def in_no_thread(_read: object, _done: object) -> None:
    raise AssertionError("nothing is cold")


def new_outbox(sock: socket.socket) -> Outbox:
    return Outbox(unwatched(sock), in_no_thread, lambda: None)


def received(outbox: Outbox, client: socket.socket, size: int) -> bytes:
    """The bytes that come when the outbox sends as the client reads."""
    found = bytearray()
    while len(found) < size:
        outbox.flush()
        found += client.recv(65536)
    return bytes(found)


def test_bytes_and_slices_of_files_arrive_in_their_order(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    content = bytes(range(256)) * 40_000
    path = tmp_path / "log"
    path.write_bytes(content)
    large, small = len(content) - 300, SMALL_SLICE_BYTES // 2
    replies: list[Reply] = [
        b"plain",
        [b"head", TemporarySlice(path, 256, large), b"between", TemporarySlice(path, 3, small), b"tail"],
        b".",
    ]
    wanted = b"plain" + b"head" + content[256 : 256 + large] + b"between" + content[3 : 3 + small] + b"tail" + b"."
    outbox = new_outbox(ends[0])
    for reply in replies:
        outbox.put(reply, NOBODYS)
    assert not outbox.flush(), "the socket took ten megabytes at once"
    assert received(outbox, ends[1], len(wanted)) == wanted
    assert outbox.flush()


def test_held_bytes_are_counted_until_they_are_sent(ends: tuple[socket.socket, socket.socket], tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(bytes(10_000_000))
    slices = [TemporarySlice(path, 0, 5_000_000), TemporarySlice(path, 0, 4_000_000), TemporarySlice(path, 0, 100)]
    outbox = new_outbox(ends[0])
    outbox.put([b"head", slices[0], b"between", slices[1], b"and", slices[2]], NOBODYS)
    assert (outbox.held_bytes, outbox.held_files) == (4 + 7 + 3 + 100, 2)
    assert not outbox.flush()
    assert (outbox.held_bytes, outbox.held_files) == (7 + 3 + 100, 2), "a slice is held until all of it is sent"
    received(outbox, ends[1], 4 + 5_000_000 + 7 + 4_000_000 + 3 + 100)
    assert outbox.flush()
    assert (outbox.held_bytes, outbox.held_files) == (0, 0)
    outbox.put(b"x" * 100, NOBODYS)
    assert outbox.held_bytes == 100
    outbox.clear()
    assert (outbox.held_bytes, outbox.held_files) == (0, 0)


def test_a_closed_channel_writes_nothing_to_its_descriptor(
    ends: tuple[socket.socket, socket.socket], tmp_path: Path
) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"secret")
    channel = unwatched(ends[0])
    number = ends[0].fileno()
    with (tmp_path / "other").open("wb") as other, path.open("rb") as log:
        channel.close()
        os.dup2(other.fileno(), number)
        with pytest.raises(OSError, match="Bad file descriptor"):
            channel.send_file(log.fileno(), 0, 6)
        with pytest.raises(OSError, match="Bad file descriptor"):
            channel.send(b"secret")
    os.close(number)
    assert (tmp_path / "other").read_bytes() == b""
