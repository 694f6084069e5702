"""The phases of a connection, as a table.

======== ===============================================================================================
SERVING  requests are served as they are read
PAUSED   a request was read that must wait: for an earlier reply, for the client to read its replies,
         for memory, or for its turn in the line
ASIDE    a request was put aside (`kpybroker.runtime.fairness.aside`): it is the next one to be served
CLOSED   the socket is closed
======== ===============================================================================================
"""

from typing import Final

SERVING: Final = 0
PAUSED: Final = 1
ASIDE: Final = 2
CLOSED: Final = 3

MAY_FOLLOW: Final = {
    SERVING: (PAUSED, ASIDE, CLOSED),
    PAUSED: (SERVING, PAUSED, CLOSED),
    ASIDE: (SERVING, CLOSED),
    CLOSED: (),
}
"""The phases that may follow each phase."""
