"""The dispatcher passes request frames to handlers: the one place that knows headers, versions and connections.

The stages of a request: header, decode, handle, encode. Each is a function here. Where an authorizer is configured, a
guard stands before the handler (`kpybroker.requests.guards`).

A handler is a function ``handle(broker, request, call)`` in ``handlers/<api>.py``. It answers with a response message,
with a `Pending` that resolves to one, or with None if the request has no reply. An api key without a handler is not
advertised. As in Kafka, the connection is closed if a client uses such a key, an unsupported version of anything but
ApiVersions, or a body that cannot be decoded.
"""

import logging
from collections.abc import Callable, Generator, Mapping
from struct import Struct
from struct import error as StructError  # noqa: N812
from time import perf_counter_ns, thread_time_ns
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.apis import ANSWERED_ALIKE, MOST_OBJECT_BYTES, REPEATED, TRAITS
from kpybroker.machines.errors import AuthorizerNotReady
from kpybroker.requests.dispatching.forgetting import forgotten
from kpybroker.requests.dispatching.newcomers import Newcomers
from kpybroker.requests.dispatching.repeated import HEADER, NO_REQUESTS, KnownCall, Repeated, kind_of
from kpybroker.requests.dispatching.replies import encode, encode_in_steps, encode_late, encode_late_in_steps
from kpybroker.requests.dispatching.served import Intercept, ServedVersion, serve
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.outbox import Reply
from kpybroker.runtime.calls.askers import Askers
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.close_connection import CloseConnection
from kpybroker.runtime.calls.deferred import pass_on
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.steps import LARGE_BYTES, GivenUp, Work, at_once
from kpybroker.runtime.counters import BRIEF_NS, UNCOUNTED, ApiCounters, Due
from kpybroker.runtime.fairness.times import LATE_NS, PIECE_NS
from kpybroker.runtime.fairness.trait import ORDINARY, Trait
from kpywire import api, error_codes
from kpywire.codec import decoder_in_steps
from kpywire.errors import Malformed, ManyElements, TooLong
from kpywire.header import decode_request_header

if TYPE_CHECKING:
    from kpybroker.requests.dispatching.throttling import Throttling

log = logging.getLogger("kpybroker.dispatch")

LOOKS_AROUND: Final = frozenset(
    (api.METADATA, api.API_VERSIONS, api.SASL_HANDSHAKE, api.SASL_AUTHENTICATE, api.DESCRIBE_CLUSTER)
)
"""The requests that a client sends before it knows which broker to talk to."""
LONGEST_KNOWN_HEADER_BYTES: Final = 512
MOST_KNOWN_CALLS: Final = 32
"""The headers that are remembered for one connection: a client sends few kinds of requests, each in one version."""
WAITED_NS: Final = 5_000_000
"""A request that took longer is charged to its connection even if it used little CPU: it waited for a disk."""
SLOW_NS: Final = 10_000_000
"""Requests that took less are not remembered as the slowest."""
_API_KEY: Final = Struct(">h")
_header_from: Final = HEADER.unpack_from
_now_ns: Final = perf_counter_ns


