"""SaslHandshake (17), versions 0-1: choose a login mechanism. Without SASL, and after the login: ILLEGAL_SASL_STATE."""

from kpybroker.requests.serving.context import Context
from kpybroker.runtime.calls.call import Call
from kpywire import error_codes
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_broker: Context, _request: SaslHandshakeRequest, _call: Call) -> SaslHandshakeResponse:
    """Refuse the request: its client is logged in, or has no need to. Logins are served before the dispatcher."""
    return SaslHandshakeResponse(error_code=error_codes.ILLEGAL_SASL_STATE, mechanisms=[])
