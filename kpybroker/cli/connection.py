"""One TCP connection of a command line tool to one broker: requests and their answers in turn.

Not for the broker itself, which speaks to other nodes from its event loop. The version of each request is the newest
that both sides know (KIP-511).
"""

import socket
from struct import Struct
from typing import Any

from kpybroker import __version__
from kpybroker.errors import KafkaError
from kpywire import api, codec, error_codes
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

CLIENT_ID = "kpybroker"
MAX_RESPONSE_BYTES = 256 * 1024 * 1024
_SIZE = Struct(">i")
_API_VERSIONS_VERSION = 3


class Unreachable(Exception):
    """The broker cannot be reached, went away, or does not speak Kafka's protocol; the text is one line for people."""


class Connection:
    """A connection that has asked the broker which versions it serves. Raises Unreachable, and so does every call."""

    def __init__(self, host: str, port: int, timeout_s: float) -> None:
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            raise Unreachable(f"no broker answers at {self.address}: {_reason(error)}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._negotiate()

    def close(self) -> None:
        self._socket.close()

    def call(self, request: Any, wait_s: float = 0.0, newest: int | None = None) -> Any:
        """Send a request and return the response; ``wait_s`` is what the broker itself may wait before it answers.

        ``newest`` is the last version that can carry what the request says, where later ones say it otherwise.

        Raises:
            Unreachable: the connection is of no use any more.
            KafkaError: UNSUPPORTED_VERSION, the broker serves no version that we know or that can carry the request.
        """
        key = type(request).KEY
        try:
            return self._exchange(request, key, self._version(key, newest), wait_s)
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{self.address} is too old: {error}") from None

    def _version(self, key: int, newest: int | None = None) -> int:
        known = api.API_KEYS[key]
        first, last = self._versions.get(key, (0, -1))
        version = min(last, known.max_version if newest is None else newest)
        if version < max(first, known.min_version):
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{self.address} does not serve {known.name}")
        return version

    def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name=CLIENT_ID, client_software_version=__version__)
        answer: ApiVersionsResponse = self._exchange(request, api.API_VERSIONS, _API_VERSIONS_VERSION, 0.0)
        if answer.error_code == error_codes.UNSUPPORTED_VERSION:
            answer = self._exchange(request, api.API_VERSIONS, 0, 0.0)
        if answer.error_code:
            raise Unreachable(f"{self.address} answers {error_codes.name(answer.error_code)}")
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}

    def _exchange(self, request: Any, key: int, version: int, wait_s: float) -> Any:
        self._correlation_id += 1
        header = encode_request_header(key, version, self._correlation_id, CLIENT_ID)
        body = codec.encode(request, version)
        try:
            self._socket.settimeout(self._timeout_s + wait_s)
            self._socket.sendall(_SIZE.pack(len(header) + len(body)) + header + body)
            (size,) = _SIZE.unpack(self._receive(_SIZE.size))
            if not 0 <= size <= MAX_RESPONSE_BYTES:
                raise Malformed(f"an answer of {size} bytes")
            return self._decode(key, version, self._receive(size))
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.address}: {_reason(error)}") from None
        except Malformed as error:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol: {error}") from None

    def _decode(self, key: int, version: int, frame: bytes) -> Any:
        correlation_id, start = decode_response_header(key, version, frame)
        if correlation_id != self._correlation_id:
            raise Malformed(f"answer {correlation_id} to request {self._correlation_id}")
        if key == api.API_VERSIONS and frame[start : start + 2] == b"\0\x23":
            version = 0  # UNSUPPORTED_VERSION comes in version 0
        return codec.decode(api.response_class(key), version, frame, start)

    def _receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = self._socket.recv(min(count - len(received), 1 << 20))
            if not piece:
                raise ConnectionResetError("the broker closed it")
            received += piece
        return bytes(received)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)
