"""One request, as its handler sees it."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kpybroker.runtime.calls.askers import NO_ASKER, Asker
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.principal import Principal
from kpybroker.runtime.calls.steps import Work
from kpybroker.runtime.counters import UNCOUNTED, ApiCounters


class RequestConnection(Protocol):
    """The connection of a request, as a handler may use it."""

    answered_ns: int
    """The time when it last answered a request, or began to work on one in steps."""

    def share(self, work: Work) -> Any:
        """Do work in steps, and serve others in between. Return the response after a single step, else a `Pending`."""

    def close(self) -> None:
        """Close the connection."""

    def give_up(self, reason: str) -> None:
        """Close the connection, and log the reason."""

    def mute(self, throttle_ms: int) -> None:
        """Serve no further request of the connection for this time. The answer to the present one leaves."""


class FetchThrottle(Protocol):
    """The quotas of clients that fetch, and of those that have work done elsewhere."""

    def worked_elsewhere(self, call: "Call", worked_ns: int) -> None:
        """Another process has worked for this request."""

    def most_fetched_bytes(self, call: "Call") -> float:
        """The most bytes that an answer may have."""

    def fetched(self, call: "Call", answer_bytes: int) -> int:
        """An answer of this size is ready. Return the time for which the client has to wait; if it is not 0, the answer
        must be empty."""


class Call:
    """Everything that a handler may know about a request in addition to its body, and may do to its connection."""

    __slots__ = (
        "api_key",
        "api_version",
        "asker",
        "audited",
        "audited_ns",
        "client",
        "client_id",
        "counters",
        "host",
        "listener_name",
        "peer",
        "principal",
        "throttle",
        "versions",
    )

    def __init__(
        self,
        api_key: int,
        api_version: int,
        client_id: str | None,
        client: ConnectedClient,
        peer: RequestConnection,
        versions: Mapping[int, tuple[int, int]],
        counters: ApiCounters = UNCOUNTED,
    ) -> None:
        """``versions``: those that the listener serves, ``{api key: (first, last)}``; ``counters``: the api key's."""
        self.versions = versions
        self.counters = counters
        self.api_key = api_key
        self.api_version = api_version
        self.client_id = client_id
        self.client = client
        self.peer = peer
        self.listener_name = client.listener_name
        self.principal: Principal = client.principal
        """The sender of the request: the client, or the client of the broker that has forwarded the request."""
        self.host = client.host
        """The address from which the request came first."""
        self.asker: Asker = NO_ASKER
        """The counter of the client's metadata requests."""
        self.throttle: FetchThrottle | None = None
        """The quotas of its fetches, while any client quota is set."""
        self.audited = 0
        """The number of the authorizer's decisions on the present request that are to be logged."""
        self.audited_ns = -1
        """The peer's `answered_ns` when they were counted: later requests have another one."""


Handle = Callable[[Any, Any, Call], Any]
"""A handler: (broker, request, call) -> a response, a `Pending` of one, or None where there is no reply."""
