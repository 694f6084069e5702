"""RenewDelegationToken (39), versions 1-2: extend a token's life (KIP-48).

- A client that has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import NO_TIMESTAMP, TOKENS_NOT_ALLOWED
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(_broker: Context, _request: RenewDelegationTokenRequest, _call: Call) -> RenewDelegationTokenResponse:
    """Refuse the request: there are no tokens."""
    return RenewDelegationTokenResponse(
        throttle_time_ms=0, error_code=TOKENS_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
