"""Topics that were asked of the controller and are not there yet, and who waits for them.

They take some milliseconds, less than any client waits before it asks again (100 ms, librdkafka a second).

Invariant: whoever waits is called once: when the topic is there, when it cannot be, or after `PATIENCE_MS`.
"""

from collections.abc import Callable, Container

from kpybroker.io.scheduler import Scheduler

PATIENCE_MS = 500.0


class ExpectedTopics:
    """The topics that one broker waits for, by name."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: dict[str, list[Callable[[], None]]] = {}

    def expect(self, name: str, then: Callable[[], None]) -> bool:
        """Call ``then`` when the topic is there, or is not to be waited for; whether it has to be asked for now."""
        waiting = self._waiting.get(name)
        if waiting is not None:
            waiting.append(then)
            return False
        waiting = self._waiting[name] = [then]
        self._scheduler.call_later(PATIENCE_MS, self._expire, name, waiting)
        return True

    def look(self, topics: Container[str]) -> None:
        """These are all topics there are now."""
        if self._waiting:
            for name in [name for name in self._waiting if name in topics]:
                self.give_up(name)

    def give_up(self, name: str) -> None:
        """Waiting longer would not help."""
        for then in self._waiting.pop(name, ()):
            self._scheduler.call_soon(then)

    def _expire(self, name: str, waiting: list[Callable[[], None]]) -> None:
        if self._waiting.get(name) is waiting:
            self.give_up(name)
