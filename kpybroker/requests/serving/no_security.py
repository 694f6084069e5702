"""Kafka's answers about ACLs on a broker without them, as every broker here is.

Used by the handlers of these API keys, which are one module each.
"""

from kpybroker.runtime.calls.close_connection import CloseConnection
from kpywire import error_codes

NO_AUTHORIZER = "No Authorizer is configured."
SECURITY_DISABLED = error_codes.SECURITY_DISABLED
_UNKNOWN = 0


def check_acl_elements(*elements: int) -> None:
    """Check type, pattern, operation and permission of an ACL or a filter. As in Kafka, UNKNOWN closes the
    connection."""
    if _UNKNOWN in elements:
        raise CloseConnection("an ACL with unknown elements")
