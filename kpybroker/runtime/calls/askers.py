"""The number of metadata requests of each client. A client that asks without a pause slows all others, often unnoticed.

A client is identified by its host and client id. The table is bounded: when it is full, the client with the fewest
requests is forgotten. Counting a request costs one addition. No request needs this table to be served.
"""

from typing import Final

LONGEST_ID_CHARS: Final = 100
MOST_ASKERS: Final = 256


class Asker:
    """The number of requests that one client has sent."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0


NO_ASKER: Final = Asker()
"""The counter of calls that are not counted by client."""


class Askers:
    """The askers by host and client id."""

    def __init__(self) -> None:
        self.known: dict[tuple[str, str], Asker] = {}

    def of(self, host: str, client_id: str | None) -> Asker:
        """The counter of a client, to keep for as long as its connection lasts."""
        caller = (host, (client_id or "")[:LONGEST_ID_CHARS])
        found = self.known.get(caller)
        if found is None:
            if len(self.known) >= MOST_ASKERS:
                del self.known[min(self.known, key=lambda each: self.known[each].requests)]
            found = self.known[caller] = Asker()
        return found
