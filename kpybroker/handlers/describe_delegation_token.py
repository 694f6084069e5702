"""DescribeDelegationToken (41), versions 1-3: list the tokens (KIP-48).

- A client that has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import TOKENS_NOT_ALLOWED
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


def handle(_broker: Context, _request: DescribeDelegationTokenRequest, _call: Call) -> DescribeDelegationTokenResponse:
    """Refuse the request: there are no tokens."""
    return DescribeDelegationTokenResponse(throttle_time_ms=0, error_code=TOKENS_NOT_ALLOWED, tokens=[])
