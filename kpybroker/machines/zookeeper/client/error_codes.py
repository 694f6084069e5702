"""The error codes of ZooKeeper (``KeeperException.Code``), and their names."""

from typing import Final

OK: Final = 0
SYSTEM_ERROR: Final = -1
RUNTIME_INCONSISTENCY: Final = -2
CONNECTION_LOSS: Final = -4
MARSHALLING_ERROR: Final = -5
UNIMPLEMENTED: Final = -6
BAD_ARGUMENTS: Final = -8
NO_NODE: Final = -101
NO_AUTH: Final = -102
BAD_VERSION: Final = -103
NO_CHILDREN_FOR_EPHEMERALS: Final = -108
NODE_EXISTS: Final = -110
NOT_EMPTY: Final = -111
SESSION_EXPIRED: Final = -112
INVALID_ACL: Final = -114
AUTH_FAILED: Final = -115
SESSION_MOVED: Final = -118
NOT_READ_ONLY: Final = -119
QUOTA_EXCEEDED: Final = -125
THROTTLED_OP: Final = -127

_NAMES: Final = {value: name for name, value in dict(globals()).items() if isinstance(value, int) and name.isupper()}


def name(code: int) -> str:
    """The name of a code; its number if ZooKeeper has none for it."""
    return _NAMES.get(code, str(code))
