"""From a request frame to its handler and back: the one place that knows api keys, versions and headers.

A handler is a function ``handle(broker, request, call)`` in ``handlers/<api>.py``. It answers with a response message,
with a `Pending` that resolves to one, or with None where the request has no reply. An api key without a handler is not
advertised, and using it closes the connection, as Kafka does; so does an unsupported version of anything but
ApiVersions, and a body that cannot be decoded.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from inspect import isgeneratorfunction
from struct import Struct
from struct import error as StructError  # noqa: N812
from time import perf_counter_ns, thread_time_ns
from typing import Any

from kpybroker.answered_errors import Errors, errors_in
from kpybroker.counters import BRIEF_NS, UNCOUNTED, ApiCounters, Due
from kpybroker.handlers.context import Call, Handle
from kpybroker.server.connection import Connection
from kpybroker.server.frames import LARGE_BYTES, WHOLE, CloseConnection
from kpybroker.server.line import PIECE_NS
from kpybroker.server.newcomers import Newcomers
from kpybroker.server.outbox import Reply
from kpybroker.server.pending import Pending
from kpybroker.server.slices import Work, at_once
from kpywire import api
from kpywire.codec import decoder, decoder_in_steps, encoder, encoder_in_steps
from kpywire.errors import Malformed
from kpywire.header import decode_request_header, response_header_version

log = logging.getLogger("kpybroker.dispatch")

API_VERSIONS = 18
FETCH = 1
LOOKS_AROUND = frozenset((3, API_VERSIONS, 17, 36, 60))
"""Metadata, ApiVersions, SASL's two, DescribeCluster: what a client sends before it knows whom to talk to."""
LONGEST_KNOWN_HEADER_BYTES = 512
MOST_KNOWN_CALLS = 32
"""Of one connection: a client sends few kinds of requests in one version each."""
WAITED_NS = 5_000_000
"""What takes so long is owed, whatever it was."""
SLOW_NS = 10_000_000
"""What takes less is not remembered by name."""
_HEADER = Struct(">hhih")
_HEADER_V0 = Struct(">ii")
_HEADER_V1 = Struct(">iiB")


Intercept = Callable[[int, Handle], Handle]
"""(api key, its handler) -> what is called in its place."""


class Served:
    """One (api key, version) that is served: how its body is read, what answers it, how the answer is written."""

    __slots__ = ("counters", "decode", "encode", "errors_in", "handle", "header_v1", "requests", "sends_files", "work")

    def __init__(
        self,
        decode: Callable[[memoryview, int], tuple[Any, int]],
        handle: Handle,
        encode: Callable[[Any, list[Any]], None],
        header_v1: bool,
        counters: ApiCounters,
        errors: Errors | None,
        work: Callable[..., Work] | None = None,
        *,
        sends_files: bool = False,
    ) -> None:
        """``errors`` finds Kafka's errors in its answers, where the handler does not count them itself; ``work`` is a
        handler that works in pieces, as long as nothing stands before it; ``sends_files``: slices are in its answers.
        """
        self.decode = decode
        self.handle = handle
        self.encode = encode
        self.header_v1 = header_v1
        self.counters = counters
        self.errors_in = errors
        self.work = work
        self.sends_files = sends_files
        self.requests = 0


class KnownCall:
    """A request header that was read before on this connection: the next one differs in its correlation id only.

    ``header_rest`` is what follows the length of the client id: the id itself and the header's tagged fields.
    """

    __slots__ = ("call", "header_end", "header_rest", "id_bytes", "served")

    def __init__(self, served: Served, call: Call, frame: memoryview, header_end: int) -> None:
        self.served = served
        self.call = call
        self.id_bytes: int = _HEADER.unpack_from(frame)[3]
        self.header_end = header_end
        self.header_rest = bytes(frame[10:header_end])


