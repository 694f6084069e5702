"""What Kafka answers about ACLs and delegation tokens where nobody has set them up, as on every broker of ours.

Not handlers: those of the API keys use it, one module per key.
"""

from kpybroker.server.frames import CloseConnection
from kpywire import error_codes

PRINCIPAL_TYPE, PRINCIPAL_NAME = "User", "ANONYMOUS"
"""Who every client is without authentication (``KafkaPrincipal.ANONYMOUS``)."""

NO_AUTHORIZER = "No Authorizer is configured."
SECURITY_DISABLED = error_codes.SECURITY_DISABLED
TOKENS_NOT_ALLOWED = error_codes.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
"""For who has not logged in; asked before whether tokens are enabled."""
NO_TIMESTAMP = -1
_UNKNOWN = 0


def check_acl_elements(*elements: int) -> None:
    """Type, pattern, operation and permission of an ACL or filter: Kafka hangs up on a client that sends UNKNOWN."""
    if _UNKNOWN in elements:
        raise CloseConnection("an ACL with unknown elements")
