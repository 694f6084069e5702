"""Replies: a response with its header and size in front, as bytes and slices of files."""

import logging
from collections.abc import Sequence
from struct import Struct
from typing import Any, Final

from kpybroker.machines.answered_errors import Errors, errors_in_steps
from kpybroker.requests.dispatching.forgetting import is_long
from kpybroker.requests.dispatching.served import ServedVersion
from kpybroker.requests.server.backlog import HeldResources
from kpybroker.requests.server.connection import Connection
from kpybroker.requests.server.outbox import Reply
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import Work
from kpywire.codec import encoder_in_steps

log = logging.getLogger("kpybroker.dispatch")

HEADER_V0: Final = Struct(">ii")
HEADER_V1: Final = Struct(">iiB")
"""The size of a response, and its header of version 0 or 1."""
LARGE_REPLY_BYTES: Final = 256 * 1024
"""A larger response is not copied behind its header."""


def encode(served: ServedVersion, correlation_id: int, response: Any, encoded: list[Any] | None = None) -> Reply:
    """Encode the reply. ``encoded`` is the response, if it was already encoded in steps."""
    if encoded is None:
        if served.errors_in is not None:
            count_errors(served, served.errors_in, response)
        parts: list[Any] = []
        served.encode(response, parts)
    else:
        parts = encoded
    if len(parts) == 1 and (not served.sends_files or type(parts[0]) is bytes):
        body = parts[0]
        size = len(body)
        served.counters.response_bytes += size
        header = (
            HEADER_V1.pack(size + 5, correlation_id, 0)
            if served.header_v1
            else HEADER_V0.pack(size + 4, correlation_id)
        )
        return header + body if size < LARGE_REPLY_BYTES else [header, body]
    parts.insert(0, b"")
    size = 0
    for part in parts:
        size += len(part)
    if served.header_v1:
        parts[0] = HEADER_V1.pack(size + 5, correlation_id, 0)
    else:
        parts[0] = HEADER_V0.pack(size + 4, correlation_id)
    served.counters.response_bytes += size
    return parts


def encode_in_steps(served: ServedVersion, correlation_id: int, response: Any, call: Call) -> Work:
    """Encode the reply, in steps if the response has many elements."""
    if not is_long(response):
        return encode(served, correlation_id, response)
    if served.errors_in is not None:
        yield from errors_in_steps(response, served.counters.count_error)
    encode_response = encoder_in_steps(type(response), call.api_version)
    yield None
    parts: list[Any] = []
    for _step in encode_response(response, parts):
        _hold(call, parts)
        yield None
    _hold(call, ())
    return encode(served, correlation_id, response, parts)


def _hold(call: Call, parts: Sequence[Any]) -> None:
    """Count the part of an answer that is encoded among what waits for clients: many may be in work at a time."""
    connection = call.peer
    if isinstance(connection, Connection) and not connection.closed:
        if parts:
            connection.server.backlog.hold(connection, HeldResources(sum(map(len, parts)), 0))
        else:
            connection.server.backlog.release(connection)


def encode_late(served: ServedVersion, correlation_id: int, response: Any, connection: Connection) -> Reply | None:
    """Encode the reply of a late answer. Its request's call has returned, so an error closes the connection here."""
    if response is None:
        return None
    try:
        return encode(served, correlation_id, response)
    except Exception:
        log.exception("The reply to %s could not be encoded; its connection is closed", connection)
        connection.close()
        return None


def encode_late_in_steps(served: ServedVersion, correlation_id: int, response: Any, call: Call) -> Work:
    """Like `encode_late`, in steps if the response is long."""
    try:
        return None if response is None else (yield from encode_in_steps(served, correlation_id, response, call))
    except Exception:
        log.exception("The reply to %s could not be encoded; its connection is closed", call.client)
        call.peer.close()
        return None


def count_errors(served: ServedVersion, errors: Errors, response: Any) -> None:
    """Count the error codes in a response."""
    codes: list[int] = []
    errors(response, codes)
    for code in codes:
        served.counters.count_error(code)
