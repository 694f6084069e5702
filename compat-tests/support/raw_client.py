"""A Kafka client that sends exactly what a test says: one connection, one request at a time, any version."""

import socket
import struct
from collections.abc import Mapping
from typing import Any

from kpywire import api
from kpywire.codec import decode, encode
from kpywire.header import decode_response_header, encode_request_header


class UpTo(int):
    """A version in whose place the newest one that is served will do: the test is about something else."""


class RawClient:
    """One connection to a broker. Use as a context manager."""

    newest: Mapping[int, int] | None = None
    """The newest version of each API where not all are served, as in ZooKeeper mode; a test that sends others is
    skipped."""

    def __init__(
        self, port: int, host: str = "127.0.0.1", client_id: str | None = "raw", timeout_s: float = 30
    ) -> None:
        self.sock = socket.create_connection((host, port), timeout=timeout_s)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.client_id = client_id
        self.correlation_id = 0

    def __enter__(self) -> "RawClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def frame(self, request: Any, version: int) -> bytes:
        """The bytes of a request with its size; takes the next correlation id."""
        key = api_key_of(request)
        version = self._served(key, version)
        self.correlation_id += 1
        body = encode_request_header(key, version, self.correlation_id, self.client_id) + encode(request, version)
        return struct.pack(">i", len(body)) + body

    def _served(self, key: int, version: int) -> int:
        """The version to use; a test of one that is not served is skipped."""
        newest = version if self.newest is None else self.newest.get(key, -1)
        if version > newest and (newest < 0 or not isinstance(version, UpTo)):
            import pytest

            pytest.skip(f"{api.API_KEYS[key].name} version {version} is not served in ZooKeeper mode")
        return min(version, newest)

    def send(self, request: Any, version: int) -> int:
        """Send without waiting; the correlation id."""
        self.sock.sendall(self.frame(request, version))
        return self.correlation_id

    def receive(self, api_key: int, version: int) -> Any:
        """The next response, decoded as one to ``api_key``; ConnectionError when the broker closed instead."""
        version = self._served(api_key, version)
        size = struct.unpack(">i", self._read(4))[0]
        buffer = self._read(size)
        correlation_id, end = decode_response_header(api_key, version, buffer)
        self.received_id = correlation_id
        return decode(api.response_class(api_key), version, buffer, end)

    def call(self, request: Any, version: int) -> Any:
        """Send and wait for the response."""
        sent = self.send(request, version)
        response = self.receive(api_key_of(request), version)
        assert self.received_id == sent, f"answer {self.received_id} to request {sent}"
        return response

    def is_closed(self) -> bool:
        """Whether the broker closes the connection without another byte."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            chunk = self.sock.recv(count - len(data))
            if not chunk:
                raise ConnectionError("the broker closed the connection")
            data += chunk
        return bytes(data)


def connect(bootstrap_server: str) -> RawClient:
    """A connection to ``host:port``."""
    host, _, port = bootstrap_server.rpartition(":")
    return RawClient(int(port), host)


def api_key_of(request: Any) -> int:
    """The API key of a request message."""
    name = type(request).__name__.removesuffix("Request")
    return next(entry.key for entry in api.API_KEYS.values() if entry.name == name)
