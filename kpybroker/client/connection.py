"""One blocking connection to one broker: requests and their answers in turn.

Not for the broker itself, which speaks to other nodes from its event loop.
"""

import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final

from kpybroker.client.conversation import CLIENT_ID, GREETING_VERSIONS, SIZE, SOFTWARE, Conversation
from kpybroker.errors import KafkaError
from kpywire import api, error_codes
from kpywire.errors import Malformed, UnsupportedVersion

SILENT_S: Final = 3.0
"""The time after the broker's own waiting time before a missing answer is reported."""
HTTP_S: Final = 1.0
_OTHERS: Final = {
    b"HTTP": "HTTP",
    b"<!DO": "HTTP",
    b"<htm": "HTTP",
    b"<HTM": "HTTP",
    b"\x15\x03\x01\x00": "TLS",
    b"\x15\x03\x03\x00": "TLS",
}
"""The first bytes of answers from servers that speak other protocols."""
_REMEDIES: Final = {
    "HTTP": "a web server, or a broker's second port with its metrics; Kafka's usual port is 9092",
    "TLS": "a listener for ssl; this client speaks PLAINTEXT only",
}


class Unreachable(Exception):
    """The broker cannot be reached, went away, or does not speak Kafka's protocol; the text is one line for people."""


class _Ended(Unreachable):
    """The other side closed the connection."""


class NotConnected(Unreachable):
    """The connection could not be made: the broker received nothing."""


class Connection:
    """A connection that has asked the broker which versions it serves. Raises Unreachable, and so does every call."""

    def __init__(
        self,
        host: str,
        port: int,
        timeout_s: float,
        *,
        connect_timeout_s: float | None = None,
        client_id: str = CLIENT_ID,
        on_silence: Callable[[str], object] | None = None,
    ) -> None:
        """Connect. ``on_silence`` is called with a text for people when an answer is overdue and still awaited."""
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._timeout_s = timeout_s
        self._on_silence = on_silence
        self._conversation = Conversation(self.address, client_id)
        try:
            self._socket = socket.create_connection(
                (host, port), timeout_s if connect_timeout_s is None else connect_timeout_s
            )
        except OSError as error:
            raise NotConnected(f"no broker answers at {self.address}: {_reason(error)}") from None
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            self._negotiate()
        except _Ended as error:
            self._socket.close()
            raise Unreachable(_speaks("HTTP", self.address) if _is_http(host, port) else str(error)) from None

    def close(self) -> None:
        self._socket.close()

    @property
    def is_closed(self) -> bool:
        """Whether the broker has closed the connection while nothing was asked."""
        ready, _, _ = select.select([self._socket], [], [], 0)
        try:
            return bool(ready) and not self._socket.recv(1, socket.MSG_PEEK)
        except OSError:
            return True

    def call(self, request: Any, wait_s: float = 0.0, newest: int | None = None, timeout_s: float | None = None) -> Any:
        """Send a request and return the response. ``wait_s`` is the time that the broker itself may wait before it
        answers.

        ``newest`` is the last version that can hold the contents of the request, where later ones have another form.
        ``timeout_s`` is how long to wait in all, instead of ``wait_s`` and the connection's own timeout.

        Raises: Unreachable: the connection can no longer be used. KafkaError: UNSUPPORTED_VERSION, the broker serves no
        version that is known here or that can carry the request.
        """
        key = type(request).KEY
        try:
            return self._exchange(request, key, self._conversation.version(key, newest), wait_s, timeout_s)
        except UnsupportedVersion as error:
            raise KafkaError(error_codes.UNSUPPORTED_VERSION, f"{self.address} is too old: {error}") from None

    def send(self, request: Any) -> None:
        """Send a request that the broker does not answer, such as a Produce with acks=0. Raises as `call`."""
        try:
            self._transmit(request, self._conversation.version(type(request).KEY), self._timeout_s)
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.address}: {_reason(error)}") from None

    def _negotiate(self) -> None:
        for version in GREETING_VERSIONS:
            answer = self._exchange(SOFTWARE, api.API_VERSIONS, version, 0.0)
            if self._conversation.greeted(answer):
                return
            if answer.error_code != error_codes.UNSUPPORTED_VERSION:
                break
        raise Unreachable(f"{self.address} answers {error_codes.name(answer.error_code)}")

    def _exchange(self, request: Any, key: int, version: int, wait_s: float, timeout_s: float | None = None) -> Any:
        most_s = self._timeout_s + wait_s if timeout_s is None else timeout_s
        began_s = time.monotonic()
        deadline_s, overdue_s = began_s + most_s, began_s + wait_s + SILENT_S
        try:
            self._transmit(request, version, most_s)
            start = self._receive(SIZE.size, deadline_s, overdue_s)
            if start in _OTHERS:
                other = _OTHERS[start]
                raise Unreachable(_speaks(other, self.address))
            frame = self._receive(self._conversation.size(start), deadline_s, overdue_s)
            return self._conversation.answer(key, version, frame)
        except ConnectionError as error:
            raise _Ended(f"lost the connection to {self.address}: {_reason(error)}") from None
        except OSError as error:
            raise Unreachable(f"lost the connection to {self.address}: {_reason(error)}") from None
        except Malformed as error:
            raise Unreachable(f"{self.address} does not speak Kafka's protocol: {error}") from None

    def _transmit(self, request: Any, version: int, timeout_s: float) -> None:
        frame = self._conversation.frame(request, version)
        self._socket.settimeout(timeout_s)
        self._socket.sendall(frame)

    def _receive(self, count: int, deadline_s: float, overdue_s: float) -> bytes:
        """Receive bytes. Raises TimeoutError at ``deadline_s``; reports at ``overdue_s`` that nothing has come yet."""
        received = bytearray()
        is_told = self._on_silence is None
        while len(received) < count:
            until_s = deadline_s if is_told else min(deadline_s, overdue_s)
            self._socket.settimeout(max(until_s - time.monotonic(), 0.001))
            try:
                piece = self._socket.recv(min(count - len(received), 1 << 20))
            except TimeoutError:
                if is_told or time.monotonic() >= deadline_s:
                    raise
                is_told = True
                assert self._on_silence is not None
                self._on_silence(f"{self.address} does not answer")
                continue
            if not piece:
                raise ConnectionResetError("the broker closed it")
            received += piece
        return bytes(received)


def _reason(error: OSError) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return error.strerror or str(error)


def _speaks(other: str, address: str) -> str:
    return f"{address} speaks {other}, not Kafka's protocol: {_REMEDIES[other]}"


def _is_http(host: str, port: int) -> bool:
    """Whether a server that closed the connection without an answer answers a web browser."""
    try:
        with socket.create_connection((host, port), HTTP_S) as peer:
            peer.settimeout(HTTP_S)
            peer.sendall(b"HEAD / HTTP/1.0\r\n\r\n")
            return peer.recv(4) == b"HTTP"
    except OSError:
        return False
