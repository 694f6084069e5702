"""The internal topics of streams groups that this broker has asked the controller for, and the refusals.

(Kafka: ``createStreamsInternalTopics``, ``ExpiringErrorCache``.) A group asks again with
each heartbeat, so a topic is asked for once until there is an answer, and after a refusal not again for a while.
Bounded.
"""

from collections.abc import Collection
from typing import Final

from kpywire import error_codes
from kpywire.messages.create_topics import CreateTopicsResponse

MOST_KEPT: Final = 1_000


class StreamsTopics:
    """The topics that were asked for or refused, on the clock of the caller."""

    def __init__(self) -> None:
        self._asked_until_ms: dict[str, float] = {}
        self._refused: dict[str, tuple[str, float]] = {}
        """Kafka's text by name, and when it is forgotten."""

    def begin(self, names: Collection[str], now_ms: float, patience_ms: float) -> list[str]:
        """The topics that are to be asked for now: nobody waits for their answer, and they were not just refused."""
        wanted = [
            name
            for name in names
            if self._asked_until_ms.get(name, now_ms) <= now_ms and self.refusal(name, now_ms) is None
        ]
        self._asked_until_ms.update(dict.fromkeys(wanted, now_ms + patience_ms))
        return wanted

    def end(self, names: Collection[str], response: CreateTopicsResponse, now_ms: float, kept_ms: float) -> None:
        """Note the answer: refusals are kept for ``kept_ms``."""
        for name in names:
            self._asked_until_ms.pop(name, None)
        for topic in response.topics:
            if topic.error_code == error_codes.NONE:
                continue
            if len(self._refused) >= MOST_KEPT:
                del self._refused[next(iter(self._refused))]
            text = topic.error_message or error_codes.message(topic.error_code)
            self._refused.pop(topic.name, None)
            self._refused[topic.name] = text, now_ms + kept_ms

    def refusal(self, name: str, now_ms: float) -> str | None:
        """Why a topic was refused just now; None if it was not."""
        known = self._refused.get(name)
        if known is None:
            return None
        text, until_ms = known
        if until_ms <= now_ms:
            del self._refused[name]
            return None
        return text
