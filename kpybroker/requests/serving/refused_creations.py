"""The topics that a broker was refused to create for clients that only asked for their metadata.

Clients ask again and again for a topic that does not exist. If a bound forbids it, they get the error for a while
instead of waiting without a reason, and the controller is not asked each time. Bounded.
"""

from typing import Final

from kpybroker.runtime.calls.principal import Principal
from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsResponse

KEPT_MS: Final = 5_000
MOST_KEPT: Final = 1_000


class RefusedCreations:
    """The refusals of the last seconds, by principal and name."""

    def __init__(self) -> None:
        self._until_ms: dict[tuple[Principal, str], float] = {}

    def note(self, principal: Principal, response: CreateTopicsResponse, now_ms: float) -> None:
        """Keep the refusals in a response."""
        for topic in response.topics:
            if topic.error_code == error_codes.POLICY_VIOLATION:
                if len(self._until_ms) >= MOST_KEPT:
                    del self._until_ms[next(iter(self._until_ms))]
                self._until_ms[principal, topic.name] = now_ms + KEPT_MS

    def holds(self, principal: Principal, name: str, now_ms: float) -> bool:
        """Whether a principal was refused this topic just now."""
        until_ms = self._until_ms.get((principal, name))
        if until_ms is None:
            return False
        if until_ms <= now_ms:
            del self._until_ms[principal, name]
            return False
        return True
