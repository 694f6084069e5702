"""CreateDelegationToken (38), versions 1-3: create a token to log in with (KIP-48).

- A client that has not logged in gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
- The answer names the requested owner (v3, KIP-373), else the client. An owner's name without a type is an error that
  Kafka does not catch: UNKNOWN_SERVER_ERROR.
"""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpybroker.serving.no_security import NO_TIMESTAMP, PRINCIPAL_NAME, PRINCIPAL_TYPE, TOKENS_NOT_ALLOWED
from kpywire import error_codes
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

OWNED_FROM = 3


def handle(_broker: Context, request: CreateDelegationTokenRequest, call: Call) -> CreateDelegationTokenResponse:
    """Refuse the request: no token is created."""
    kind, name, code = PRINCIPAL_TYPE, PRINCIPAL_NAME, TOKENS_NOT_ALLOWED
    if request.owner_principal_name and request.owner_principal_type is None:
        code = error_codes.UNKNOWN_SERVER_ERROR
    elif request.owner_principal_name:
        kind, name = request.owner_principal_type or "", request.owner_principal_name
    answer = CreateDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=code,
        principal_type=kind,
        principal_name=name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if call.api_version >= OWNED_FROM:
        answer.token_requester_principal_type, answer.token_requester_principal_name = PRINCIPAL_TYPE, PRINCIPAL_NAME
    return answer
