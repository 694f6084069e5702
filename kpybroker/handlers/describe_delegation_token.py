"""DescribeDelegationToken (41), versions 1-3: the tokens there are (KIP-48).

- Who has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
"""

from kpybroker.handlers.context import Call, Context
from kpybroker.handlers.no_security import TOKENS_NOT_ALLOWED
from kpywire.messages.describe_delegation_token import DescribeDelegationTokenRequest, DescribeDelegationTokenResponse


def handle(_broker: Context, _request: DescribeDelegationTokenRequest, _call: Call) -> DescribeDelegationTokenResponse:
    """There are no tokens."""
    return DescribeDelegationTokenResponse(throttle_time_ms=0, error_code=TOKENS_NOT_ALLOWED, tokens=[])
