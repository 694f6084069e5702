"""The controller of one broker at work: one event after the other, each with its operations on ZooKeeper.

Every broker has one. It stands for election, and does nothing more while another broker is the controller. An
operation whose connection is lost is sent again, so it may be done twice; the controller's conditions allow for that.
When the session ends, the event under way ends too, and with it the reign.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, Final, NamedTuple

from kpybroker.hosts.zookeeper.client.client import NoAnswer, ZooKeeperClient
from kpybroker.machines.zookeeper.controller import events
from kpybroker.machines.zookeeper.controller.controller import KafkaController, NotController
from kpybroker.machines.zookeeper.controller.steps import ControllerMoved, Steps, UnexpectedAnswer
from kpybroker.machines.zookeeper.tree.contents import InvalidZnode
from kpybroker.runtime.io.scheduler import Scheduler

log = logging.getLogger("kpybroker.zookeeper")

PAUSE_AFTER_FAILURE_MS: Final = 1_000.0
"""A broker that could not take over waits before it stands again, so that another one may."""

Done = Callable[[Any], object]
"""A callback for the result of an event, or for the exception that ended it."""


class _Task(NamedTuple):
    steps: Callable[[], Steps[Any]]
    done: Done
    is_reelection: bool = False


class EventQueue:
    """The queue of events of one broker's controller."""

    def __init__(
        self,
        controller: KafkaController,
        client: ZooKeeperClient,
        scheduler: Scheduler,
        begin: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """``begin`` begins a task."""
        self.controller = controller
        self._client = client
        self._scheduler = scheduler
        self._begin = begin
        self._waiting: deque[_Task] = deque()
        self._is_working = False
        self._session = 0
        """Counts the sessions: an event of an earlier one is not continued."""

    def look(self) -> None:
        """Learn who the controller is, in a new session and after each change."""
        self._add(_Task(self._reelect, _nothing, is_reelection=True))

    def happened(self, path: str) -> None:
        """A watched znode has changed."""
        event = events.event_of(path)
        if isinstance(event, events.ControllerChange):
            self.look()
        elif event is not None:
            self.handle(event)

    def handle(self, event: events.Event) -> None:
        """An event for the controller, if this broker is it."""
        if self.controller.is_active or self._waiting or self._is_working:
            self._add(_Task(lambda: self.controller.handle(event), _nothing))

    def ask(self, steps: Callable[[], Steps[Any]], done: Done) -> None:
        """Ask the controller. ``done`` gets the result, or an exception: `NotController` if this broker is not it."""
        self._add(_Task(steps, done))

    def session_ended(self) -> None:
        """The session has expired: another broker may be the controller by now."""
        self._session += 1
        self.controller.abdicate()
        waiting, self._waiting = self._waiting, deque()
        for each in waiting:
            each.done(NotController())

    def _reelect(self) -> Steps[None]:
        return self.controller.controller_changed(self._scheduler.now_ms())

    def _add(self, task: _Task) -> None:
        self._waiting.append(task)
        if not self._is_working:
            self._is_working = True
            self._begin(self._work())

    async def _work(self) -> None:
        try:
            while self._waiting:
                await self._do(self._waiting.popleft())
        finally:
            self._is_working = False

    async def _do(self, task: _Task) -> None:
        try:
            result = await self._run(task.steps())
        except (NotController, NoAnswer) as error:
            task.done(NotController() if isinstance(error, NoAnswer) else error)
        except ControllerMoved as moved:
            log.info("Another broker is the controller: %s", moved)
            self.controller.abdicate()
            task.done(NotController())
            self.look()
        except (UnexpectedAnswer, InvalidZnode) as error:
            log.error("An event of the controller has failed: %s", error)
            task.done(error)
            if task.is_reelection:
                await self._resign()
        else:
            task.done(result)

    async def _resign(self) -> None:
        """The broker could not take over: it gives the office up, and stands again later."""
        # if this fails, the office is another broker's, or it ends with the session
        with suppress(ControllerMoved, NotController, NoAnswer, UnexpectedAnswer):
            await self._run(self.controller.resign())
        self._scheduler.call_later(PAUSE_AFTER_FAILURE_MS, self.look)

    async def _run(self, steps: Steps[Any]) -> Any:
        session = self._session
        try:
            operations = next(steps)
            while True:
                results = await self._client.ask_all_until_answered(operations)
                if session != self._session:
                    raise NotController
                operations = steps.send(results)
        except StopIteration as end:
            return end.value
        finally:
            steps.close()


def _nothing(_result: Any) -> None:
    """An event has ended."""
