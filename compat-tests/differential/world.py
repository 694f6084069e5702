"""The topics and chances that the author of a sequence believes in. It never hears answers, so it may be wrong."""

from random import Random
from typing import Any, TypeVar

from differential.steps import Call, fit, learned
from kpybroker.requests.handlers import served_versions
from support.raw_requests import UNKNOWN_ID

T = TypeVar("T")


class World:
    """``rng`` decides everything; ``topics`` has the partitions of each topic that should be there."""

    def __init__(self, rng: Random) -> None:
        self.rng = rng
        self.topics: dict[str, int] = {}
        self.deleted: set[str] = set()

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def pick(self, *values: T) -> T:
        return self.rng.choice(values)

    def version(self, key: int) -> int:
        """One that is served; the latest more often than others."""
        first, last = served_versions()[key]
        return last if self.chance(0.3) else self.rng.randint(first, last)

    def topic(self) -> str:
        """A topic that should be there, now and then one that should not."""
        if not self.topics or self.chance(0.06):
            return self.pick("~nowhere", *sorted(self.deleted))
        return self.rng.choice(sorted(self.topics))

    def topic_id(self, topic: str) -> Any:
        """The id by which requests name it; seldom one that it had before, or nobody's."""
        if self.chance(0.06):
            return self.pick(learned("old_topic_id", topic), UNKNOWN_ID, bytes(16))
        return learned("topic_id", topic)

    def partition(self, topic: str) -> int:
        count = self.topics.get(topic, 1)
        return self.pick(-1, count, 7) if self.chance(0.05) else self.rng.randrange(count)

    def flag(self, probability: float = 0.5) -> bool:
        return self.chance(probability)


def call(actor: str, version: int, request: Any) -> Call:
    """A step, without what its version cannot say."""
    return Call(actor, version, fit(request, version))
