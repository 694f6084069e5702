"""The client at the other end of a connection, as requests know it. Sockets are in `kpybroker.requests.server`."""

from collections.abc import Callable
from typing import Any, Final

from kpybroker.runtime.calls.principal import ANONYMOUS, Principal

UNKNOWN_SOFTWARE: Final = ("unknown", "unknown")
PLAINTEXT: Final = "PLAINTEXT"


class ConnectedClient:
    """One client, from the start of its connection to its end."""

    __slots__ = (
        "calls", "host", "in_transactions", "listener_name", "on_close", "port", "principal", "reading",
        "security_protocol", "shares", "software", "telemetry",
    )  # fmt: skip

    def __init__(self, host: str, port: int, listener_name: str, security_protocol: str = PLAINTEXT) -> None:
        self.host = host
        self.port = port
        self.listener_name = listener_name
        self.security_protocol = security_protocol
        self.software = UNKNOWN_SOFTWARE
        """The name and version of its library, from ApiVersions (KIP-511). To be changed by `introduced` only."""
        self.principal: Principal = ANONYMOUS
        """Its identity. To be changed by `authenticated` only."""
        self.calls: dict[int, Any] = {}
        """Request headers that the dispatcher has read before, by `kind_of` api key and version."""
        self.reading: Any = None
        """The partitions of its last fetch outside of a session. They are closed with the connection."""
        self.telemetry: Any = None
        """Its connection to the receiver of client metrics, once it has asked for it. It is closed with this one."""
        self.shares: Any = None
        """Its share sessions, once it has some. They end with the connection."""
        self.on_close: Callable[[], object] | None = None
        """Called when the connection closes."""
        self.in_transactions = False
        """Whether one of its requests belonged to a transaction."""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    def authenticated(self, principal: Principal) -> None:
        """Its identity is known from now on."""
        self.principal = principal
        self.calls.clear()  # they name the principal that it had before

    def introduced(self, software: tuple[str, str]) -> None:
        """Its library is known from now on."""
        if software != self.software:
            self.software = software
            self.calls.clear()  # answers to its repeated requests may depend on the library

    def gone(self) -> None:
        """Release everything, when the connection has closed."""
        if self.reading is not None:
            self.reading.close()
            self.reading = None
        if self.telemetry is not None:
            self.telemetry.close()
            self.telemetry = None
        if self.shares is not None:
            self.shares.close()
            self.shares = None
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        self.calls.clear()  # they refer to the connection, which is freed at once without such a cycle
