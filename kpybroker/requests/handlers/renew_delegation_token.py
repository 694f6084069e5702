"""RenewDelegationToken (39), versions 1-2: extend a token's life (KIP-48).

- A client that has not logged in, or by a token, gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
- The rest is decided in `kpybroker.machines.controller.delegation_tokens`: only the owner and the renewers may do it.
"""

from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.delegation_tokens import NO_TIMESTAMP, may_ask
from kpybroker.requests.serving.forwarding import forward
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpywire import error_codes
from kpywire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse


def handle(broker: Context, request: RenewDelegationTokenRequest, call: Call) -> RenewDelegationTokenResponse | Pending:
    """Refuse the request, or have it decided by the controller."""
    if may_ask(call):
        return forward(broker, request, call)
    return RenewDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        expiry_timestamp_ms=NO_TIMESTAMP,
    )
