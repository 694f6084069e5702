"""The sockets that are readable or writable: one descriptor in the event loop for all sockets of the server.

The event loop watches one epoll, which watches the sockets. A turn of the loop polls it once and calls the connections
directly, which costs less per request than one loop callback for each. On systems without epoll the loop itself watches
every socket.
"""

import asyncio
from collections.abc import Callable, Sequence
from time import perf_counter_ns, thread_time_ns
from typing import Final, Protocol

from kpybroker.runtime.fairness.times import MANY
from kpybroker.runtime.fairness.turn import Turn
from kpybroker.runtime.io.system_sockets import SYSTEM_SOCKETS, Epoll, Sockets

READABLE: Final = 1
WRITABLE: Final = 4
GONE: Final = 24
"""EPOLLERR (8) and EPOLLHUP (16), which are reported without being asked for, at every poll."""
EVENTS_PER_TURN: Final = 256
EVENTS_PER_LOOK: Final = 16

_now_ns: Final = perf_counter_ns
_worked_ns: Final = thread_time_ns

OnEvent = Callable[[int], object]
"""A callback for ``READABLE``, ``WRITABLE`` or both. ``GONE`` is added where it is known, and is never the only one."""


class Poller(Protocol):
    """The interface of both pollers."""

    @property
    def now_ms(self) -> float:
        """The monotonic time of this turn, for uses that need no better precision."""

    @property
    def turn_ns(self) -> int:
        """The time at which this turn polled the sockets, in ns of ``perf_counter_ns``."""

    @property
    def worked_ns(self) -> int:
        """The CPU time of this thread at ``turn_ns``, in ns of ``thread_time_ns``; 0 where that is not known."""

    @property
    def events(self) -> int:
        """The number of times that a socket was readable or writable so far, without those that were discounted."""

    lined_up: int
    """How many of the events put a connection into the line."""

    @property
    def is_alone(self) -> bool:
        """Whether only one socket was found in this turn, as far as that is known."""

    @property
    def served_ns(self) -> int:
        """The time of the last turn that served a connection at once, in ns of ``perf_counter_ns``."""

    def count(self) -> None:
        """Count an event of a channel that the sockets do not show."""

    def discount(self) -> None:
        """Do not count an event that brought no request, but the end of a connection or a part of a handshake."""

    def add(self, descriptor: int, on_event: OnEvent, events: int = READABLE) -> None:
        """Watch a socket."""

    def change(self, descriptor: int, events: int) -> None:
        """Watch a socket for these events from now on; 0 for none."""

    def remove(self, descriptor: int) -> None:
        """Stop watching a socket. To be called before it is closed."""

    def look(self) -> None:
        """Serve a few of the sockets that are readable now, in the middle of longer work."""

    def close(self) -> None: ...


def poller_for(
    loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], float], turn: Turn, sockets: Sockets = SYSTEM_SOCKETS
) -> "EpollPoller | LoopPoller":
    """Return the best poller of this system. It informs ``turn`` when it serves many connections."""
    epoll = sockets.epoll()
    return LoopPoller(loop, monotonic_ms, turn) if epoll is None else EpollPoller(loop, monotonic_ms, turn, epoll)