class Dispatcher:
    """The server of request frames. ``broker`` is the context that the handlers get."""

    def __init__(
        self,
        broker: Any,
        load: Callable[[int], Any],
        versions: Mapping[int, tuple[int, int]],
        intercept: Intercept | None = None,
        *,
        counters: dict[int, ApiCounters] | None = None,
    ) -> None:
        """``load`` returns the handler module of an api key; ``versions`` are the served ones: ``{key: (first,
        last)}``.

        ``intercept`` may wrap a handler when it is first used. ``counters`` are those of another dispatcher of the
        node, if both count together.
        """
        self.broker = broker
        self.intercept = intercept
        self.load = load
        self.versions = versions
        self.newcomers = Newcomers()
        self.askers = Askers()
        self.counters: dict[int, ApiCounters] = {} if counters is None else counters
        for key in versions:
            self.counters.setdefault(key, ApiCounters())
        self.served: dict[tuple[int, int], ServedVersion] = {}
        """The (api key, version) pairs that were used so far."""
        self.stage: Throttling | None = None
        """The stage that is put around handlers while a client quota is set."""
        self.slow_ns = SLOW_NS
        """The time of the slowest recent request. Whatever reads it resets it."""
        self.slowest: tuple[int, str] | None = None
        """The api key and the peer of the slowest recent request."""

    def trait_at(self, view: memoryview, position: int) -> Trait:
        """The trait of the request whose header begins at ``position``."""
        return TRAITS.get(_API_KEY.unpack_from(view, position)[0], ORDINARY)

    def __call__(self, connection: Connection, frame: memoryview) -> Reply | Pending | None:
        """Serve one frame, through all stages. Raises `CloseConnection` where Kafka closes the connection."""
        started_ns = _now_ns()
        size = len(frame)
        served: ServedVersion | None
        repeated: Repeated | None = None
        try:
            kind, correlation_id = _header_from(frame)
            known: KnownCall | None = connection.client.calls.get(kind)
            if known is not None and size >= known.header_end and known.rest_from(frame) == known.rest:
                served, call, position, repeated = known.served, known.call, known.header_end, known.repeated
            else:
                served, call, correlation_id, position = self._read_header(connection, frame)
            if served is None or (size > LARGE_BYTES and not served.is_whole):
                return self._begin(connection, frame, call, correlation_id, position, started_ns)
            if repeated is None:
                request, _ = served.decode(frame, position)
            else:
                request = repeated.decode(served, frame, position)
        except ManyElements:
            return self._begin(connection, frame, call, correlation_id, position, started_ns)
        except (Malformed, StructError, IndexError) as why:
            raise CloseConnection(f"a request that cannot be read: {why}") from None
        counters = served.counters
        served.requests += 1
        counters.request_bytes += size
        try:
            try:
                response = served.handle(self.broker, request, call)
            except AuthorizerNotReady:
                response = _not_ready(request, call)
            if isinstance(response, Pending):
                if served.answers_long or (size > LARGE_BYTES and served.sends_files):
                    response = _answered_in_steps(response, served, correlation_id, call)
                else:
                    _encode_later(response, served, correlation_id, connection)
                reply: Reply | Pending | None = response
            elif response is None:
                reply = None
            elif repeated is None or self.stage is not None:  # the stage measures the encoder
                reply = encode(served, correlation_id, response)
            else:
                reply = repeated.encode(served, correlation_id, response)
        except CloseConnection:
            counters.failures += 1
            raise
        except Exception as error:
            counters.failures += 1
            raise _failed(call.api_key, call.api_version, error) from None
        # `_count_served`, written out: a function call would cost as much as all of it.
        now_ns = _now_ns()
        queue_ns = started_ns - connection.arrived_ns
        local_ns = now_ns - started_ns
        if queue_ns > BRIEF_NS:
            counters.queue[(queue_ns * queue_ns).bit_length()] += 1
        counters.local[(local_ns * local_ns).bit_length()] += 1
        counters.local_ns += local_ns
        connection.counters = counters
        connection.answered_ns = now_ns
        if local_ns > PIECE_NS:
            self._took(connection, call.api_key, local_ns)
        if reply is response:
            _unsent((counters, connection.arrived_ns, now_ns, now_ns), reply)
        return reply

    def _read_header(self, connection: Connection, frame: memoryview) -> tuple[ServedVersion | None, Call, int, int]:
        """Read a request's header. Return its `ServedVersion`, its call, its correlation id, and the position of its
        body.

        The first two are remembered for the client's next request of this kind.
        """
        header = decode_request_header(frame, 0)
        key = (header.api_key, header.api_version)
        served = self.served.get(key)
        counters = self.counters.get(header.api_key, UNCOUNTED).prepare()
        client = connection.client
        call = Call(header.api_key, header.api_version, header.client_id, client, connection, self.versions, counters)
        if header.api_key == api.METADATA:
            call.asker = self.askers.of(client.host, header.client_id)
        self.newcomers.seen(
            client.host,
            header.client_id,
            client.listener_name,
            only_looks=header.api_key in LOOKS_AROUND,
            now_ms=connection.server.poller.now_ms,
        )
        if served is not None:
            _remember(served, call, frame, header.end)
        return served, call, header.correlation_id, header.end

    def _took(self, connection: Connection, api_key: int, local_ns: int) -> None:
        """Charge a request that kept all others waiting, if it used CPU or waited for a disk.

        Wall time alone says little: other processes may have used the CPU.
        """
        connection.slow_kind = TRAITS.get(api_key, ORDINARY)
        worked_ns = thread_time_ns() - connection.server.poller.worked_ns
        turn = connection.server.turn
        turn.is_late = turn.is_on and worked_ns > LATE_NS
        if worked_ns > PIECE_NS or local_ns > WAITED_NS:
            connection.costs(local_ns, is_long=False)
        if local_ns > self.slow_ns:
            self.slow_ns, self.slowest = local_ns, (api_key, str(connection))

    # In steps

    def _begin(
        self, connection: Connection, frame: memoryview, call: Call, correlation_id: int, position: int, started_ns: int
    ) -> Reply | Pending | None:
        """Serve a large request, or the first of its kind. Other requests are served between its steps."""
        # All connections share one receive buffer; only the buffer of a larger request is its own.
        kept = memoryview(bytearray(frame)) if frame.obj is connection.server.scratch else frame
        work = self._work(kept, call, correlation_id, position)
        large = (len(frame), TRAITS.get(call.api_key, ORDINARY)) if _is_in_steps(frame, call) else ()
        reply: Reply | Pending | None = connection.server.slices.begin(work, connection, *large)
        self._count_served(connection, call, started_ns)
        if reply is None or isinstance(reply, Pending):
            _unsent((call.counters, connection.arrived_ns, connection.answered_ns, connection.answered_ns), reply)
        return reply

    def _count_served(self, connection: Connection, call: Call, started_ns: int) -> None:
        """Count a request that was just served, or the part of it that was."""
        counters = call.counters
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
            self._took(connection, call.api_key, local_ns)

    def _work(self, frame: memoryview, call: Call, correlation_id: int, position: int) -> Work:
        """Do all the work for a request, from decoding it to its reply."""
        key = call.api_key, call.api_version
        served = self.served.get(key)
        if served is None:
            served = yield from self._find(*key)
            if served is None:
                return self._unsupported_api_versions(call, correlation_id)
            _remember(served, call, frame, position)
        try:
            if len(frame) > LARGE_BYTES and not served.is_whole:
                most_bytes = MOST_OBJECT_BYTES.get(call.api_key)
                decode = decoder_in_steps(api.request_class(call.api_key), call.api_version, most_bytes)
                yield None
                request, _ = yield from decode(frame, position)
            else:
                request, _ = yield from _decoded(served, frame, position)
        except (Malformed, StructError, IndexError) as why:
            raise CloseConnection(f"a request that cannot be read: {why}") from None
        counters = served.counters
        served.requests += 1
        counters.request_bytes += len(frame)
        leaving = [request]
        del request
        try:
            try:
                if served.work is not None:
                    response = yield from served.work(self.broker, leaving[0], call)
                else:
                    response = served.handle(self.broker, leaving[0], call)
            except AuthorizerNotReady:
                response = _not_ready(leaving[0], call)
            if isinstance(response, Pending):
                response = yield response
            if len(frame) > LARGE_BYTES:
                yield from forgotten(leaving)
            leaving.clear()
            if response is None:
                return None
            yield None
            reply = yield from encode_in_steps(served, correlation_id, response, call)
            leaving.append(response)
            del response
            yield from forgotten(leaving)
            return reply
        except CloseConnection:
            counters.failures += 1
            raise
        except GivenUp as why:
            why.__traceback__ = None  # what has worked on the request refers to it
            yield from forgotten(leaving)
            raise
        except TooLong as why:
            counters.failures += 1
            raise CloseConnection(f"a request with too long an answer: {why}") from None
        except Exception as error:
            counters.failures += 1
            raise _failed(*key, error) from None

    def _find(self, api_key: int, api_version: int) -> Generator[None, None, ServedVersion | None]:
        """Compile the `ServedVersion` of this key and version. None means an unknown version of ApiVersions, which has
        an answer of its own."""
        versions = self.versions.get(api_key)
        if versions is None:
            raise CloseConnection(f"a request that is not served: api key {api_key}")
        first, last = versions
        if not first <= api_version <= last:
            if api_key == api.API_VERSIONS:
                return None
            name = api.API_KEYS[api_key].name
            raise CloseConnection(
                f"a request that is not served: {name} version {api_version} (only {first} to {last})"
            )
        module = self.load(api_key)
        yield
        served = yield from serve(module, api_key, api_version, self.counters[api_key], self.intercept, self.broker)
        if self.stage is not None:
            self.stage.put_around(api_key, served)
        self.served[(api_key, api_version)] = served
        return served

    def _unsupported_api_versions(self, asked: Call, correlation_id: int) -> Reply:
        """The answer to an unknown version of ApiVersions: the range of known versions, in version 0 (KIP-511)."""
        from kpybroker.requests.handlers import api_versions

        served = at_once(self._find(api.API_VERSIONS, 0))
        assert served is not None
        call = Call(api.API_VERSIONS, 0, None, asked.client, asked.peer, self.versions)
        return encode(served, correlation_id, api_versions.unsupported_version(self.broker, call))


