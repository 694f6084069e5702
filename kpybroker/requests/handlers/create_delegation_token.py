"""CreateDelegationToken (38), versions 1-3: create a token to log in with (KIP-48).

- A client that has not logged in, or by a token, gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED.
- A token for somebody else (v3, KIP-373) needs CREATE_TOKENS on that user, else DELEGATION_TOKEN_AUTHORIZATION_FAILED.
- A renewer that is not of type User is INVALID_PRINCIPAL_TYPE. The rest is decided in
  `kpybroker.machines.controller.delegation_tokens`.
- The answer names the requested owner, else the client. An owner's name without a type is an error that Kafka does not
  catch: UNKNOWN_SERVER_ERROR.
"""

from kpybroker.machines.authorization.resources import AclOperation, ResourceType
from kpybroker.requests.serving.context import Context
from kpybroker.requests.serving.delegation_tokens import NO_TIMESTAMP, may_ask
from kpybroker.requests.serving.forwarding import forward
from kpybroker.requests.serving.permissions import may
from kpybroker.runtime.calls.call import Call
from kpybroker.runtime.calls.pending import Pending
from kpybroker.runtime.calls.principal import USER, Principal
from kpywire import error_codes
from kpywire.messages.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse

OWNED_FROM = 3


def handle(
    broker: Context, request: CreateDelegationTokenRequest, call: Call
) -> CreateDelegationTokenResponse | Pending:
    """Refuse the request, or have it decided by the controller."""
    owner = call.principal
    if request.owner_principal_name:
        if request.owner_principal_type is None:
            return _refused(call, call.principal, error_codes.UNKNOWN_SERVER_ERROR)
        owner = Principal(request.owner_principal_type, request.owner_principal_name)
    if not may_ask(call):
        return _refused(call, owner, error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    if owner != call.principal and not may(broker, call, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)):
        return _refused(call, owner, error_codes.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if any(each.principal_type != USER for each in request.renewers):
        return _refused(call, owner, error_codes.INVALID_PRINCIPAL_TYPE)
    return forward(broker, request, call)


def _refused(call: Call, owner: Principal, code: int) -> CreateDelegationTokenResponse:
    answer = CreateDelegationTokenResponse(
        throttle_time_ms=0,
        error_code=code,
        principal_type=owner.principal_type,
        principal_name=owner.name,
        issue_timestamp_ms=NO_TIMESTAMP,
        expiry_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=NO_TIMESTAMP,
        token_id="",
        hmac=b"",
    )
    if call.api_version >= OWNED_FROM:
        answer.token_requester_principal_type = call.principal.principal_type
        answer.token_requester_principal_name = call.principal.name
    return answer