class Dispatcher:
    """Serves frames on connections. ``broker`` is what the handlers get as their context."""

    def __init__(
        self,
        broker: Any,
        load: Callable[[int], Any],
        versions: Mapping[int, tuple[int, int]],
        intercept: Intercept | None = None,
        *,
        counters: dict[int, ApiCounters] | None = None,
    ) -> None:
        """``load`` finds the handler module of an api key; ``versions`` are those served: ``{key: (first, last)}``.

        ``intercept`` may put something before a handler when it is first used; without it there is nothing in between.
        ``counters`` are those of another dispatcher of the node, to count together.
        """
        self.broker = broker
        self.intercept = intercept
        self.load = load
        self.versions = versions
        self.newcomers = Newcomers()
        self.counters: dict[int, ApiCounters] = {} if counters is None else counters
        for key in versions:
            self.counters.setdefault(key, ApiCounters())
        self.served: dict[tuple[int, int], Served] = {}
        """By api key and version, as far as they were used."""
        self.slow_ns = SLOW_NS
        """What the longest request of late took. Whoever reads it sets it back."""
        self.slowest: tuple[int, str] | None = None
        """Its api key and peer."""

    def __call__(self, connection: Connection, frame: memoryview) -> Reply | Pending | None:
        """Serve one frame. Raises `CloseConnection` where Kafka closes."""
        started_ns = perf_counter_ns()
        try:
            api_key, api_version, correlation_id, id_bytes = _HEADER.unpack_from(frame)
            known = connection.calls.get((api_key, api_version))
            if known is not None and known.id_bytes == id_bytes and frame[10 : known.header_end] == known.header_rest:
                served, call, position = known.served, known.call, known.header_end
            else:
                served, call, correlation_id, position = self._read_header(connection, frame)
            if served is None or (len(frame) > LARGE_BYTES and api_key not in WHOLE):
                return self._begin(frame, call, correlation_id, position, started_ns)
            request, _ = served.decode(frame, position)
        except (Malformed, StructError, IndexError) as why:
            raise CloseConnection(f"a request that cannot be read: {why}") from None
        counters = served.counters
        served.requests += 1
        counters.request_bytes += len(frame)
        try:
            response = served.handle(self.broker, request, call)
            if isinstance(response, Pending):
                response.encode_with(lambda late: _encode_late(served, correlation_id, late, connection))
                reply: Reply | Pending | None = response
            else:
                reply = None if response is None else _encode(served, correlation_id, response)
        except CloseConnection:
            counters.failures += 1
            raise
        except Exception as error:
            counters.failures += 1
            raise _failed(api_key, api_version, error) from None
        # Written out: a function call would cost as much as all of it.
        now_ns = perf_counter_ns()
        queue_ns = started_ns - connection.arrived_ns
        local_ns = now_ns - started_ns
        if queue_ns > BRIEF_NS:
            counters.queue[(queue_ns * queue_ns).bit_length()] += 1
        counters.local[(local_ns * local_ns).bit_length()] += 1
        counters.local_ns += local_ns
        connection.counters = counters
        connection.answered_ns = now_ns
        if local_ns > PIECE_NS:
            self._took(connection, api_key, local_ns)
        if reply is response:
            _unsent((counters, connection.arrived_ns, now_ns, now_ns), reply)
        return reply

    def _read_header(self, connection: Connection, frame: memoryview) -> tuple[Served | None, Call, int, int]:
        """What serves a request, its call, its correlation id, and where its body begins; the client's next request of
        this kind finds the first two on its connection."""
        header = decode_request_header(frame, 0)
        key = (header.api_key, header.api_version)
        served = self.served.get(key)
        counters = self.counters.get(header.api_key, UNCOUNTED).prepare()
        call = Call(header.api_key, header.api_version, header.client_id, connection, self.versions, counters)
        self.newcomers.seen(
            connection.client_host,
            header.client_id,
            connection.listener_name,
            only_looks=header.api_key in LOOKS_AROUND,
            now_ms=connection.server.poller.now_ms,
        )
        known = connection.calls
        if served is not None and header.end <= LONGEST_KNOWN_HEADER_BYTES and len(known) < MOST_KNOWN_CALLS:
            known[key] = KnownCall(served, call, frame, header.end)
        return served, call, header.correlation_id, header.end

    def _took(self, connection: Connection, api_key: int, local_ns: int) -> None:
        """A request kept all others waiting. What the processor did for others meanwhile is not owed, unless it was
        much: then it waited for a disk."""
        connection.slow_key = api_key
        worked_ns = thread_time_ns() - connection.server.poller.worked_ns
        if worked_ns > PIECE_NS or local_ns > WAITED_NS:
            connection.costs(local_ns, is_long=False)
        if local_ns > self.slow_ns:
            self.slow_ns, self.slowest = local_ns, (api_key, str(connection))

    # In pieces

    def _begin(
        self, frame: memoryview, call: Call, correlation_id: int, position: int, started_ns: int
    ) -> Reply | Pending | None:
        """As above, for a large request, or the first of its kind: others are served between its pieces."""
        connection, counters = call.connection, call.counters
        # What all connections read into is used again; the buffer of a larger request is its own.
        kept = memoryview(bytearray(frame)) if frame.obj is connection.server.scratch else frame
        work = self._work(kept, call, correlation_id, position)
        large = (len(frame), call.api_key) if _is_in_steps(frame, call) else ()
        reply: Reply | Pending | None = connection.server.slices.begin(work, connection, *large)
        now_ns = perf_counter_ns()
        queue_ns = started_ns - connection.arrived_ns
        local_ns = now_ns - started_ns
        counters.queue[(queue_ns * queue_ns).bit_length()] += queue_ns > BRIEF_NS
        counters.local[(local_ns * local_ns).bit_length()] += 1
        counters.local_ns += local_ns
        connection.counters = counters
        connection.answered_ns = now_ns
        if local_ns > PIECE_NS:
            self._took(connection, call.api_key, local_ns)
        if reply is None or isinstance(reply, Pending):
            _unsent((counters, connection.arrived_ns, now_ns, now_ns), reply)
        return reply

    def _work(self, frame: memoryview, call: Call, correlation_id: int, position: int) -> Work:
        """Everything that is done for a request, to its reply."""
        key = call.api_key, call.api_version
        served = self.served.get(key) or (yield from self._find(*key))
        if served is None:
            return self._unsupported_api_versions(call.connection, correlation_id)
        try:
            if _is_in_steps(frame, call):
                decode = decoder_in_steps(api.request_class(call.api_key), call.api_version)
                yield None
                request, _ = yield from decode(frame, position)
            else:
                request, _ = served.decode(frame, position)
        except (Malformed, StructError, IndexError) as why:
            raise CloseConnection(f"a request that cannot be read: {why}") from None
        counters = served.counters
        served.requests += 1
        counters.request_bytes += len(frame)
        try:
            if served.work is not None:
                response = yield from served.work(self.broker, request, call)
            else:
                response = served.handle(self.broker, request, call)
            del request
            if isinstance(response, Pending):
                response = yield response
            if response is None:
                return None
            if _is_in_steps(frame, call):
                return (yield from _encode_in_steps(served, correlation_id, response, call))
            yield None
            return _encode(served, correlation_id, response)
        except CloseConnection:
            counters.failures += 1
            raise
        except Exception as error:
            counters.failures += 1
            raise _failed(*key, error) from None

    def _find(self, api_key: int, api_version: int) -> Generator[None, None, Served | None]:
        """Compile what serves this key and version; None asks for ApiVersions' own way of refusing a version."""
        versions = self.versions.get(api_key)
        if versions is None:
            raise CloseConnection(f"a request that is not served: api key {api_key}")
        first, last = versions
        if not first <= api_version <= last:
            if api_key == API_VERSIONS:
                return None
            name = api.API_KEYS[api_key].name
            raise CloseConnection(
                f"a request that is not served: {name} version {api_version} (only {first} to {last})"
            )
        module = self.load(api_key)
        yield
        if hasattr(module, "codec"):
            codec = module.codec(api_version)
            decode, encode, errors = codec.decode, codec.encode, None
        else:
            errors = errors_in(api.response_class(api_key)) if api_key != FETCH else None
            yield
            decode = decoder(api.request_class(api_key), api_version)
            yield
            encode = encoder(api.response_class(api_key), api_version)
            yield
        works = isgeneratorfunction(module.handle)
        handle = self._in_slices(module.handle) if works else module.handle
        served = Served(
            decode,
            handle if self.intercept is None else self.intercept(api_key, handle),
            encode,
            response_header_version(api_key, api_version) == 1,
            self.counters[api_key].prepare(),
            errors,
            _work_of(module) if self.intercept is None else None,
            sends_files=api_key == FETCH,
        )
        self.served[(api_key, api_version)] = served
        return served

    def _in_slices(self, handle: Handle) -> Handle:
        """A handler that yields between the elements of a request, as one that answers or returns a `Pending`."""

        def handle_in_slices(broker: Any, request: Any, call: Call) -> Any:
            connection = call.connection
            return connection.server.slices.begin(handle(broker, request, call), connection)

        return handle_in_slices

    def _unsupported_api_versions(self, connection: Connection, correlation_id: int) -> Reply:
        """KIP-511: an unknown ApiVersions version is answered in version 0 with the range we know."""
        from kpybroker.handlers import api_versions

        served = at_once(self._find(API_VERSIONS, 0))
        assert served is not None
        call = Call(API_VERSIONS, 0, None, connection, self.versions)
        return _encode(served, correlation_id, api_versions.unsupported_version(self.broker, call))


