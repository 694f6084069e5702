"""Requests to another node, over one connection. It is opened at the first request, and again after it was lost.

Requests are sent at once and answered in order. Each has the newest version that both nodes know (KIP-511). There is no
retry here: the caller learns that there will be no answer, and decides what to do.

Invariant: ``done`` of each request is called once, with the response or with :class:`NoResponse`.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from kpybroker import __version__
from kpybroker.hosts.network.older_versions import as_of
from kpybroker.hosts.network.outgoing import NoListener
from kpybroker.runtime.io.scheduler import Scheduler, Timer
from kpywire import api, codec, error_codes
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.header import decode_response_header, encode_request_header
from kpywire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME = "kpybroker"
MAX_RESPONSE_BYTES = 256 << 20
_API_VERSIONS_VERSION = 3


class NoResponse(NamedTuple):
    """The result of a request without a response. ``reason`` is for the log. ``is_refused``: the node is reachable, but
    does not serve this request."""

    reason: str
    is_refused: bool = False

    @property
    def has_no_listener(self) -> bool:
        """Whether the process that listened there has ended: its port is closed, which no lost message can feign."""
        return isinstance(self.reason, NoListener)


Done = Callable[[Any], object]
"""A callback for the response, or for `NoResponse`."""


class Link(Protocol):
    """A connection that is being opened or is open."""

    def send(self, frame: bytes) -> None: ...
    def close(self) -> None: ...


Connect = Callable[
    [str, int, Callable[[], object], Callable[[bytes | memoryview], object], Callable[[str], object]], Link
]
"""(host, port, opened, taken, lost) -> a link: `kpybroker.hosts.network.outgoing`, or a simulated one."""


class _SentCall:
    __slots__ = ("correlation_id", "done", "newest", "request", "timer", "version")

    def __init__(self, request: Any, newest: int | None, done: Done) -> None:
        self.request = request
        self.newest = newest
        self.done = done
        self.correlation_id = -1
        self.version = -1
        self.timer: Timer | None = None


class Peer:
    """One other node."""

    def __init__(
        self, scheduler: Scheduler, connect: Connect, host: str, port: int, client_id: str, request_timeout_ms: float
    ) -> None:
        """If a request is unanswered for ``request_timeout_ms``, the connection is closed and counts as lost."""
        self.host = host
        self.port = port
        self._scheduler = scheduler
        self._connect = connect
        self._client_id = client_id
        self._timeout_ms = request_timeout_ms
        self._link: Link | None = None
        self._versions: dict[int, tuple[int, int]] | None = None
        """The versions that the node serves, by api key; None until it has answered ApiVersions."""
        self._waiting: deque[_SentCall] = deque()
        """The requests made before the connection was ready."""
        self._sent: deque[_SentCall] = deque()
        self._correlation_id = 0

    @property
    def is_connected(self) -> bool:
        """Whether the node has answered on the current connection."""
        return self._versions is not None

    def beside(self) -> "Peer":
        """Another connection to the same node, which is not opened yet."""
        return Peer(self._scheduler, self._connect, self.host, self.port, self._client_id, self._timeout_ms)

    def send(self, request: Any, done: Done, *, newest: int | None = None) -> None:
        """Send a request. ``newest`` is the last version that can carry it, if that is not the last known version."""
        call = _SentCall(request, newest, done)
        call.timer = self._scheduler.call_later(self._timeout_ms, self._timed_out)
        if self._link is None:
            self._waiting.append(call)
            self._link = self._connect(self.host, self.port, self._opened, self._taken, self._lost)
        elif self._versions is None:
            self._waiting.append(call)
        else:
            self._write(call)

    def close(self) -> None:
        """Close the connection. Requests without an answer get `NoResponse`."""
        self._lost("the connection was closed here")

    # The connection.

    def _opened(self) -> None:
        hello = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=__version__)
        self._frame(_SentCall(hello, None, self._greeted), _API_VERSIONS_VERSION)

    def _greeted(self, answer: ApiVersionsResponse | NoResponse) -> None:
        if isinstance(answer, NoResponse):
            return
        if answer.error_code != error_codes.NONE:
            self._lost(f"it answers {error_codes.name(answer.error_code)} to ApiVersions")
            return
        self._versions = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
        waiting, self._waiting = self._waiting, deque()
        for call in waiting:
            self._write(call)

    def _timed_out(self) -> None:
        self._lost(f"no answer within {self._timeout_ms:.0f} ms")

    def _lost(self, reason: str) -> None:
        link, self._link, self._versions = self._link, None, None
        if link is not None:
            link.close()
        unanswered, self._sent, self._waiting = [*self._sent, *self._waiting], deque(), deque()
        for call in unanswered:
            self._settle(call, NoResponse(reason))

    # Requests and responses.

    def _write(self, call: _SentCall) -> None:
        key = type(call.request).KEY
        known = api.API_KEYS[key]
        first, last = (self._versions or {}).get(key, (0, -1))
        version = min(last, known.max_version if call.newest is None else call.newest)
        if version < max(first, known.min_version):
            self._settle(call, NoResponse(f"{self.host}:{self.port} does not serve {known.name}", is_refused=True))
            return
        try:
            self._frame(call, version)
        except UnsupportedVersion as error:
            self._settle(call, NoResponse(f"{self.host}:{self.port} is too old: {error}", is_refused=True))

    def _frame(self, call: _SentCall, version: int) -> None:
        body = codec.encode(as_of(call.request, version), version)
        self._correlation_id = self._correlation_id + 1 & 0x7FFF_FFFF
        call.correlation_id, call.version = self._correlation_id, version
        header = encode_request_header(type(call.request).KEY, version, call.correlation_id, self._client_id)
        self._sent.append(call)
        assert self._link is not None
        self._link.send(header + body)

    def _taken(self, frame: bytes | memoryview) -> None:
        if not self._sent:
            self._lost("it answers what was not asked")
            return
        call = self._sent.popleft()
        try:
            answer = self._decode(call, frame)
        except Malformed as error:
            self._sent.appendleft(call)
            self._lost(f"it does not speak Kafka's protocol: {error}")
            return
        self._settle(call, answer)

    def _decode(self, call: _SentCall, frame: bytes | memoryview) -> Any:
        key, version = type(call.request).KEY, call.version
        correlation_id, start = decode_response_header(key, version, frame)
        if correlation_id != call.correlation_id:
            raise Malformed(f"answer {correlation_id} to request {call.correlation_id}")
        if key == api.API_VERSIONS and frame[start : start + 2] == b"\0\x23":
            version = 0  # UNSUPPORTED_VERSION comes in version 0
        return codec.decode(api.response_class(key), version, frame, start)

    def _settle(self, call: _SentCall, answer: Any) -> None:
        if call.timer is not None:
            call.timer.cancel()
        try:
            call.done(answer)
        except Exception as error:
            # It goes alone, for others wait for their answers.
            self._scheduler.call_soon(_raise, error)


def _raise(error: Exception) -> None:
    raise error
