"""Kafka's answers about ACLs and delegation tokens on a broker without them, as every broker here is.

Used by the handlers of these API keys, which are one module each.
"""

from kpybroker.calls.close_connection import CloseConnection
from kpywire import error_codes

PRINCIPAL_TYPE, PRINCIPAL_NAME = "User", "ANONYMOUS"
"""The principal of every client without authentication (``KafkaPrincipal.ANONYMOUS``)."""

NO_AUTHORIZER = "No Authorizer is configured."
SECURITY_DISABLED = error_codes.SECURITY_DISABLED
TOKENS_NOT_ALLOWED = error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
"""The error for clients that have not logged in. It comes before the check whether tokens are enabled."""
NO_TIMESTAMP = -1
_UNKNOWN = 0


def check_acl_elements(*elements: int) -> None:
    """Check type, pattern, operation and permission of an ACL or a filter. As in Kafka, UNKNOWN closes the
    connection."""
    if _UNKNOWN in elements:
        raise CloseConnection("an ACL with unknown elements")
