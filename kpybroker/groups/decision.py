"""What one input leads to, while it is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import random

    from kpybroker.groups.record import Record
    from kpybroker.groups.settings import GroupSettings
    from kpybroker.groups.timers import Timer, Timers
    from kpybroker.journal import Prepared


class Decision:
    """Collects records and replies, and knows both clocks: ``now_ms`` is monotonic, ``timestamp_ms`` the wall's."""

    __slots__ = ("now_ms", "records", "replies", "rng", "settings", "timers", "timestamp_ms")

    def __init__(
        self, now_ms: int, timestamp_ms: int, settings: GroupSettings, timers: Timers, rng: random.Random
    ) -> None:
        self.now_ms = now_ms
        self.timestamp_ms = timestamp_ms
        self.settings = settings
        self.timers = timers
        self.rng = rng
        self.records: list[Record | Prepared] = []
        self.replies: list[tuple[Any, Any]] = []

    def reply(self, ticket: Any, message: Any) -> None:
        """Answer a request when the records are committed."""
        self.replies.append((ticket, message))

    def set_timer(self, timer: Timer, delay_ms: int) -> None:
        """Let a timer fire after this time."""
        self.timers.set(timer, self.now_ms + delay_ms)

    def new_uuid(self) -> str:
        """A random UUID in its usual notation (RFC 4122, version 4)."""
        bits = self.rng.getrandbits(128)
        digits = f"{bits & ~(0xF << 76) & ~(0x3 << 62) | 0x4 << 76 | 0x2 << 62:032x}"
        return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
