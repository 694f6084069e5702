"""This node's unanswered requests to others, and the messages it is about to send. Pure.

Invariant: one request at a time is outstanding for each node. A node that failed is not asked again before its backoff
ends.
"""

from typing import Any

from kpybroker.machines.raft.events import Answer, Send
from kpybroker.machines.raft.messages import FetchSnapshot, Request, Response

QUICK_RETRIES = 3
"""This many failures in a row cost the first backoff; each one after them doubles it."""
MOST_BACKOFF_MS = 1_000


class Conversations:
    """All conversations with the other nodes."""

    __slots__ = ("_awaited", "_failures", "_last_asked", "_outgoing", "_retry_ms")

    def __init__(self) -> None:
        self._outgoing: list[Send | Answer] = []
        self._awaited: dict[int, Request] = {}
        self._retry_ms: dict[int, float] = {}
        self._failures: dict[int, int] = {}
        """The number of failures in a row, by node."""
        self._last_asked = 0

    def ask(self, node_id: int, request: Request) -> None:
        """Send a request and wait for its answer. The answer to an earlier request to the same node is ignored."""
        self._awaited[node_id] = request
        self._outgoing.append(Send(node_id, request))

    def tell(self, node_id: int, request: Request) -> None:
        """Send a request whose answer does not matter."""
        self._outgoing.append(Send(node_id, request))

    def answer(self, ticket: Any, response: Response, read_from: int | FetchSnapshot | None = None) -> None:
        """Answer a request of another node."""
        self._outgoing.append(Answer(ticket, response, read_from))

    def settle(self, node_id: int, request: Request) -> bool:
        """Note that a request is answered, or will not be. Return whether its answer was waited for."""
        is_awaited = self._awaited.get(node_id) is request
        if is_awaited:
            del self._awaited[node_id]
        return is_awaited

    def back_off(self, node_id: int, now_ms: float, first_ms: float) -> None:
        """Note that a node failed: ask it nothing for a while, at least for ``first_ms``."""
        failures = self._failures[node_id] = self._failures.get(node_id, 0) + 1
        doublings = min(max(failures - QUICK_RETRIES, 0), 16)
        self._retry_ms[node_id] = now_ms + max(first_ms, min(first_ms * 2**doublings, MOST_BACKOFF_MS))

    def succeeded(self, node_id: int) -> None:
        """Note that a node answered. Its failures are forgotten, unless the answer was of no use."""
        if node_id not in self._retry_ms:
            self._failures.pop(node_id, None)

    def forgive(self, now_ms: float) -> None:
        """Let the nodes whose backoff is over be asked again."""
        self._retry_ms = {node_id: due_ms for node_id, due_ms in self._retry_ms.items() if due_ms > now_ms}

    def forget(self) -> None:
        """Ignore the answers to all requests so far, because this node has another role now."""
        self._awaited.clear()
        self._retry_ms.clear()
        self._failures.clear()

    def is_free(self, node_id: int) -> bool:
        """Whether a node may be asked something now."""
        return node_id not in self._awaited and node_id not in self._retry_ms

    def next_free(self, node_ids: list[int]) -> int | None:
        """Choose one of the nodes, in turn. None if an answer is awaited, or if all of them are in backoff."""
        free = [] if self._awaited else [node_id for node_id in node_ids if node_id not in self._retry_ms]
        self._last_asked += 1
        return free[self._last_asked % len(free)] if free else None

    @property
    def deadlines_ms(self) -> list[float]:
        """The times when backoffs end."""
        return list(self._retry_ms.values())

    @property
    def has_words(self) -> bool:
        return bool(self._outgoing)

    def take(self) -> list[Send | Answer]:
        """The messages to send, in order; each is returned once."""
        outgoing, self._outgoing = self._outgoing, []
        return outgoing
