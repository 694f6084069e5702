"""The principals of simulated clients. There is no TLS and no SASL here: the address of a client says who it is.

Nodes are ``User:node``, guests are the users of their addresses, and all others are ``User:operator``. Nodes and
operators are super users.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kpybroker.requests.server import listener
from kpybroker.runtime.calls.client import ConnectedClient
from kpybroker.runtime.calls.principal import USER, Principal

GUESTS = {"10.0.0.0": "guest0", "10.0.0.1": "guest1", "10.0.0.2": "guest1"}
"""Users by address. One of them has two."""
NODE, OPERATOR = "node", "operator"
SUPER_USERS = f"User:{NODE};User:{OPERATOR}"


class IdentifiedClient(ConnectedClient):
    """A client whose connection says who it is."""

    __slots__ = ()

    def __init__(self, host: str, *arguments: Any) -> None:
        super().__init__(host, *arguments)
        is_node = host.startswith("n") and host[1:].isdigit()
        self.authenticated(Principal(USER, GUESTS.get(host, NODE if is_node else OPERATOR)))


@contextmanager
def identified() -> Iterator[None]:
    """Let listeners know their clients as long as this lasts."""
    listener.ConnectedClient = IdentifiedClient  # type: ignore[misc]
    try:
        yield
    finally:
        listener.ConnectedClient = ConnectedClient  # type: ignore[misc]
