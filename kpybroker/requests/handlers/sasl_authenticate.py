"""SaslAuthenticate (36), versions 0-2: log in. Without SASL, and after the login: ILLEGAL_SASL_STATE."""

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse


def handle(_broker: Context, _request: SaslAuthenticateRequest, _call: Call) -> SaslAuthenticateResponse:
    """Refuse the request: its client is logged in, or has no need to. Logins are served before the dispatcher."""
    return SaslAuthenticateResponse(
        error_code=error_codes.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
        auth_bytes=b"",
    )
