"""The harness of the damaged requests: it loses none, finds who ends a connection, and makes failures smaller."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from catalogue import Specimen
from damage import Damaged, Edit, damaged
from volley import FENCE_BYTES, Unanswered, Volley

from kpywire import api

ANSWERED, CLOSING, IGNORED = b"a", b"c", b"i"


class Pretender:
    """Answers what is asked; closes, or falls silent, at payloads that end in a mark. ``seen`` counts the others."""

    def __init__(self) -> None:
        self.seen: list[bytes] = []
        self.listening = socket.create_server(("127.0.0.1", 0))
        self.port = self.listening.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self.listening.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with sock, sock.makefile("rb") as stream, suppress(ConnectionError):
            while len(size := stream.read(4)) == 4:
                payload = stream.read(struct.unpack(">i", size)[0])
                if payload.endswith(CLOSING):
                    return
                if payload.endswith(IGNORED):
                    stream.read()
                    return
                if len(payload) != FENCE_BYTES:
                    self.seen.append(payload)
                sock.sendall(struct.pack(">i", 4) + payload[4:8])


@pytest.fixture
def pretender() -> Iterator[Pretender]:
    pretender = Pretender()
    yield pretender
    pretender.listening.close()


def request(number: int, mark: bytes, key: int = api.METADATA) -> Damaged:
    return Damaged(Specimen(key, 9, struct.pack(">hhi", key, 9, number) + b"a long body" + mark), "test", ())


def test_every_request_is_answered_or_closed(pretender: Pretender) -> None:
    requests = [request(number, CLOSING if number % 7 == 3 else ANSWERED) for number in range(1000)]
    volley = Volley(pretender.port)
    volley.fire(iter(requests))
    answered = {one.payload for one in requests if not one.payload.endswith(CLOSING)}
    assert set(pretender.seen) == answered
    assert volley.sent == 1000
    assert volley.closed >= 1000 - len(answered)


def test_unanswered_clients_are_named(pretender: Pretender, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("volley.PATIENCE_S", 0.2)
    requests = [request(number, IGNORED if number == 20 else ANSWERED) for number in range(40)]
    with pytest.raises(Unanswered) as raised:
        Volley(pretender.port, lanes=1).fire(iter(requests))
    assert raised.value.suspects[0] == requests[20]


def test_requests_that_may_wait_are_not_reported(pretender: Pretender) -> None:
    requests = [request(number, IGNORED if number == 20 else ANSWERED, api.FETCH) for number in range(40)]
    volley = Volley(pretender.port, lanes=2)
    volley.fire(iter(requests))
    assert (volley.sent, volley.parked) == (40, 1)
    assert {one.payload for one in requests} - set(pretender.seen) == {requests[20].payload}


def test_a_seed_makes_the_same_requests_again_and_edits_can_be_left_out() -> None:
    specimen = request(1, ANSWERED).specimen
    first, again, other = (list(damaged([specimen], 300, seed)) for seed in (1, 1, 2))
    assert first == again != other
    two = Damaged(specimen, "test", (Edit(8, 1, b"X"), Edit(9, 2, b"")))
    assert [one.payload[8:12] for one in two.smaller()] == [b"aong", b"X lo"]
