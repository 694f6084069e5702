"""RenewDelegationToken (39), versions 1-2: let a token live longer (KIP-48).

- Who has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.no_security import NO_TIMESTAMP, TOKENS_NOT_ALLOWED
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(_broker: Context, _request: RenewDelegationTokenRequest, _call: Call) -> RenewDelegationTokenResponse:
    """There are no tokens."""
    return RenewDelegationTokenResponse(
        throttle_time_ms=0, error_code=TOKENS_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
