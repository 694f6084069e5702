"""Quotas, and what the clients that share one use. Pure."""

from dataclasses import dataclass
from typing import Final

from kpybroker.machines.console.listing import Keys
from kpybroker.machines.console.wording import digits, in_bytes, percent, rate

_RATES: Final = {"controller_mutation_rate": "changes", "connection_creation_rate": "connections"}


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


QUOTA_KEYS: Final[Keys[QuotaRow]] = {
    "for": lambda row: row.entity,
    "quota": lambda row: row.name,
    "value": lambda row: row.value,
}
USE_KEYS: Final[Keys[UseRow]] = {
    "user": lambda row: row.user,
    "client": lambda row: row.client_id,
    "of": lambda row: row.quota,
    "used": lambda row: row.per_second,
    "wait": lambda row: row.throttle_ms,
}
"""The columns of the two lists by which a viewer sorts them."""


def in_unit(quota: str, value: float) -> str:
    """A value of a quota, with the unit of that quota."""
    if quota.endswith("_byte_rate"):
        return f"{in_bytes(value)}/s"
    if quota == "request_percentage":
        return percent(value / 100)
    return f"{rate(value)} {_RATES[quota]}/s" if quota in _RATES else digits(value)
