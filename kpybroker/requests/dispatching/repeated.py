"""Requests that a connection sends again. A header that was read before is recognised (`KnownCall`). A request that is
the same byte for byte, such as the heartbeat of a member at rest, is decoded once, and its response is encoded once.

Only the bytes are the same. Each request is counted, authorized, charged to quotas and handled as ever; the handler
gets the same message object again, and may know it by that. If it returns the same response object again, the same
bytes are sent. Commits differ from one another, so only their responses are kept.

Invariant: no message of these kinds is changed after it was decoded, and no response after a handler returned it.
"""

from struct import Struct
from typing import Any, Final

from kpybroker.requests.dispatching.replies import encode
from kpybroker.requests.dispatching.served import ServedVersion
from kpybroker.requests.server.outbox import Reply
from kpybroker.runtime.calls.call import Call

HEADER: Final = Struct(">ii")
"""The start of every request: its api key and version as one number, and its correlation id."""
LONGEST_BYTES: Final = 512
"""Longer requests and replies are not kept."""
NO_REQUESTS: Final = -1
"""In place of `LONGEST_BYTES`: no request is kept, only responses."""
_pack_correlation_id: Final = Struct(">i").pack


class Repeated:
    """The last request of one kind on one connection, and the last response."""

    __slots__ = ("_body", "_end", "_errors", "_longest_bytes", "_request", "_response", "_response_bytes", "_start")

    def __init__(self, longest_bytes: int = LONGEST_BYTES) -> None:
        """``longest_bytes``: longer requests are not kept."""
        self._longest_bytes = longest_bytes
        self._body = b""
        self._request: Any = None
        self._response: Any = None
        self._start = self._end = b""
        """The bytes of the reply before its correlation id, and after it."""
        self._response_bytes = 0
        self._errors: list[int] | None = None
        """The error codes in the response, once it was given again."""

    def decode(self, served: ServedVersion, frame: memoryview, position: int) -> Any:
        """The request whose body begins at ``position``. Raises Malformed, like the decoder."""
        if len(frame) - position > self._longest_bytes:
            self._request = None
            return served.decode(frame, position)[0]
        body = bytes(frame[position:])
        if self._request is None or body != self._body:
            self._request = served.decode(frame, position)[0]
            self._body = body
        return self._request

    def encode(self, served: ServedVersion, correlation_id: int, response: Any) -> Reply:
        """The reply with this response."""
        counters = served.counters
        if response is self._response:
            errors = self._errors
            if errors is None:
                errors = self._errors = []
                if served.errors_in is not None:
                    served.errors_in(response, errors)
            for code in errors:
                counters.count_error(code)
            counters.response_bytes += self._response_bytes
            return self._start + _pack_correlation_id(correlation_id) + self._end
        counted_bytes = counters.response_bytes
        reply = encode(served, correlation_id, response)
        self._response = None
        if type(reply) is bytes and len(reply) <= LONGEST_BYTES:
            self._response = response
            self._start, self._end = reply[:4], reply[8:]
            self._response_bytes = counters.response_bytes - counted_bytes
            self._errors = None
        return reply


class KnownCall:
    """A request header that was read before on this connection. The next one differs only in its correlation id.

    ``rest`` holds the bytes after the correlation id: the client id, its length and the header's tagged fields.
    """

    __slots__ = ("call", "header_end", "repeated", "rest", "rest_from", "served")

    def __init__(
        self, served: ServedVersion, call: Call, frame: memoryview, header_end: int, repeated: Repeated | None
    ) -> None:
        """``repeated`` keeps the body, if clients repeat requests of this kind."""
        self.served = served
        self.call = call
        self.header_end = header_end
        # A slice of the frame would be compared with bytes in three times as long.
        self.rest_from = Struct(f"{HEADER.size}x{header_end - HEADER.size}s").unpack_from
        self.rest: tuple[Any, ...] = self.rest_from(frame)
        self.repeated = repeated


def kind_of(api_key: int, api_version: int) -> int:
    """The first number of a request with this key and version."""
    return api_key << 16 | api_version
