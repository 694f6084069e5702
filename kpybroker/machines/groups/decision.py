"""The outcome of one input of the group coordinator, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kpybroker.machines.coordination.decision import CoordinatorDecision
from kpybroker.machines.groups.stories import LONGEST_CHARS, Event, Stories

if TYPE_CHECKING:
    import random

    from kpybroker.machines.groups.counts import Counts
    from kpybroker.machines.groups.settings import GroupSettings
    from kpybroker.machines.groups.timers import GroupTimer, GroupTimers
    from kpybroker.machines.metadata.topic_view import TopicView


AGES_MS: Final = 1 << 62
"""Longer than any interval."""


class GroupDecision(CoordinatorDecision[Any]):
    """The records, some of them perhaps prepared, and the replies of one decision, with all that it depends on in
    addition to the groups."""

    __slots__ = ("counts", "loaded_ms", "rng", "settings", "stories", "then", "timers", "topics")

    def __init__(  # noqa: PLR0913
        self,
        now_ms: int,
        timestamp_ms: int,
        settings: GroupSettings,
        topics: TopicView,
        rng: random.Random,
        timers: GroupTimers,
        stories: Stories,
        counts: Counts,
        loaded_ms: int,
    ) -> None:
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.settings = settings
        self.topics = topics
        self.rng = rng
        self.timers = timers
        self.stories = stories
        self.counts = counts
        self.loaded_ms = loaded_ms
        """The time when the log was loaded, on the clock of ``now_ms``."""
        self.then: Any = None
        """An event that follows when the records are committed."""
        self.records = []
        self.replies = []

    def tell(self, group_id: str, what: str, member: Any = None, detail: str = "") -> None:
        """Note an event in the story of a group. ``member`` is one of any kind of group."""
        event = Event(self.timestamp_ms, what, detail=detail[:LONGEST_CHARS])
        if member is not None:
            event = event._replace(
                member_id=member.member_id, client_id=member.client_id, client_host=member.client_host
            )
        self.stories.tell(group_id, event)

    def set_timer(self, timer: GroupTimer, delay_ms: int) -> None:
        """Set a timer to fire after this time."""
        self.timers.set(timer, self.now_ms + delay_ms)

    def settings_of(self, group_id: str) -> GroupSettings:
        """The settings of one group."""
        return self.settings.of_group(group_id)

    def ms_since(self, timestamp_ms: int) -> int:
        """The time since a moment that a record names. A moment that is still to come was written by a coordinator
        whose clock was ahead; nothing waits for that, so it counts as ages ago."""
        passed_ms = self.timestamp_ms - timestamp_ms
        return passed_ms if passed_ms >= 0 else AGES_MS

    def new_uuid(self) -> str:
        """A random UUID in its usual notation (RFC 4122, version 4)."""
        bits = self.rng.getrandbits(128)
        digits = f"{bits & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
