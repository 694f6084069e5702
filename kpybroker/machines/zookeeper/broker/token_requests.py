"""CreateDelegationToken, RenewDelegationToken and ExpireDelegationToken (``DelegationTokenManagerZk``). Pure.

They differ from those of a KRaft controller: a sender that may not change a token learns it before the age of the token
is checked, and a renewal may be longer than the default.
"""

from dataclasses import replace
from typing import Any, Final, NamedTuple

from kpybroker.machines.controller.state import TokenSettings
from kpybroker.machines.controller.token_rules import (
    REQUESTER_FROM,
    check_alive,
    check_allowed,
    later,
    owner_of,
    renewers_of,
    times_of,
)
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.machines.zookeeper.tree.tokens import TokenContent
from kpybroker.runtime.calls.principal import Principal
from kpywire import error_codes
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord

NO_TIMESTAMP: Final = -1


class TokenChange(NamedTuple):
    """A token as it is to be written; None if it is to be deleted. ``expiry_ms`` is for the answer."""

    token: TokenContent | None
    expiry_ms: int


def created(
    message: CreateDelegationTokenRequest, requester: Principal, token_id: str, settings: TokenSettings, now_ms: int
) -> TokenContent:
    """The token that a request creates, for its sender or for the owner that it names."""
    expiry_ms, max_ms = times_of(message, settings.max_lifetime_ms, settings.expiry_time_ms, now_ms)
    return TokenContent(
        token_id=token_id,
        owner=str(owner_of(message, requester)),
        requester=str(requester),
        renewers=tuple(renewers_of(message)),
        issue_timestamp_ms=now_ms,
        expiry_timestamp_ms=expiry_ms,
        max_timestamp_ms=max_ms,
    )


def creation_response(token: TokenContent, token_hmac: bytes, api_version: int) -> CreateDelegationTokenResponse:
    """The answer to the request that created a token."""
    owner_type, _, owner_name = token.owner.partition(":")
    response = CreateDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp_ms=token.issue_timestamp_ms,
        expiry_timestamp_ms=token.expiry_timestamp_ms,
        max_timestamp_ms=token.max_timestamp_ms,
        token_id=token.token_id,
        hmac=token_hmac,
    )
    if api_version >= REQUESTER_FROM:
        kind, _, name = token.requester.partition(":")
        response.token_requester_principal_type, response.token_requester_principal_name = kind, name
    return response


def disabled(message: Any, sender: Principal, api_version: int) -> Any:
    """The answer to a request about tokens where there is no secret of tokens."""
    code = error_codes.DELEGATION_TOKEN_AUTH_DISABLED
    if isinstance(message, RenewDelegationTokenRequest):
        return RenewDelegationTokenResponse(throttle_time_ms=0, error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)
    if isinstance(message, ExpireDelegationTokenRequest):
        return ExpireDelegationTokenResponse(throttle_time_ms=0, error_code=code, expiry_timestamp_ms=NO_TIMESTAMP)
    settings = TokenSettings(TokenSecret(""), 0, 0)
    token = replace(
        created(message, sender, "", settings, NO_TIMESTAMP),
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
    )
    answer = creation_response(token, b"", api_version)
    answer.error_code = code
    return answer


def renewed(
    record: DelegationTokenRecord, sender: Principal, period_ms: int, default_ms: int, now_ms: int
) -> TokenChange:
    """A token with a later expiry. Raises KafkaError."""
    check_allowed(record, sender)
    check_alive(record, now_ms)
    expiry_ms = min(record.max_timestamp, later(now_ms, default_ms if period_ms < 0 else period_ms))
    return TokenChange(_with_expiry(record, expiry_ms), expiry_ms)


def expired(record: DelegationTokenRecord, sender: Principal, period_ms: int, now_ms: int) -> TokenChange:
    """A token with another expiry, or its end if the period is negative. Raises KafkaError."""
    check_allowed(record, sender)
    if period_ms < 0:
        return TokenChange(None, now_ms)
    check_alive(record, now_ms)
    expiry_ms = min(record.max_timestamp, later(now_ms, period_ms))
    return TokenChange(_with_expiry(record, expiry_ms), expiry_ms)


def _with_expiry(record: DelegationTokenRecord, expiry_ms: int) -> TokenContent:
    return TokenContent(
        token_id=record.token_id,
        owner=record.owner,
        requester=record.requester,
        renewers=tuple(record.renewers),
        issue_timestamp_ms=record.issue_timestamp,
        expiry_timestamp_ms=expiry_ms,
        max_timestamp_ms=record.max_timestamp,
    )
