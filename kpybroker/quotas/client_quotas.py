"""The quotas that are set, and which one counts for a client (KIP-55, KIP-546).

For each kind of quota the first of these that is set counts: (user, client id), (user, default client id), user,
(default user, client id), (default user, default client id), default user, client id, default client id. The level
also says who shares a `Share`: the clients of a user, all users of a client id, or nobody else.

Addresses have a kind of quota of their own. Invariant: kinds that nobody uses cost nothing.
"""

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Final, NamedTuple, TypeVar

PRODUCER_BYTE_RATE: Final = "producer_byte_rate"
CONSUMER_BYTE_RATE: Final = "consumer_byte_rate"
REQUEST_PERCENTAGE: Final = "request_percentage"
CONTROLLER_MUTATION_RATE: Final = "controller_mutation_rate"
CONNECTION_CREATION_RATE: Final = "connection_creation_rate"
CLIENT_KINDS: Final = (PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE)
"""The kinds of users and client ids."""
USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
MOST_FOUND: Final = 10_000
"""The most clients whose quotas are remembered."""

Entity = tuple[tuple[str, str | None], ...]
"""The types and names of an entity, sorted by type; the name None is the default."""
Key = TypeVar("Key")
_ANY: Final = None
_ABSENT: Final = ""
"""A type that is not part of an entity. No name is empty."""


class Share(NamedTuple):
    """The clients that share a quota: their tags in Kafka's metrics. An empty text stands for everybody."""

    user: str
    client_id: str


class Found(NamedTuple):
    """The quota that counts for a client."""

    share: Share
    limit: float


class ClientQuotas:
    """The quotas of users, client ids and addresses."""

    def __init__(self) -> None:
        self._limits: dict[str, dict[tuple[str | None, str | None], float]] = {}
        """By kind: the quotas by user and client id."""
        self.addresses: dict[str | None, float] = {}
        """The quotas of addresses, under the texts that were set; None is the default."""
        self._found: dict[tuple[str, str, str], Found | None] = {}

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of users' and client ids' quotas of which at least one is set."""
        return frozenset(self._limits)

    def changed(self, entities: Iterable[Entity], quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Take over the quotas of some entities, which may have none any more."""
        self._found.clear()
        for entity in entities:
            names, values = dict(entity), quotas.get(entity, {})
            if IP in names:
                self._set(self.addresses, names[IP], values.get(CONNECTION_CREATION_RATE))
                continue
            place = (names.get(USER, _ABSENT), names.get(CLIENT_ID, _ABSENT))
            for kind in CLIENT_KINDS:
                limits = self._limits.setdefault(kind, {})
                self._set(limits, place, values.get(kind))
                if not limits:
                    del self._limits[kind]

    @staticmethod
    def _set(limits: dict[Key, float], key: Key, value: float | None) -> None:
        # Kafka may have stored what is no limit: not a number, or infinite.
        if value is None or not isfinite(value) or value <= 0:
            limits.pop(key, None)
        else:
            limits[key] = value

    def find(self, kind: str, user: str, client_id: str) -> Found | None:
        """The quota of this kind for a client; None if none is set for it."""
        limits = self._limits.get(kind)
        if limits is None:
            return None
        key = (kind, user, client_id)
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            found = self._found[key] = _find(limits, user, client_id)
            return found


def _find(limits: Mapping[tuple[str | None, str | None], float], user: str, client_id: str) -> Found | None:
    share = _share(limits, user, client_id)
    if share.user and share.client_id:
        places = ((user, client_id), (user, _ANY), (_ANY, client_id), (_ANY, _ANY))
    elif share.user:
        places = ((user, _ABSENT), (_ANY, _ABSENT))
    elif share.client_id:
        places = ((_ABSENT, client_id), (_ABSENT, _ANY))
    else:
        return None
    return next((Found(share, limits[place]) for place in places if place in limits), None)


def _share(limits: Mapping[tuple[str | None, str | None], float], user: str, client_id: str) -> Share:
    """The share of a client (``DefaultQuotaCallback.quotaMetricTags``). A client without an id has no share of client
    ids, even if there is a default."""
    both, of_user = Share(user, client_id), Share(user, "")
    levels = (
        ((user, client_id), both),
        ((user, _ANY), both),
        ((user, _ABSENT), of_user),
        ((_ANY, client_id), both),
        ((_ANY, _ANY), both),
        ((_ANY, _ABSENT), of_user),
    )
    return next((share for place, share in levels if place in limits), Share("", client_id))
