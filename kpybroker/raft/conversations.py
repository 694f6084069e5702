"""What this node has asked others and not been answered, and what it is about to say. Pure.

Invariant: of each node one request at a time is waited for; one that failed is not asked again before its backoff ends.
"""

from typing import Any

from kpybroker.raft.events import Answer, Send
from kpybroker.raft.messages import FetchSnapshot, Request, Response


class Conversations:
    """All talks with the other nodes."""

    __slots__ = ("_awaited", "_last_asked", "_retry_ms", "_said")

    def __init__(self) -> None:
        self._said: list[Send | Answer] = []
        self._awaited: dict[int, Request] = {}
        self._retry_ms: dict[int, float] = {}
        self._last_asked = 0

    def ask(self, node_id: int, request: Request) -> None:
        """Send a request and wait for its answer; of an earlier one to the same node no more is heard."""
        self._awaited[node_id] = request
        self._said.append(Send(node_id, request))

    def tell(self, node_id: int, request: Request) -> None:
        """Send a request whose answer does not matter."""
        self._said.append(Send(node_id, request))

    def answer(self, ticket: Any, response: Response, read_from: int | FetchSnapshot | None = None) -> None:
        """Answer a request of another node."""
        self._said.append(Answer(ticket, response, read_from))

    def settle(self, node_id: int, request: Request) -> bool:
        """A request is answered, or will not be; whether it was waited for."""
        is_awaited = self._awaited.get(node_id) is request
        if is_awaited:
            del self._awaited[node_id]
        return is_awaited

    def retry_after(self, node_id: int, due_ms: float) -> None:
        """Ask a node nothing before then."""
        self._retry_ms[node_id] = due_ms

    def forgive(self, now_ms: float) -> None:
        """Whose backoff is over may be asked again."""
        self._retry_ms = {node_id: due_ms for node_id, due_ms in self._retry_ms.items() if due_ms > now_ms}

    def forget(self) -> None:
        """What was asked so far is not waited for: this node has another role now."""
        self._awaited.clear()
        self._retry_ms.clear()

    def is_free(self, node_id: int) -> bool:
        """Whether a node may be asked something now."""
        return node_id not in self._awaited and node_id not in self._retry_ms

    def next_free(self, node_ids: list[int]) -> int | None:
        """One of the nodes, another one each time; None while one of them is being asked, or none may be."""
        free = [] if self._awaited else [node_id for node_id in node_ids if node_id not in self._retry_ms]
        self._last_asked += 1
        return free[self._last_asked % len(free)] if free else None

    @property
    def deadlines_ms(self) -> list[float]:
        """When backoffs end."""
        return list(self._retry_ms.values())

    @property
    def has_words(self) -> bool:
        return bool(self._said)

    def take(self) -> list[Send | Answer]:
        """What is to be said, each thing once, in order."""
        said, self._said = self._said, []
        return said
