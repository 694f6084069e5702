"""The requests of ``kpybroker tokens``: delegation tokens (KIP-48, KIP-373). Raises KafkaError."""

from collections.abc import Iterable
from typing import NamedTuple

from kpybroker.client.client import Client, raise_for
from kpywire.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenOwner, DescribeDelegationTokenRequest
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest


class TokenPrincipal(NamedTuple):
    """A type and a name, such as ``User:alice``."""

    kind: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


class DelegationToken(NamedTuple):
    """A delegation token. A program that has the HMAC can log in as the owner."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    ends_ms: int
    """The time up to which it can be renewed."""
    hmac: bytes

    def __repr__(self) -> str:
        return f"Token({self.token_id!r}, {self.owner!r})"


def create(
    client: Client, owner: TokenPrincipal | None, renewers: Iterable[TokenPrincipal], max_lifetime_ms: int | None
) -> DelegationToken:
    """Create a token of the client's own user, or of the ``owner``. Raises KafkaError."""
    named = list(renewers)
    request = CreateDelegationTokenRequest(
        renewers=[
            CreatableRenewers(principal_type=principal.kind, principal_name=principal.name) for principal in named
        ],
        max_lifetime_ms=-1 if max_lifetime_ms is None else max_lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = owner

    def attempt() -> DelegationToken:
        answer = client.call(request)
        raise_for(answer.error_code, "the token")
        token_owner = TokenPrincipal(answer.principal_type, answer.principal_name)
        requester = answer.token_requester_principal_name
        return DelegationToken(
            answer.token_id,
            str(token_owner),
            str(TokenPrincipal(answer.token_requester_principal_type, requester) if requester else token_owner),
            tuple(map(str, named)),
            answer.issue_timestamp_ms,
            answer.expiry_timestamp_ms,
            answer.max_timestamp_ms,
            answer.hmac,
        )

    return client.retrying(attempt)


def renew(client: Client, hmac: bytes, period_ms: int | None) -> int:
    """The new expiry of a token, in ms since the epoch. Raises KafkaError."""
    request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=-1 if period_ms is None else period_ms)

    def attempt() -> int:
        answer = client.call(request)
        raise_for(answer.error_code, "the token")
        return int(answer.expiry_timestamp_ms)

    return client.retrying(attempt)


def expire(client: Client, hmac: bytes, period_ms: int | None) -> int:
    """The new expiry of a token, in ms since the epoch; without a period it is removed at once. Raises KafkaError."""
    request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=-1 if period_ms is None else period_ms)

    def attempt() -> int:
        answer = client.call(request)
        raise_for(answer.error_code, "the token")
        return int(answer.expiry_timestamp_ms)

    return client.retrying(attempt)


def tokens(client: Client, owners: Iterable[TokenPrincipal] | None = None) -> list[DelegationToken]:
    """The tokens that the client's user may see, of these owners or of all. Raises KafkaError."""
    wanted = (
        None
        if owners is None
        else [
            DescribeDelegationTokenOwner(principal_type=principal.kind, principal_name=principal.name)
            for principal in owners
        ]
    )

    def attempt() -> list[DelegationToken]:
        answer = client.call(DescribeDelegationTokenRequest(owners=wanted))
        raise_for(answer.error_code, "tokens")
        found = []
        for each in answer.tokens:
            owner = TokenPrincipal(each.principal_type, each.principal_name)
            requester = each.token_requester_principal_name
            found.append(
                DelegationToken(
                    each.token_id,
                    str(owner),
                    str(TokenPrincipal(each.token_requester_principal_type, requester) if requester else owner),
                    tuple(f"{principal.principal_type}:{principal.principal_name}" for principal in each.renewers),
                    each.issue_timestamp,
                    each.expiry_timestamp,
                    each.max_timestamp,
                    each.hmac,
                )
            )
        return sorted(found, key=lambda token: (token.owner, token.issued_ms, token.token_id))

    return client.retrying(attempt)
