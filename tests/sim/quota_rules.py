"""Which client quota counts for whom, by Kafka's table of precedence, read entry by entry (KIP-55, KIP-546)."""

from collections.abc import Mapping
from typing import Any

KINDS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
DEFAULT = None
ABSENT = ""

Place = tuple[str | None, str | None]
"""A user and a client id."""
Quotas = dict[str, dict[Place, float]]
"""By kind."""


def limits_of(client_quotas: Mapping[Any, Mapping[str, float]]) -> Quotas:
    """The quotas of users and client ids in the metadata."""
    found: Quotas = {}
    for entity, values in client_quotas.items():
        names = dict(entity)
        if "ip" in names:
            continue
        place = (names.get("user", ABSENT), names.get("client-id", ABSENT))
        for kind in KINDS:
            if kind in values:
                found.setdefault(kind, {})[place] = values[kind]
    return found


def limit_for(quotas: Quotas, kind: str, user: str, client_id: str) -> float | None:
    """The quota of one client; None if it has none."""
    of_kind = quotas.get(kind, {})
    order = (
        (user, client_id), (user, DEFAULT), (user, ABSENT), (DEFAULT, client_id), (DEFAULT, DEFAULT), (DEFAULT, ABSENT),
        (ABSENT, client_id), (ABSENT, DEFAULT),
    )  # fmt: skip
    return next((of_kind[place] for place in order if place in of_kind), None)
