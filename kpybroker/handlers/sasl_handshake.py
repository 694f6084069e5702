"""SaslHandshake (17), versions 0-1: choose how to log in. On a listener without SASL: ILLEGAL_SASL_STATE."""

from kpybroker.handlers.context import Call, Context
from kpywire import error_codes
from kpywire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_broker: Context, _request: SaslHandshakeRequest, _call: Call) -> SaslHandshakeResponse:
    """Nobody has to log in."""
    return SaslHandshakeResponse(error_code=error_codes.ILLEGAL_SASL_STATE, mechanisms=[])
