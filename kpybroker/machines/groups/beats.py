"""The time until a member's next heartbeat, where the coordinator asks for it sooner than Apache Kafka does. Pure.

A member learns of a change with its next heartbeat, so members at rest are asked often while a node has few of them: a
leave is then noticed within a second. All members of a node share one bound, because many small groups are as much work
as one large group.

Invariant: members at rest send at most `MOST_AT_REST` heartbeats a second to a node, or as many as the configured
interval makes of them, whichever is more.
"""

from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from kpybroker.machines.groups.settings import GroupSettings

BEATING_OFTEN: Final = frozenset({"apache-kafka-java"})
"""The libraries whose members may beat often: each lists a partition as its own until its program has given it up.
After an error librdkafka lists the partitions that its program has heard of, which are none while it has not yet heard
of its first assignment. Such a heartbeat gives up partitions that the program is then given for a moment."""

AT_REST_MS: Final = 1_000
"""The shortest interval of a member of a group at rest."""

MOST_AT_REST: Final = 200
"""The heartbeats a second for which a node shortens the interval of members at rest."""


def at_rest_ms(usual_ms: int, unsettled_ms: int, members: int) -> int:
    """The interval of a member of a group at rest, on a node with this number of ``members``. ``usual_ms`` is the
    configured interval, ``unsettled_ms`` that of a group that is not at rest; 0 means that all keep to the first."""
    if not unsettled_ms:
        return usual_ms
    return min(usual_ms, max(AT_REST_MS, unsettled_ms, members * 1_000 // MOST_AT_REST))


class Beat(NamedTuple):
    """The times of a member at rest."""

    session: tuple[str, str, str]
    """The key of the timer of its session."""
    session_timeout_ms: int
    usual_ms: int
    unsettled_ms: int = 0
    """Its heartbeat interval is `at_rest_ms` of these two."""


class Rest:
    """The last heartbeat of a member at rest, and its answer."""

    __slots__ = ("beat", "message", "response", "settings", "topics_version")

    def __init__(self, message: Any, response: Any, beat: Beat, settings: "GroupSettings", topics_version: int) -> None:
        self.message = message
        self.response = response
        self.beat = beat
        self.settings = settings
        self.topics_version = topics_version
