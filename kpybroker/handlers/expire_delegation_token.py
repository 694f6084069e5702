"""ExpireDelegationToken (40), versions 1-2: end a token's life (KIP-48).

- A client that has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import NO_TIMESTAMP, TOKENS_NOT_ALLOWED
from kpywire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse


def handle(_broker: Context, _request: ExpireDelegationTokenRequest, _call: Call) -> ExpireDelegationTokenResponse:
    """Refuse the request: there are no tokens."""
    return ExpireDelegationTokenResponse(
        throttle_time_ms=0, error_code=TOKENS_NOT_ALLOWED, expiry_timestamp_ms=NO_TIMESTAMP
    )
