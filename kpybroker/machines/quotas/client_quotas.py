"""The quotas that are set, and which one counts for a client (KIP-55, KIP-546).

For each kind of quota the first of these that is set counts: (user, client id), (user, default client id), user,
(default user, client id), (default user, default client id), default user, client id, default client id. The level
also says who shares a `Share`: the clients of a user, all users of a client id, or nobody else.

Addresses have a kind of quota of their own. Invariant: kinds that nobody uses cost nothing.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
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
NO_LIMIT: Final = float(2**63 - 1)
"""The quota of a client that has none, while others have one (``Long.MAX_VALUE``). What it uses is recorded too, so
that a quota that is set later counts it, as in Kafka."""
MOST_FOUND: Final = 10_000
"""The most clients whose quotas are remembered."""

LONGEST_CLIENT_ID: Final = 256
"""The length of the longest client id that is remembered as it is, in characters. Protocols allow 32 767 bytes."""

Entity = tuple[tuple[str, str | None], ...]
"""The types and names of an entity, sorted by type; the name None is the default."""
Key = TypeVar("Key")
Place = tuple[str | None, str | None]
"""A user and a client id, each a name, any or absent."""
_ANY: Final = None
_ABSENT: Final = ""
"""A type that is not part of an entity. No name is empty."""


class Share(NamedTuple):
    """The clients that share a quota: their tags in Kafka's metrics. An empty text stands for everybody."""

    user: str
    client_id: str


class FoundQuota(NamedTuple):
    """The quota that counts for a client."""

    share: Share
    limit: float


class ClientQuotas:
    """The quotas of users, client ids and addresses."""

    def __init__(self) -> None:
        self._limits: dict[str, dict[Place, float]] = {}
        """By kind: the quotas by user and client id."""
        self.addresses: dict[str | None, float] = {}
        """The quotas of addresses, under the texts that were set; None is the default."""
        self._levels: dict[str, Share | None] = {}
        """By kind: the only level on which quotas are set."""
        self._found: dict[tuple[str, str, str], FoundQuota] = {}

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of users' and client ids' quotas of which at least one is set."""
        return frozenset(self._limits)

    def changed(self, entities: Iterable[Entity], quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Take over the quotas of some entities, which may have none any more."""
        self._found.clear()
        self._levels.clear()
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

    def find(self, kind: str, user: str, client_id: str) -> FoundQuota | None:
        """The quota of this kind for a client; None if nobody has one of this kind."""
        limits = self._limits.get(kind)
        if limits is None:
            return None
        if len(client_id) > LONGEST_CLIENT_ID:
            found = _find(limits, _only_level(limits), user, client_id)
            return found._replace(share=found.share._replace(client_id=_shortened(found.share.client_id)))
        key = (kind, user, client_id)
        try:
            return self._found[key]
        except KeyError:
            if len(self._found) >= MOST_FOUND:
                self._found.clear()
            if kind not in self._levels:
                self._levels[kind] = _only_level(limits)
            found = self._found[key] = _find(limits, self._levels[kind], user, client_id)
            return found


def _shortened(client_id: str) -> str:
    """A short name for a long client id; each has another."""
    if not client_id:
        return client_id
    return f"{client_id[:64]}...{sha256(client_id.encode(errors='surrogatepass')).hexdigest()}"


def _only_level(limits: Mapping[Place, float]) -> Share | None:
    """The level of all quotas, as a share of which the used parts are named; None if there are several levels."""
    levels = {Share("" if user == _ABSENT else USER, "" if id_ == _ABSENT else CLIENT_ID) for user, id_ in limits}
    return levels.pop() if len(levels) == 1 else None


def _find(limits: Mapping[Place, float], level: Share | None, user: str, client_id: str) -> FoundQuota:
    if level is None:
        share = _share(limits, user, client_id)
    else:
        share = Share(user if level.user else "", client_id if level.client_id else "")
    places: tuple[Place, ...] = ()
    if share.user and share.client_id:
        places = ((user, client_id), (user, _ANY), (_ANY, client_id), (_ANY, _ANY))
    elif share.user:
        places = ((user, _ABSENT), (_ANY, _ABSENT))
    elif share.client_id:
        places = ((_ABSENT, client_id), (_ABSENT, _ANY))
    return FoundQuota(share, next((limits[place] for place in places if place in limits), NO_LIMIT))


def _share(limits: Mapping[Place, float], user: str, client_id: str) -> Share:
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