def _remember(served: ServedVersion, call: Call, frame: memoryview, header_end: int) -> None:
    """Remember the header, to recognise the connection's next request of this kind by it."""
    known = call.client.calls
    if header_end <= LONGEST_KNOWN_HEADER_BYTES and len(known) < MOST_KNOWN_CALLS:
        repeated = None
        if call.api_key in REPEATED:
            repeated = Repeated()
        elif call.api_key in ANSWERED_ALIKE:
            repeated = Repeated(NO_REQUESTS)
        known[kind_of(call.api_key, call.api_version)] = KnownCall(served, call, frame, header_end, repeated)


def _decoded(served: ServedVersion, frame: memoryview, position: int) -> Generator[None, None, tuple[Any, int]]:
    """Decode a request at once, or in steps if it has too many elements for that."""
    try:
        return served.decode(frame, position)
    except ManyElements:
        assert served.decode_in_steps is not None
    yield
    return (yield from served.decode_in_steps(frame, position))


def _encode_later(response: Pending, served: ServedVersion, correlation_id: int, connection: Connection) -> None:
    """Have a late answer encoded. (In the caller, every request would pay for what the function below holds.)"""
    response.encode_with(lambda late: encode_late(served, correlation_id, late, connection))


def _answered_in_steps(response: Pending, served: ServedVersion, correlation_id: int, call: Call) -> Pending:
    """The reply with a late answer that may be long: it is encoded in steps."""
    reply = Pending()
    reply.when_cancelled(response.cancel)

    def arrived(late: Any) -> None:
        pass_on(call.peer.share(encode_late_in_steps(served, correlation_id, late, call)), reply)

    response.when_resolved(arrived)
    return reply


def _is_in_steps(frame: memoryview, call: Call) -> bool:
    """Whether a request is decoded and encoded in steps."""
    return len(frame) > LARGE_BYTES and not TRAITS.get(call.api_key, ORDINARY).is_whole


def _unsent(due: Due, pending: Any) -> None:
    """Count a request that is not answered now: it is answered later, or never (acks=0)."""
    if pending is not None:
        pending.due = due
        return
    counters, arrived_ns, _, answered_ns = due
    total_ns = answered_ns - arrived_ns
    counters.total[(total_ns * total_ns).bit_length()] += 1


def _not_ready(request: Any, call: Call) -> Any:
    """Kafka's answer while its authorizer loads the ACLs."""
    from kpybroker.machines.failed_response import failed_response  # not of a plain start

    return failed_response(request, call.api_version, error_codes.UNKNOWN_SERVER_ERROR)


def _failed(api_key: int, api_version: int, error: Exception) -> CloseConnection:
    """Log an error of a handler with its traceback. Return the exception that closes this connection only."""
    name = api.API_KEYS[api_key].name
    log.error("%s version %d failed", name, api_version, exc_info=error)
    return CloseConnection(f"{name} version {api_version} failed: {type(error).__name__}")