def _work_of(module: Any) -> Callable[..., Work] | None:
    """The handler that works in pieces, or the one for large requests beside one that does not."""
    work: Callable[..., Work] | None = getattr(module, "handle_in_steps", None)
    return module.handle if isgeneratorfunction(module.handle) else work


def _is_in_steps(frame: memoryview, call: Call) -> bool:
    """Whether a request is decoded with pauses."""
    return len(frame) > LARGE_BYTES and call.api_key not in WHOLE


def _unsent(due: Due, pending: Any) -> None:
    """A request that is not answered now: it has left to wait, or there is no answer at all (acks=0)."""
    if pending is not None:
        pending.due = due
        return
    counters, arrived_ns, _, answered_ns = due
    total_ns = answered_ns - arrived_ns
    counters.total[(total_ns * total_ns).bit_length()] += 1


def _encode(served: Served, correlation_id: int, response: Any, encoded: list[Any] | None = None) -> Reply:
    """The reply, with its header and size; ``encoded`` is the response where that was done in steps."""
    if encoded is None:
        if served.errors_in is not None:
            _count_errors(served, served.errors_in, response)
        parts: list[Any] = []
        served.encode(response, parts)
    else:
        parts = encoded
    if not served.sends_files or (len(parts) == 1 and type(parts[0]) is bytes):
        body = parts[0] if len(parts) == 1 else b"".join(parts)
        size = len(body)
        served.counters.response_bytes += size
        if served.header_v1:
            return _HEADER_V1.pack(size + 5, correlation_id, 0) + body
        return _HEADER_V0.pack(size + 4, correlation_id) + body
    parts.insert(0, b"")
    size = 0
    for part in parts:
        size += len(part)
    if served.header_v1:
        parts[0] = _HEADER_V1.pack(size + 5, correlation_id, 0)
    else:
        parts[0] = _HEADER_V0.pack(size + 4, correlation_id)
    served.counters.response_bytes += size
    return parts


