"""Topics that the controller was asked to create and that do not exist yet, with the callbacks that wait for them.

A topic takes some milliseconds, less than any client waits before it asks again (100 ms, librdkafka a second).

Invariant: each callback is called once: when the topic exists, when it cannot be created, or after `PATIENCE_MS`.
"""

from collections.abc import Callable, Container

from kpybroker.runtime.io.scheduler import Scheduler

PATIENCE_MS = 500.0


class ExpectedTopics:
    """The topics that one broker waits for, by name."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def expect(self, name: str, then: Callable[[], None]) -> bool:
        """Call ``then`` when the topic exists or waiting is over. Return whether to ask the controller for it now."""
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(then)
            return False
        waiting = self._waiting[name] = [then]
        self._scheduler.call_later(PATIENCE_MS, self._expire, name, waiting)
        return True

    def look(self, topics: Container[str]) -> None:
        """Call the callbacks of those topics that exist now; ``topics`` are all existing ones."""
        if self._waiting:
            for name in [name for name in self._waiting if name in topics]:
                self.give_up(name)

    def give_up(self, name: str) -> None:
        """Stop waiting for a topic, and call its callbacks."""
        for then in self._waiting.pop(name, ()):
            self._scheduler.call_soon(then)

    def _expire(self, name: str, waiting: list[Callable[[], None]]) -> None:
        if self._waiting.get(name) is waiting:
            self.give_up(name)
