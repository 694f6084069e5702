"""Quotas, and what the clients that share one use. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class QuotaRow:
    """One quota."""

    entity: str
    name: str
    value: float


@dataclass(frozen=True, slots=True)
class UseRow:
    """The use of clients that share a quota on this node, over the last windows."""

    quota: str
    """The name of the quota that limits it."""
    user: str
    client_id: str
    per_second: float
    """Bytes, or percent of the loop's time for ``request_percentage``."""
    throttle_ms: float
    """The mean of the times for which clients had to wait."""


@dataclass(frozen=True, slots=True)
class QuotasPage:
    """The quotas that the viewer may see."""

    quotas: tuple[QuotaRow, ...]
    hidden: str | None
    """Why quotas are not shown; None if they are."""
    used: tuple[UseRow, ...]
    throttled: int
    """The connections that wait because of a quota now."""