def _count_errors(served: Served, errors: Errors, response: Any) -> None:
    codes: list[int] = []
    errors(response, codes)
    for code in codes:
        served.counters.count_error(code)


def _encode_in_steps(served: Served, correlation_id: int, response: Any, call: Call) -> Work:
    """As `_encode`, with pauses where the answer has many elements."""
    if served.errors_in is None:
        return _encode(served, correlation_id, response)
    _count_errors(served, served.errors_in, response)
    yield None
    encode = encoder_in_steps(type(response), call.api_version)
    yield None
    parts: list[Any] = []
    yield from encode(response, parts)
    return _encode(served, correlation_id, response, parts)


def _encode_late(served: Served, correlation_id: int, response: Any, connection: Connection) -> Reply | None:
    """As `_encode`, for an answer that comes outside its request's call: nobody above would close the connection."""
    if response is None:
        return None
    try:
        return _encode(served, correlation_id, response)
    except Exception:
        log.exception("a late answer to %s cannot be written", connection)
        connection.close()
        return None


def _failed(api_key: int, api_version: int, error: Exception) -> CloseConnection:
    """A mistake of ours: the whole story in the log, the connection closed, everything else goes on."""
    name = api.API_KEYS[api_key].name
    log.error("%s version %d failed", name, api_version, exc_info=error)
    return CloseConnection(f"{name} version {api_version} failed: {type(error).__name__}")
