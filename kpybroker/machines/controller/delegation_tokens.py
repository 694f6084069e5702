"""CreateDelegationToken, RenewDelegationToken, ExpireDelegationToken, and the end of tokens that expired (KIP-48,
KIP-373; ``DelegationTokenControlManager``).

Times are those of the wall clock, since they are stored and shown. Brokers refuse a sender that may not ask.
"""

from typing import Any

from kpybroker.machines.controller.state import ControllerRequest, ControllerState, Decision, TokenSettings
from kpybroker.machines.controller.token_index import TokenIndex
from kpybroker.machines.controller.token_rules import (
    REQUESTER_FROM,
    check_alive,
    check_allowed,
    has_expired,
    later,
    owner_of,
    renewers_of,
    times_of,
)
from kpybroker.machines.errors import KafkaError
from kpybroker.machines.metadata import metadata_version
from kpybroker.runtime.calls.principal import USER
from kpywire import error_codes, uuid
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord
from kpywire.metadata_records.remove_delegation_token_record import RemoveDelegationTokenRecord

MAX_REMOVALS = 1_000
"""The most tokens that one batch removes."""


def create_delegation_token(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Create a token of the requester or of the owner that it names."""
    message: CreateDelegationTokenRequest = request.message
    requester = request.principal
    owner = owner_of(message, requester)
    response = CreateDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=error_codes.NONE,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp_ms=0,
        expiry_timestamp_ms=0,
        max_timestamp_ms=0,
        token_id="",
        hmac=b"",
    )
    if request.api_version >= REQUESTER_FROM:
        response.token_requester_principal_type = requester.principal_type
        response.token_requester_principal_name = requester.name
    try:
        settings, _ = _enabled(state)
        if any(each.principal_type != USER for each in message.renewers):
            raise KafkaError(error_codes.INVALID_PRINCIPAL_TYPE)
    except KafkaError as error:
        response.error_code = error.code
        return [], response
    now_ms = request.wall_clock_ms
    expiry_ms, max_ms = times_of(message, settings.max_lifetime_ms, settings.expiry_time_ms, now_ms)
    record = DelegationTokenRecord(
        owner=str(owner),
        requester=str(requester),
        renewers=renewers_of(message),
        issue_timestamp=now_ms,
        max_timestamp=max_ms,
        expiration_timestamp=expiry_ms,
        token_id=_new_id(state),
    )
    response.issue_timestamp_ms = now_ms
    response.expiry_timestamp_ms = record.expiration_timestamp
    response.max_timestamp_ms = record.max_timestamp
    response.token_id = record.token_id
    response.hmac = settings.secret.hmac_of(record.token_id)
    return [record], response


def renew_delegation_token(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Put off the expiry of a token, at most to its latest possible time."""
    message: RenewDelegationTokenRequest = request.message
    settings, tokens = _enabled(state)
    now_ms = request.wall_clock_ms
    token = _existing(tokens, message.hmac)
    check_alive(token, now_ms)
    check_allowed(token, request.principal)
    period_ms = settings.expiry_time_ms
    if message.renew_period_ms > 0:
        period_ms = min(period_ms, message.renew_period_ms)
    expiry_ms = min(token.max_timestamp, later(now_ms, period_ms))
    return [_with_expiry(token, expiry_ms)], RenewDelegationTokenResponse(
        throttle_time_ms=0, error_code=error_codes.NONE, expiry_timestamp_ms=expiry_ms
    )


def expire_delegation_token(state: ControllerState, request: ControllerRequest, _now_ms: int) -> Decision:
    """Change the expiry of a token; a negative period removes it at once."""
    message: ExpireDelegationTokenRequest = request.message
    _, tokens = _enabled(state)
    now_ms = request.wall_clock_ms
    token = _existing(tokens, message.hmac)
    check_allowed(token, request.principal)
    records: list[Any]
    if message.expiry_time_period_ms < 0:
        expiry_ms = now_ms
        records = [RemoveDelegationTokenRecord(token_id=token.token_id)]
    else:
        check_alive(token, now_ms)
        expiry_ms = min(token.max_timestamp, later(now_ms, message.expiry_time_period_ms))
        records = [_with_expiry(token, expiry_ms)]
    return records, ExpireDelegationTokenResponse(
        throttle_time_ms=0, error_code=error_codes.NONE, expiry_timestamp_ms=expiry_ms
    )


def sweep_expired_tokens(state: ControllerState, wall_clock_ms: int) -> tuple[list[Any], bool]:
    """The removal of tokens that have expired, and whether there are more of them."""
    expired = [token for token in state.image.delegation_tokens.values() if has_expired(token, wall_clock_ms)]
    records: list[Any] = [RemoveDelegationTokenRecord(token_id=each.token_id) for each in expired[:MAX_REMOVALS]]
    return records, len(expired) > MAX_REMOVALS


def _enabled(state: ControllerState) -> tuple[TokenSettings, TokenIndex]:
    if state.settings.tokens is None or state.tokens is None:
        raise KafkaError(error_codes.DELEGATION_TOKEN_AUTH_DISABLED)
    if state.image.level < metadata_version.DELEGATION_TOKENS:
        raise KafkaError(error_codes.UNSUPPORTED_VERSION)
    return state.settings.tokens, state.tokens


def _existing(tokens: TokenIndex, token_hmac: bytes) -> DelegationTokenRecord:
    token = tokens.find(token_hmac)
    if token is None:
        raise KafkaError(error_codes.DELEGATION_TOKEN_NOT_FOUND)
    return token


def _with_expiry(token: DelegationTokenRecord, expiry_ms: int) -> DelegationTokenRecord:
    return DelegationTokenRecord(
        owner=token.owner,
        requester=token.requester,
        renewers=token.renewers,
        issue_timestamp=token.issue_timestamp,
        max_timestamp=token.max_timestamp,
        expiration_timestamp=expiry_ms,
        token_id=token.token_id,
    )


def _new_id(state: ControllerState) -> str:
    while True:
        value = uuid.random_uuid(state.rng.randbytes(uuid.UUID_BYTES))
        token_id = uuid.to_string(value)
        if uuid.usable(value) and token_id not in state.image.delegation_tokens:
            return token_id
