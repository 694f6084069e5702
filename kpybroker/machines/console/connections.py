"""Connections, the time of requests, and the requests of one connection. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.plots import TimePlots

Json = str
UNKNOWN: Final = "unknown"


@dataclass(frozen=True, slots=True)
class ConnectionRow:
    """One connection of a client."""

    id: str
    """The client's address and port."""
    listener: str
    protocol: str
    principal: str
    software: str
    software_version: str
    client_ids: tuple[str, ...]
    versions: tuple[str, ...]
    """The requests that it has sent, with their versions."""
    idle_s: float
    unread_bytes: int
    state: str

    @property
    def program(self) -> str:
        """The software with its version, as far as the client has said them."""
        known = [each for each in (self.software, self.software_version) if each != UNKNOWN]
        return " ".join(known) or UNKNOWN


@dataclass(frozen=True, slots=True)
class Quantiles:
    """Two quantiles, in milliseconds."""

    p50: float
    p99: float


@dataclass(frozen=True, slots=True)
class PhaseTimes:
    """The times of one kind of request since the start, in milliseconds: p50 and p99 of each phase."""

    request: str
    count: int
    errors: int
    total: Quantiles
    queue: Quantiles
    local: Quantiles
    remote: Quantiles
    waiting: Quantiles
    send: Quantiles


@dataclass(frozen=True, slots=True)
class LoopShare:
    """A share of the time of the event loop."""

    what: str
    share: float


@dataclass(frozen=True, slots=True)
class Connections:
    """The connections of this node, and where its time is spent."""

    search: str
    page: int
    pages: int
    total: int
    connections: tuple[ConnectionRow, ...]
    times: tuple[PhaseTimes, ...]
    loop: tuple[LoopShare, ...]
    """The shares of the last minute that was watched, the largest first."""
    loop_s: float
    """How long that was."""
    history: TimePlots


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """A request and its answer, as JSON in Kafka's form. Passwords and records are left out."""

    at_ms: int
    request: str
    version: int
    correlation_id: int
    client_id: str | None
    request_bytes: int
    answer_bytes: int | None
    took_ms: float | None
    request_json: Json | None
    answer_json: Json | None
    note: str


@dataclass(frozen=True, slots=True)
class ConnectionPage:
    """One connection, watched while somebody looks."""

    connection: ConnectionRow
    exchanges: tuple[ExchangeRow, ...]


CONNECTION_KEYS: Final[Keys[ConnectionRow]] = {
    "from": lambda row: row.id,
    "client": lambda row: row.client_ids,
    "software": lambda row: (row.software, row.software_version),
    "user": lambda row: row.principal,
    "listener": lambda row: (row.listener, row.protocol),
    "state": lambda row: row.state,
    "idle": lambda row: row.idle_s,
    "unread": lambda row: row.unread_bytes,
    "requests": lambda row: row.versions,
}
TIME_KEYS: Final[Keys[PhaseTimes]] = {
    "request": lambda row: row.request,
    "served": lambda row: row.count,
    "errors": lambda row: row.errors,
    "total": lambda row: row.total.p99,
    "queue": lambda row: row.queue.p99,
    "local": lambda row: row.local.p99,
    "remote": lambda row: row.remote.p99,
    "waiting": lambda row: row.waiting.p99,
    "send": lambda row: row.send.p99,
}
"""The columns of the two lists by which a viewer sorts them."""


def loop_shares(rates: Mapping[str, float]) -> tuple[LoopShare, ...]:
    """The shares of the loop's time, the largest first, by names that begin with ``loop``."""
    found = [
        LoopShare("the garbage collector" if name == "loop collector" else name.removeprefix("loop "), round(value, 6))
        for name, value in rates.items()
        if name.startswith("loop ") and value > 0
    ]
    return tuple(sorted(found, key=lambda each: -each.share))
