"""The connections of this node, the times of requests, and a live view of one connection."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.apis import APIS
from kpybroker.machines.authorization.resources import CLUSTER_NAME, AclOperation, ResourceType
from kpybroker.machines.console.connections import (
    CONNECTION_KEYS,
    TIME_KEYS,
    ConnectionPage,
    ConnectionRow,
    Connections,
    ExchangeRow,
    PhaseTimes,
    Quantiles,
    loop_shares,
)
from kpybroker.machines.console.listing import PER_PAGE, pages_of, sorted_rows
from kpybroker.monitoring.console.history import OF_LOOP, plotted
from kpybroker.monitoring.console.node_parts import NodeParts
from kpybroker.monitoring.console.pace import paced, sorted_in_pieces
from kpybroker.monitoring.console.query import Query, bad
from kpybroker.monitoring.console.taps import TappedExchange
from kpybroker.monitoring.console.viewer import Viewer
from kpybroker.monitoring.history.readings import MEDIAN, P99
from kpybroker.monitoring.metrics.window import quantiles_ms
from kpybroker.requests.server.mutes import Mute
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.counters import ApiCounters
from kpywire import api
from kpywire.codec import decoder
from kpywire.errors import Malformed, UnsupportedVersion
from kpywire.header import decode_request_header, response_header_version
from kpywire.message_json import as_json

if TYPE_CHECKING:
    from kpybroker.requests.server.connection import Connection

SECRET: Final = frozenset(key for key, served in APIS.items() if served.holds_secrets)
"""The requests whose contents are not shown."""
PHASES: Final = ("total", "queue", "local", "remote", "waiting", "send")


async def connections(node: NodeParts, viewer: Viewer, query: Query) -> Connections:
    """The page."""
    viewer.must_see_node()
    search, sort = query.text("q")[:200], query.text("sort")
    found = [
        row
        async for each in paced(list(node.sources.server.connections))
        if search.lower() in _words(row := _row(node, each)).lower()
    ]
    rows = await sorted_in_pieces(found, CONNECTION_KEYS, sort)
    page, pages = pages_of(len(rows), query.number("page", 1, lowest=1))
    shown = tuple(rows[(page - 1) * PER_PAGE : page * PER_PAGE])
    times = tuple(
        _times(api.API_KEYS[key].name, counters)
        for key, counters in sorted(node.sources.dispatcher.counters.items())
        if counters.total and any(counters.total)
    )
    shown_times = tuple(sorted_rows(times, TIME_KEYS, sort))
    rates, passed_s = node.history.last_minute()
    past = await plotted(node, viewer, query, OF_LOOP)
    return Connections(search, page, pages, len(rows), shown, shown_times, loop_shares(rates), round(passed_s, 1), past)


def _words(row: ConnectionRow) -> str:
    return " ".join((row.id, row.listener, row.principal, row.software, *row.client_ids))


def _row(node: NodeParts, connection: "Connection") -> ConnectionRow:
    client: ConnectedClient = connection.client
    now_ms = node.sources.server.scheduler.monotonic_ms()
    calls = [known.call for known in client.calls.values()]
    return ConnectionRow(
        str(client),
        client.listener_name,
        client.security_protocol,
        str(client.principal),
        *client.software,
        tuple(sorted({call.client_id or "" for call in calls})),
        tuple(sorted(f"{api.API_KEYS[call.api_key].name} v{call.api_version}" for call in calls)),
        round(max(0.0, now_ms - connection.last_active_ms) / 1000, 1),
        connection.outbox.held_bytes,
        _state(connection),
    )


def _state(connection: "Connection") -> str:
    if connection.closed:
        return "closed"
    last = connection.waiting[-1] if connection.waiting else None
    if isinstance(last, Mute):
        left_ms = last.until_ms - connection.server.scheduler.monotonic_ms()
        return f"throttled by a quota for {max(0.0, left_ms) / 1000:.1f} s"
    return "waits for an answer" if connection.waiting else "idle or served"


def _times(name: str, counters: ApiCounters) -> PhaseTimes:
    total = sum(counters.total)
    quantiles: list[Quantiles] = []
    for phase in PHASES:
        buckets: Sequence[int] = getattr(counters, phase)
        found = quantiles_ms(buckets, max(0, total - sum(buckets)))
        quantiles.append(Quantiles(round(found[MEDIAN], 4), round(found[P99], 4)))
    return PhaseTimes(name, total, sum(counters.error_codes.values()), *quantiles)


async def connection(node: NodeParts, viewer: Viewer, query: Query) -> ConnectionPage:
    """One connection: its requests from the first look on. They are those of others, so it takes more than to see the
    node."""
    viewer.must(AclOperation.ALTER, ResourceType.CLUSTER, CLUSTER_NAME)
    name = query.text("connection")
    found = next((each for each in list(node.sources.server.connections) if str(each.client) == name), None)
    if found is None:
        raise bad(f"there is no connection from {name[:100]}; it has closed")
    tap = node.taps.look(found)
    rows = [_exchange(each) async for each in paced(list(tap.exchanges)) if is_known(each.request)]
    return ConnectionPage(_row(node, found), tuple(reversed(rows)))


def is_known(request: bytes) -> bool:
    """Whether the header of a request is one that this node knows; others are refused, or get a version to try."""
    try:
        header = decode_request_header(request)
        response_header_version(header.api_key, header.api_version)
    except (Malformed, LookupError, ValueError):
        return False
    return header.api_key in api.API_KEYS


def _exchange(exchange: TappedExchange) -> ExchangeRow:
    header = decode_request_header(exchange.request)
    key, version = header.api_key, header.api_version
    request = answer = None
    note = ""
    if key in SECRET:
        note = "not shown, since it may hold a secret"
    else:
        is_whole = len(exchange.request) == exchange.request_bytes
        request = _json(api.request_class(key), version, exchange.request, header.end) if is_whole else None
        if exchange.answer is not None:
            position = 4 + 4 + response_header_version(key, version)
            answer = _json(api.response_class(key), version, exchange.answer, position)
        if request is None or (answer is None and exchange.answer_bytes):
            note = "too long to be shown, or with records from files"
    took_ms = None if exchange.answered_ms is None else round(exchange.answered_ms, 3)
    return ExchangeRow(
        exchange.at_ms,
        api.API_KEYS[key].name,
        version,
        header.correlation_id,
        header.client_id,
        exchange.request_bytes,
        exchange.answer_bytes,
        took_ms,
        request,
        answer,
        note,
    )


def _json(message: Any, version: int, data: bytes, position: int) -> str | None:
    try:
        found, _ = decoder(message, version)(memoryview(data), position)
        return json.dumps(without_records(as_json(found, version)), indent=1)
    except (Malformed, UnsupportedVersion, ValueError, LookupError, TypeError):
        return None


def without_records(value: Any) -> Any:
    """A message as JSON with the sizes of records in their place, whatever their field is called."""
    if isinstance(value, dict):
        return {
            name: _size(each) if name.lower().endswith("records") and isinstance(each, str) else without_records(each)
            for name, each in value.items()
        }
    return [without_records(each) for each in value] if isinstance(value, list) else value


def _size(encoded: str) -> str:
    return f"{len(encoded) * 3 // 4 - encoded.count('=')} bytes"
