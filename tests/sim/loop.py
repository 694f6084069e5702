"""An event loop of one process, in virtual time: asyncio's interface as far as nodes use it.

As asyncio's own, a turn serves who is readable, then runs what was ready when it began. A process that has died has no
more turns, one that is paused has its next when it goes on. What a callback raises is a violation: production would
have lost it in a log.
"""

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from kpystorage.sim_disk import SimulatedCrash

from .world import Timer

if TYPE_CHECKING:
    from .network import Descriptor, Host, Network
    from .world import World

TURN_MS = 0.02
"""Between two turns of a loop that is busy."""


class Handle(Timer):
    """A callback that is ready or will be, as asyncio has it."""

    __slots__ = ("context", "due_s")

    def __init__(
        self, call: Callable[..., object], arguments: tuple[Any, ...], context: Context | None, due_s: float = 0.0
    ) -> None:
        self.call = call
        self.arguments = arguments
        self.context = context
        self.due_s = due_s

    def cancelled(self) -> bool:
        return self.call is None

    def when(self) -> float:
        return self.due_s


class SimulatedLoop(asyncio.AbstractEventLoop):
    """The loop of one process on a host, whose clock runs at the host's rate."""

    def __init__(self, world: "World", network: "Network", host: "Host", died: Callable[[], None]) -> None:
        """``died`` is called when the disk ends the process in the middle of a call."""
        self.world = world
        self.network = network
        self.host = host
        self.is_alive = True
        self.resumes_ms = 0.0
        """The time when a process that stands still goes on."""
        self._died = died
        self._ready: deque[Handle] = deque()
        self._readers: dict[int, tuple[Descriptor, Handle]] = {}
        self._turn_due = False
        self._handle_turn = self._turn

    # What the world does to it

    def end(self) -> None:
        """The process dies: nothing of it runs any more."""
        self.is_alive = False
        self._ready.clear()
        self._readers.clear()

    def pause(self, duration_ms: float) -> None:
        """Stand still, as after SIGSTOP or without a processor."""
        self.resumes_ms = max(self.resumes_ms, self.world.now_ms + duration_ms)

    def wake(self) -> None:
        """Something is readable, or ready: have a turn."""
        if not self._turn_due and self.is_alive:
            self._turn_due = True
            self.world.later(TURN_MS, self._handle_turn)

    def _turn(self) -> None:
        self._turn_due = False
        if not self.is_alive:
            return
        if self.world.now_ms < self.resumes_ms:
            self._turn_due = True
            self.world.later(self.resumes_ms - self.world.now_ms, self._handle_turn)
            return
        ready = self._ready
        readable = [(descriptor, handle) for descriptor, handle in self._readers.values() if descriptor.is_ready()]
        ready.extend([handle for _, handle in readable])
        self.world.acts(self.host)
        asyncio._set_running_loop(self)
        try:
            for _ in range(len(ready)):
                if not ready:
                    break
                handle = ready.popleft()
                if handle.call is not None:
                    self._run(handle)
        except SimulatedCrash:
            self._died()
        finally:
            asyncio._set_running_loop(None)
        if ready or any(descriptor.is_ready() for descriptor, _ in readable):  # of the others it was woken already
            self.wake()

    def _run(self, handle: Handle) -> None:
        assert handle.call is not None
        try:
            if handle.context is None:
                handle.call(*handle.arguments)
            else:
                handle.context.run(handle.call, *handle.arguments)
        except SimulatedCrash:
            raise
        except Exception as error:
            self.host.failed_with(f"a callback raised {error!r}", error)

    # What asyncio asks of it

    def time(self) -> float:
        return self.host.monotonic_ms() / 1000.0

    def call_soon(self, callback: Callable[..., Any], *arguments: Any, context: Context | None = None) -> Any:
        handle = Handle(callback, arguments, context)
        if self.is_alive:
            self._ready.append(handle)
            self.wake()
        return handle

    def call_soon_threadsafe(
        self, callback: Callable[..., Any], *arguments: Any, context: Context | None = None
    ) -> Any:
        return self.call_soon(callback, *arguments, context=context)

    def call_later(
        self, delay: float, callback: Callable[..., Any], *arguments: Any, context: Context | None = None
    ) -> Any:
        handle = Handle(callback, arguments, context, self.time() + delay)
        if self.is_alive:
            self.world.later(max(delay, 0.0) * 1000.0 / self.host.rate, self._timer_due, handle)
        return handle

    def call_at(
        self, when: float, callback: Callable[..., Any], *arguments: Any, context: Context | None = None
    ) -> Any:
        return self.call_later(when - self.time(), callback, *arguments, context=context)

    def _timer_due(self, handle: Handle) -> None:
        if self.is_alive and handle.call is not None:
            self._ready.append(handle)
            self.wake()

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, coroutine: Any, *, name: object = None, context: Context | None = None) -> Any:
        del name  # asyncio counts them for the whole process
        return asyncio.Task(coroutine, loop=self, name="task", context=context)

    def add_reader(self, descriptor: Any, callback: Callable[..., Any], *arguments: Any) -> None:
        self.remove_reader(descriptor)
        watched = self.network.descriptors[descriptor]
        watched.watcher = self
        self._readers[descriptor] = watched, Handle(callback, arguments, None)
        if watched.is_ready():
            self.wake()

    def remove_reader(self, descriptor: Any) -> bool:
        found = self._readers.pop(descriptor, None)
        if found is not None:
            found[1].cancel()  # it may be ready in this turn
        return found is not None

    async def getaddrinfo(self, host: Any, port: Any, **_options: Any) -> list[Any]:
        """Each name is its only address."""
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", (host, port))]

    async def create_connection(self, factory: Any, host: Any = None, port: Any = None, **_options: Any) -> Any:
        made: asyncio.Future[Any] = self.create_future()
        self.network.connect(self.host, self, host, port, made)
        end = await made
        protocol = factory()
        transport = self.network.transport(end, protocol, self)
        protocol.connection_made(transport)
        return transport, protocol

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_alive:
            error = context.get("exception")
            if not isinstance(error, SimulatedCrash):
                self.host.failed_with(f"{context.get('message')}: {error!r}", error)
