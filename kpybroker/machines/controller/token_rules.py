"""The rules that delegation tokens keep with KRaft and with ZooKeeper: who may change one, and when it ends. Pure."""

from typing import Final

from kpybroker.machines.errors import KafkaError
from kpybroker.runtime.calls.principal import Principal
from kpywire import error_codes
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord

REQUESTER_FROM: Final = 3
"""The version of CreateDelegationToken from which the answer names the requester."""
_LONG_MAX: Final = 2**63 - 1


def owner_of(message: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner of a new token: whom the request names, else its sender (KIP-373)."""
    if message.owner_principal_name:
        return Principal(message.owner_principal_type or "", message.owner_principal_name)
    return requester


def times_of(
    message: CreateDelegationTokenRequest, max_lifetime_ms: int, expiry_time_ms: int, now_ms: int
) -> tuple[int, int]:
    """The times, by the wall clock, when a new token expires if nobody renews it, and when it ends whatever happens."""
    if message.max_lifetime_ms > 0:
        max_lifetime_ms = min(max_lifetime_ms, message.max_lifetime_ms)
    max_ms = later(now_ms, max_lifetime_ms)
    return min(max_ms, later(now_ms, expiry_time_ms)), max_ms


def renewers_of(message: CreateDelegationTokenRequest) -> list[str]:
    """The principals that may renew a new token beside its owner."""
    return [f"{each.principal_type}:{each.principal_name}" for each in message.renewers]


def has_expired(token: DelegationTokenRecord, now_ms: int) -> bool:
    """Whether a token is of no use any more. As in Kafka, one that ends now may still be renewed; it lets nobody in."""
    return min(token.max_timestamp, token.expiration_timestamp) < now_ms


def check_alive(token: DelegationTokenRecord, now_ms: int) -> None:
    """Raise DELEGATION_TOKEN_EXPIRED for a token that has expired."""
    if has_expired(token, now_ms):
        raise KafkaError(error_codes.DELEGATION_TOKEN_EXPIRED)


def check_allowed(token: DelegationTokenRecord, sender: Principal) -> None:
    """Raise DELEGATION_TOKEN_OWNER_MISMATCH unless the sender owns the token or may renew it."""
    if str(sender) not in (token.owner, *token.renewers):
        raise KafkaError(error_codes.DELEGATION_TOKEN_OWNER_MISMATCH)


def later(now_ms: int, period_ms: int) -> int:
    """The time after a period, at most the largest that Kafka can store."""
    return min(_LONG_MAX, now_ms + period_ms)
