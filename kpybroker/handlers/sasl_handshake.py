"""SaslHandshake (17), versions 0-1: choose a login mechanism. On a listener without SASL: ILLEGAL_SASL_STATE."""

from kpybroker.calls.call import Call
from kpybroker.serving.context import Context
from kpywire import error_codes
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_broker: Context, _request: SaslHandshakeRequest, _call: Call) -> SaslHandshakeResponse:
    """Refuse the request: no listener requires a login."""
    return SaslHandshakeResponse(error_code=error_codes.ILLEGAL_SASL_STATE, mechanisms=[])
