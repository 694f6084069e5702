"""The ids of keys that no key set had: whether to fetch the keys again for one (Kafka's ``RefreshingHttpsJwks``).

Anybody can send tokens with ids that do not exist, so each id counts once in a minute, and only some are remembered.
Pure.
"""

from collections.abc import Iterable
from typing import Final

MOST_IDS: Final = 16
AGAIN_AFTER_MS: Final = 60_000
LONGEST_ID: Final = 1_000
"""In characters."""


class MissingKeys:
    """The ids that were missing lately; the ones used last are at the end."""

    def __init__(self) -> None:
        self._again_at_ms: dict[str, float] = {}

    def should_ask(self, kid: str, now_ms: float) -> bool:
        """Whether to fetch the keys now, since a token names this key."""
        if len(kid) > LONGEST_ID:
            return False
        again_at_ms = self._again_at_ms.pop(kid, None)
        is_due = again_at_ms is None or again_at_ms <= now_ms
        self._again_at_ms[kid] = now_ms + AGAIN_AFTER_MS if again_at_ms is None or is_due else again_at_ms
        if len(self._again_at_ms) > MOST_IDS:
            del self._again_at_ms[next(iter(self._again_at_ms))]
        return is_due

    def found(self, kids: Iterable[str | None]) -> None:
        """These keys are there now."""
        for kid in kids:
            if kid is not None:
                self._again_at_ms.pop(kid, None)
