"""Connections that never log in, by the thousand: what they send first, and what comes back until they are closed."""

import select
import socket
import ssl
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from watched import PATIENCE_S

from kpybroker.machines.sasl.plain import PlainClient
from kpybroker.machines.sasl.scram import SCRAM_SHA_256
from kpybroker.machines.sasl.scram_client import ScramClient
from kpywire import api
from kpywire.codec import encode
from kpywire.header import encode_request_header
from kpywire.messages.metadata import MetadataRequest
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest
from kpywire.messages.sasl_handshake import SaslHandshakeRequest

HANDSHAKE_ID, TOKEN_ID, FENCE_ID = 1, 2, 0x7EACE
METADATA_VERSION = 12
FirstBytes = Callable[[int], bytes]


def frame(payload: bytes) -> bytes:
    return struct.pack(">i", len(payload)) + payload


def handshake(mechanism: str = "PLAIN") -> bytes:
    """The frame that chooses a mechanism."""
    header = encode_request_header(api.SASL_HANDSHAKE, 1, HANDSHAKE_ID, "x")
    return frame(header + encode(SaslHandshakeRequest(mechanism=mechanism), 1))


def token(data: bytes) -> bytes:
    """The frame of one message of a mechanism."""
    header = encode_request_header(api.SASL_AUTHENTICATE, 2, TOKEN_ID, "x")
    return frame(header + encode(SaslAuthenticateRequest(auth_bytes=data), 2))


def plain_guess(number: int) -> bytes:
    """A login by PLAIN with a wrong password, of a user that exists or does not."""
    return handshake() + token(PlainClient(("alice", "eve")[number % 2], f"guess {number}").first())


def scram_beginning(number: int) -> bytes:
    """The first message of SCRAM, by which a server remembers something."""
    return handshake("SCRAM-SHA-256") + token(ScramClient(SCRAM_SHA_256, "eve", "x", f"nonce{number}").first())


def metadata() -> bytes:
    """The request that only a client that is logged in may make."""
    header = encode_request_header(api.METADATA, METADATA_VERSION, FENCE_ID, "x")
    return frame(header + encode(MetadataRequest(topics=[]), METADATA_VERSION))


def client_hello(version: ssl.TLSVersion = ssl.TLSVersion.TLSv1_3) -> bytes:
    """The first bytes of a TLS client."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.maximum_version = version
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname="localhost").do_handshake()
    return outgoing.read()


def play(
    port: int, first_bytes: FirstBytes, numbers: Iterator[int], at_once: int, *, ends: bool = False
) -> list[bytes]:
    """Have each number's bytes sent on a connection of its own, and wait until the broker closes it. ``ends``: send
    no more after them. The result is what came back, in the order in which connections were closed."""
    poll = select.poll()
    opened: dict[int, tuple[socket.socket, bytearray]] = {}
    answers: list[bytes] = []
    last_s = time.monotonic()
    for number in _refilling(numbers, opened, at_once, poll, answers):
        if number is None:
            if time.monotonic() - last_s > PATIENCE_S:
                raise AssertionError(f"{len(opened)} connections are not closed")
            continue
        last_s = time.monotonic()
        sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
        with suppress(ConnectionError):  # closed in the middle of what it gets
            sock.sendall(first_bytes(number))
            if ends:
                sock.shutdown(socket.SHUT_WR)
        sock.setblocking(False)
        opened[sock.fileno()] = sock, bytearray()
        poll.register(sock, select.POLLIN)
    return answers


def _refilling(
    numbers: Iterator[int],
    opened: dict[int, tuple[socket.socket, bytearray]],
    at_once: int,
    poll: "select.poll",
    answers: list[bytes],
) -> Iterator[int | None]:
    """The next number whenever there is room; None where nothing happened."""
    while True:
        number = next(numbers, None) if len(opened) < at_once else None
        if number is not None:
            yield number
            continue
        if not opened:
            return
        found = poll.poll(100)
        if not found:
            yield None
        for descriptor, _ in found:
            sock, received = opened[descriptor]
            try:
                data = sock.recv(1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            received += data
            if not data:
                poll.unregister(descriptor)
                del opened[descriptor]
                sock.close()
                answers.append(bytes(received))


def converse(port: int, data: bytes, frames: int) -> bytes:
    """Send bytes, and return the first frames that come back."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        sock.sendall(data)
        while len(list(whole_frames(received))) < frames and (more := sock.recv(1 << 16)):
            received += more
    return bytes(received)


@contextmanager
def half_open(port: int, first_bytes: FirstBytes, count: int) -> Iterator[list[socket.socket]]:
    """Connections that stop after their first bytes, and end with a reset."""
    socks: list[socket.socket] = []
    try:
        for number in range(count):
            sock = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)
            sock.sendall(first_bytes(number))
            socks.append(sock)
        yield socks
    finally:
        for sock in socks:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            sock.close()


def whole_frames(data: bytes | bytearray) -> Iterator[int]:
    """The positions of the frames that have come as a whole."""
    position = 0
    while position + 4 <= len(data):
        (size,) = struct.unpack_from(">i", data, position)
        if position + 4 + size > len(data):
            return
        yield position
        position += 4 + size


def frames_of(data: bytes) -> Iterator[tuple[int, bytes]]:
    """The answers in a stream of bytes: (correlation id, all behind it)."""
    position = 0
    while position + 8 <= len(data):
        size, number = struct.unpack_from(">ii", data, position)
        yield number, data[position + 8 : position + 4 + size]
        position += 4 + max(size, 4)
