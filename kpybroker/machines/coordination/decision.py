"""The outcome of one input, while it is being decided: what the decisions of all coordinators have in common."""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar

R = TypeVar("R")


class Alike(NamedTuple):
    """The answer to a large request all whose parts get one error code, or none. The shell makes the response of it, in
    steps."""

    error_code: int


class CoordinatorDecision(Generic[R]):
    """The records and replies of one decision, and both clocks: ``now_ms`` is monotonic, ``timestamp_ms`` the wall
    clock."""

    __slots__ = ("now_ms", "records", "replies", "timestamp_ms")

    now_ms: int
    timestamp_ms: int
    records: list[R]
    replies: list[tuple[Any, Any]]

    @property
    def is_full(self) -> bool:
        """Whether further work should be left to the next decision."""
        return bool(self.records)

    def reply(self, ticket: Any, message: Any) -> None:
        """Answer a request when the records are committed."""
        self.replies.append((ticket, message))
