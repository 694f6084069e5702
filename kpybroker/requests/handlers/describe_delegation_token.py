"""DescribeDelegationToken (41), versions 1-3: list the tokens (KIP-48).

- A client that has not logged in, or by a token, gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED; all others get
  DELEGATION_TOKEN_AUTH_DISABLED where there are no tokens.
- Shown are tokens that the sender owns, asked for or may renew, and those that it may DESCRIBE, or whose owner's tokens
  it may describe (DESCRIBE_TOKENS). Null owners means all, no owners none. Despite its name the list also selects
  tokens that somebody asked for, or may renew.
- v3: who asked for a token (KIP-373).
"""

from collections.abc import Generator

from kpybroker.config.delegation_tokens import token_secret
from kpybroker.machines.sasl.delegation_token import TokenSecret
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.delegation_tokens import may_ask, may_see
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.steps import each
from kpywire import error_codes
from kpywire.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kpywire.metadata_records.delegation_token_record import DelegationTokenRecord

REQUESTER_FROM = 3


def handle(
    broker: Context, request: DescribeDelegationTokenRequest, call: Call
) -> Generator[None, None, DescribeDelegationTokenResponse]:
    """Answer from the committed metadata."""
    secret = token_secret(broker.config)
    code = error_codes.NONE
    if not may_ask(call):
        code = error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    elif secret is None:
        code = error_codes.DELEGATION_TOKEN_AUTH_DISABLED
    if code or secret is None:
        return DescribeDelegationTokenResponse(throttle_time_ms=0, error_code=code, tokens=[])
    owners = (
        None
        if request.owners is None
        else {f"{caller.principal_type}:{caller.principal_name}" for caller in request.owners}
    )
    records = [
        token
        for token in broker.image.delegation_tokens.values()
        if owners is None or not owners.isdisjoint((token.owner, token.requester, *token.renewers))
    ]  # a list of its own: the image may change between two steps

    def described(token: DelegationTokenRecord) -> DescribedDelegationToken | None:
        return _described(token, secret, call.api_version) if may_see(broker, call, token) else None

    tokens = yield from each(records, described)
    return DescribeDelegationTokenResponse(
        throttle_time_ms=0, error_code=code, tokens=[token for token in tokens if token is not None]
    )


def _described(token: DelegationTokenRecord, secret: TokenSecret, api_version: int) -> DescribedDelegationToken:
    owner_type, _, owner_name = token.owner.partition(":")
    described = DescribedDelegationToken(
        principal_type=owner_type,
        principal_name=owner_name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=secret.hmac_of(token.token_id),
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, _, name in (renewer.partition(":") for renewer in token.renewers)
        ],
    )
    if api_version >= REQUESTER_FROM:
        requester_type, _, requester_name = token.requester.partition(":")
        described.token_requester_principal_type = requester_type
        described.token_requester_principal_name = requester_name
    return described