class EpollPoller:
    """A poller with one epoll, which the event loop watches (Linux)."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], float], turn: Turn, epoll: Epoll
    ) -> None:
        self.loop = loop
        self._turn = turn
        self._monotonic_ms = monotonic_ms
        self._now_ms = monotonic_ms()
        self.turn_ns = perf_counter_ns()
        self.worked_ns = 0
        self.events = self.lined_up = 0
        self.is_alone = False
        self._served = self._served_ns = 0
        self._epoll = epoll
        self._on_event: dict[int, OnEvent] = {}
        loop.add_reader(self._epoll.fileno(), self._ready)

    @property
    def now_ms(self) -> float:
        return self._now_ms

    def add(self, descriptor: int, on_event: OnEvent, events: int = READABLE) -> None:
        self._on_event[descriptor] = on_event
        self._epoll.register(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        self._epoll.modify(descriptor, events)

    def remove(self, descriptor: int) -> None:
        if self._on_event.pop(descriptor, None) is not None:
            self._epoll.unregister(descriptor)

    @property
    def served_ns(self) -> int:
        served = self.events - self.lined_up
        if served != self._served:
            self._served, self._served_ns = served, self.turn_ns
        return self._served_ns

    def count(self) -> None:
        self.events += 1

    def discount(self) -> None:
        self.events -= 1

    def close(self) -> None:
        self.loop.remove_reader(self._epoll.fileno())
        self._epoll.close()

    def look(self) -> None:
        ready = self._epoll.poll(0, EVENTS_PER_LOOK)
        if ready:
            self._begin(ready)
            self._serve_shared(ready)

    def _ready(self) -> None:
        ready = self._epoll.poll(0, EVENTS_PER_TURN)
        self._begin(ready)
        if len(ready) < 2:
            self.is_alone = True
            try:
                self._serve(ready)
            finally:
                self.is_alone = False
        elif len(ready) < MANY:
            self._serve_shared(ready)
        else:
            self._turn.begin(self.turn_ns)
            try:
                self._serve_shared(ready)
            finally:
                self._turn.end()

    def _begin(self, ready: Sequence[tuple[int, int]]) -> None:
        # `served_ns`, written out: the turn before this one ends here.
        served = self.events - self.lined_up
        if served != self._served:
            self._served, self._served_ns = served, self.turn_ns
        self._now_ms = self._monotonic_ms()
        self.turn_ns = _now_ns()
        self.worked_ns = _worked_ns()
        self.events += len(ready)

    def _serve_shared(self, ready: Sequence[tuple[int, int]]) -> None:
        self.is_alone = False
        self._turn.is_shared = True
        try:
            self._serve(ready)
        finally:
            self._turn.is_shared = False

    def _serve(self, ready: Sequence[tuple[int, int]]) -> None:
        known = self._on_event
        for descriptor, events in ready:
            # Somebody before in this turn may have closed it.
            on_event = known.get(descriptor)
            if on_event is not None:
                on_event(events if events & (READABLE | WRITABLE) else events | READABLE)


class LoopPoller:
    """A poller that registers every socket with the event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, monotonic_ms: Callable[[], float], _turn: Turn) -> None:
        self.loop = loop
        self._monotonic_ms = monotonic_ms
        self.events = self.lined_up = 0
        self._on_event: dict[int, OnEvent] = {}

    @property
    def now_ms(self) -> float:
        return self._monotonic_ms()

    @property
    def turn_ns(self) -> int:
        return perf_counter_ns()

    @property
    def worked_ns(self) -> int:
        return 0

    @property
    def is_alone(self) -> bool:
        return False

    @property
    def served_ns(self) -> int:
        """Now: it is not known, and no line waits for a moment here."""
        return perf_counter_ns()

    def count(self) -> None:
        self.events += 1

    def add(self, descriptor: int, on_event: OnEvent, events: int = READABLE) -> None:
        self._on_event[descriptor] = on_event
        self.change(descriptor, events)

    def change(self, descriptor: int, events: int) -> None:
        on_event = self._on_event[descriptor]
        if events & READABLE:
            self.loop.add_reader(descriptor, self._ready, on_event, READABLE)
        else:
            self.loop.remove_reader(descriptor)
        if events & WRITABLE:
            self.loop.add_writer(descriptor, self._ready, on_event, WRITABLE)
        else:
            self.loop.remove_writer(descriptor)

    def remove(self, descriptor: int) -> None:
        if self._on_event.pop(descriptor, None) is not None:
            self.loop.remove_reader(descriptor)
            self.loop.remove_writer(descriptor)

    def discount(self) -> None:
        self.events -= 1

    def look(self) -> None:
        """Do nothing: the event loop watches each socket itself."""

    def close(self) -> None:
        for descriptor in list(self._on_event):
            self.remove(descriptor)

    def _ready(self, on_event: OnEvent, events: int) -> None:
        self.events += 1
        on_event(events)
